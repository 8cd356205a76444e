package bedrock

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"parley/internal/llm"
	"parley/internal/llm/failure"
)

// Chain finds AWS credentials in the environment of the server and keeps them
// until they expire, so that many models ask a token service once. It is safe for
// concurrent use; its zero value is NewChain(nil).
type Chain struct {
	client *http.Client
	mu     sync.Mutex
	found  map[chainKey]*source
}

type chainKey struct{ profile, region string }

// source is where the credentials of a profile come from.
type source struct {
	provider aws.CredentialsProvider // with the SDK's cache
	mu       sync.Mutex
	served   bool // it has given credentials before
}

// NewChain returns an empty chain. client reaches the token services; nil = the
// SDK's own, which honours HTTP(S)_PROXY.
func NewChain(client *http.Client) *Chain {
	return &Chain{client: client}
}

// retrieve returns credentials within wait. Errors are *llm.Error, or ctx's.
func (c *Chain) retrieve(ctx context.Context, key chainKey, wait time.Duration) (aws.Credentials, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s, err := c.sourceOf(bounded, key, wait)
	if err != nil {
		return aws.Credentials{}, noCredentials(err, false)
	}
	got, err := s.provider.Retrieve(bounded)
	if ctx.Err() != nil {
		return aws.Credentials{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return aws.Credentials{}, noCredentials(err, s.served)
	}
	s.served = true
	return got, nil
}

// sourceOf returns the source of a key, and looks for it the first time: in
// files, not over the network.
func (c *Chain) sourceOf(ctx context.Context, key chainKey, wait time.Duration) (*source, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.found[key]; s != nil {
		return s, nil
	}
	options := []func(*config.LoadOptions) error{
		config.WithRegion(key.region),
		config.WithDefaultsMode(aws.DefaultsModeStandard), // "auto" would ask the metadata service
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = time.Minute }),
	}
	if key.profile != "" {
		options = append(options, config.WithSharedConfigProfile(key.profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, append(options, c.http(wait)...)...)
	if err != nil {
		return nil, err
	}
	if cfg.Credentials == nil {
		return nil, errors.New("the AWS configuration names no credentials")
	}
	if c.found == nil {
		c.found = map[chainKey]*source{}
	}
	s := &source{provider: cfg.Credentials}
	c.found[key] = s
	return s, nil
}

// http bounds every exchange with a token service: the SDK's cache goes on with a
// search when its caller has given up. The metadata service is never asked
// through a proxy, and has the SDK's own, shorter patience.
func (c *Chain) http(wait time.Duration) []func(*config.LoadOptions) error {
	if c.client == nil {
		return []func(*config.LoadOptions) error{config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(wait))}
	}
	own := *c.client
	own.Timeout = wait
	return []func(*config.LoadOptions) error{
		config.WithHTTPClient(&own),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = imds.New(imds.Options{}) }),
	}
}

// forget drops what is known of a key, so that renewed files are read again.
func (c *Chain) forget(key chainKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.found, key)
}

// noCredentials says what to set. Where there were credentials before, a token
// service is likely in trouble: that passes.
func noCredentials(err error, before bool) *llm.Error {
	if before {
		return &llm.Error{Class: llm.ClassNetwork, NotSent: true, Err: err,
			Message: failure.Bound("the AWS credentials cannot be renewed: " + err.Error())}
	}
	return &llm.Error{Class: llm.ClassAuth, NotSent: true, Err: err,
		Message: failure.Bound("no AWS credentials were found: set an access key, a Bedrock API key or an AWS profile with the model, " +
			"or give the server some (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a role); the AWS SDK said: " + err.Error())}
}
