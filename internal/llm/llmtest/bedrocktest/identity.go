package bedrocktest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// skew is how far a request's time may be from ours.
const skew = 5 * time.Minute

// checkIdentity verifies the API key, or computes the signature once more and
// compares. nil = the request is authorized.
func checkIdentity(r *http.Request, body []byte) *failure {
	given := r.Header.Get("Authorization")
	switch {
	case given == "":
		return &failure{http.StatusForbidden, "MissingAuthenticationTokenException", "Missing Authentication Token"}
	case given == "Bearer "+APIKey:
		return nil
	case strings.HasPrefix(given, "Bearer "):
		return &failure{http.StatusForbidden, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid."}
	}
	signed, ok := between(given, "SignedHeaders=", ",")
	scope, ok2 := between(given, "Credential=", ",")
	parts := strings.Split(scope, "/")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case !ok || !ok2 || len(parts) != 5 || err != nil:
		return &failure{http.StatusForbidden, "IncompleteSignatureException", "The request signature is not complete."}
	case parts[0] != AccessKeyID:
		return &failure{http.StatusForbidden, "UnrecognizedClientException", "The security token included in the request is invalid."}
	case parts[2] != Region || parts[3] != "bedrock":
		return &failure{http.StatusForbidden, "InvalidSignatureException", "Credential should be scoped to a valid region, service."}
	case time.Since(at).Abs() > skew:
		return &failure{http.StatusForbidden, "InvalidSignatureException", "Signature expired: " + r.Header.Get("X-Amz-Date")}
	}
	if want := signature(r, body, strings.Split(signed, ";"), at); want != given {
		// The service tells what it computed, with the headers that were signed.
		return &failure{http.StatusForbidden, "InvalidSignatureException", "The request signature we calculated does not match the signature " +
			"you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.\n\n" +
			"The Canonical String for this request should have been\n'POST\n" + r.URL.EscapedPath() +
			"\nx-amz-security-token:" + r.Header.Get("X-Amz-Security-Token") + "\n'"}
	}
	return nil
}

// signature is the Authorization header that the request, as it arrived, must have.
func signature(r *http.Request, body []byte, signed []string, at time.Time) string {
	again := r.Clone(context.Background())
	again.URL.Host, again.URL.Scheme = r.Host, "http"
	again.Header = http.Header{}
	again.ContentLength = 0
	for _, name := range signed {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength, _ = strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
			if again.ContentLength == 0 {
				again.ContentLength = r.ContentLength
			}
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	sum := sha256.Sum256(body)
	err := v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{AccessKeyID: AccessKeyID, SecretAccessKey: SecretAccessKey,
		SessionToken: r.Header.Get("X-Amz-Security-Token")}, again, hex.EncodeToString(sum[:]), "bedrock", Region, at)
	if err != nil {
		return ""
	}
	return again.Header.Get("Authorization")
}

func between(s, from, to string) (string, bool) {
	_, rest, ok := strings.Cut(s, from)
	found, _, ok2 := strings.Cut(rest, to)
	return strings.TrimSpace(found), ok && ok2
}
