package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
)

// service is the name that Bedrock's requests are signed for.
const service = "bedrock"

// authorizer puts the right to be made on a request.
type authorizer interface {
	// authorize adds headers for a request with that body, and returns the secrets
	// it used that the configuration does not have. Errors are *llm.Error, or ctx's.
	authorize(ctx context.Context, r *http.Request, body []byte) (secrets []string, err error)
	// renew reports whether other credentials may be there now, after a refusal.
	renew() bool
}

// authorizerOf chooses by what the configuration has. Errors are fault.Invalid.
func authorizerOf(cfg *Config, region string) (authorizer, error) {
	if cfg.AccessKeyID.IsSet() != cfg.SecretAccessKey.IsSet() {
		return nil, fault.New(fault.Invalid, "llm_aws_keys_incomplete", "Of the AWS access key, only one half is set.").
			WithHint("Set both the access key id and the secret access key, or neither.")
	}
	if cfg.hasKeys() {
		return &signer{v4: v4.NewSigner(), region: region, keys: staticKeys(cfg)}, nil
	}
	if token := cfg.bearer(); token != "" {
		return bearer(token), nil
	}
	if !cfg.useEnvironment() {
		return nil, fault.New(fault.Invalid, "llm_aws_credentials_missing", "The model has no AWS credentials.").
			WithHint("Set an AWS access key or a Bedrock API key: this server does not lend its own.")
	}
	chain := cfg.Chain
	if chain == nil {
		chain = NewChain(cfg.HTTPClient)
	}
	return &signer{v4: v4.NewSigner(), region: region, chain: chain, wait: cfg.CredentialWait,
		key: chainKey{profile: strings.TrimSpace(cfg.Profile), region: region}}, nil
}

func staticKeys(cfg *Config) *aws.Credentials {
	clean := func(s account.Secret) string { return strings.TrimSpace(s.Reveal()) }
	return &aws.Credentials{AccessKeyID: clean(cfg.AccessKeyID), SecretAccessKey: clean(cfg.SecretAccessKey),
		SessionToken: clean(cfg.SessionToken)}
}

// bearer is a Bedrock API key.
type bearer string

func (b bearer) authorize(_ context.Context, r *http.Request, _ []byte) ([]string, error) {
	if r.Header.Get("Authorization") == "" { // a gateway's own header wins
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return nil, nil
}

func (b bearer) renew() bool { return false }

// signer signs requests with the keys of the configuration, or of the chain.
type signer struct {
	v4     *v4.Signer
	region string
	keys   *aws.Credentials // nil = of the chain
	chain  *Chain
	key    chainKey
	wait   time.Duration
}

func (s *signer) authorize(ctx context.Context, r *http.Request, body []byte) ([]string, error) {
	creds := s.keys
	if creds == nil {
		found, err := s.chain.retrieve(ctx, s.key, s.wait)
		if err != nil {
			return nil, err
		}
		creds = &found
	}
	secrets := []string{creds.SecretAccessKey, creds.SessionToken, creds.AccessKeyID}
	if r.Header.Get("Authorization") != "" {
		return secrets, nil // a gateway's own header wins
	}
	sum := sha256.Sum256(body)
	if err := s.v4.SignHTTP(ctx, *creds, r, hex.EncodeToString(sum[:]), service, s.region, time.Now()); err != nil {
		return nil, &llm.Error{Class: llm.ClassAuth, NotSent: true, Err: err, Message: "the request cannot be signed: " + err.Error()}
	}
	return secrets, nil
}

func (s *signer) renew() bool {
	if s.chain == nil {
		return false
	}
	s.chain.forget(s.key)
	return true
}
