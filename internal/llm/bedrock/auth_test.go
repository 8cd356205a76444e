package bedrock_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

func failure(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	return e
}

// The server computes every signature itself, over the path as it arrived.
func TestSignature(t *testing.T) {
	for _, id := range []string{claudeID, "a.b", "odd id/with:all?of#it%41+~",
		"arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc"} {
		for _, token := range []string{"", "session/token+with=chars"} {
			cfg := bedrock.Config{AccessKeyID: account.NewSecret(bedrocktest.AccessKeyID),
				SecretAccessKey: account.NewSecret(bedrocktest.SecretAccessKey), SessionToken: account.NewSecret(token)}
			cfg.Model, cfg.Headers = id, map[string]string{"X-Team": "  a   b "}
			f := serve(t, cfg, llmtest.Reply{Text: "ok"})
			for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
				if _, err := f.model.Do(t.Context(), llmtest.Request(onDelta)); err != nil {
					t.Errorf("%q: %v", id, err)
				}
			}
		}
	}
}

func TestWrongKeys(t *testing.T) {
	tests := map[string]struct {
		set  func(*bedrock.Config)
		want string
	}{
		"key id":  {func(c *bedrock.Config) { c.AccessKeyID = account.NewSecret("AKIASOMEBODYELSE0000") }, "check the access key"},
		"secret":  {func(c *bedrock.Config) { c.SecretAccessKey = account.NewSecret("this is wrong and secret") }, "check the secret access key"},
		"API key": {func(c *bedrock.Config) { *c = bedrock.Config{}; c.APIKey = account.NewSecret("wrong-key-0123") }, "API key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := bedrock.Config{AccessKeyID: account.NewSecret(bedrocktest.AccessKeyID),
				SecretAccessKey: account.NewSecret(bedrocktest.SecretAccessKey), SessionToken: account.NewSecret("FwoGsessiontoken")}
			tt.set(&cfg)
			f := serve(t, cfg, llmtest.Reply{Text: "ok"})
			_, err := f.model.Do(t.Context(), llmtest.Request(nil))
			e := failure(t, err)
			if e.Class != llm.ClassAuth || e.Status != 403 || !strings.Contains(e.Message, tt.want) || !e.Free() {
				t.Errorf("got %#v", e)
			}
			for _, secret := range []string{"FwoGsessiontoken", "this is wrong", "wrong-key-0123", bedrocktest.SecretAccessKey} {
				if strings.Contains(e.Message, secret) {
					t.Errorf("%q is in the message: %s", secret, e.Message)
				}
			}
		})
	}
}

func TestChainEnvironment(t *testing.T) {
	noEnvironment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", bedrocktest.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", bedrocktest.SecretAccessKey)
	t.Setenv("AWS_SESSION_TOKEN", "of-the-environment")
	f := serve(t, bedrock.Config{UseEnvironment: ptr(true)}, llmtest.Reply{Text: "ok"})
	if _, err := f.model.Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	if got := f.requests()[0].header.Get("X-Amz-Security-Token"); got != "of-the-environment" {
		t.Errorf("session token %q", got)
	}
}

// Keys that were renewed on disk are found without a restart, and a key that is
// not masked in advance does not show in an error.
func TestChainRenews(t *testing.T) {
	home := noEnvironment(t)
	profile := func(secret, token string) {
		writeFile(t, filepath.Join(home, "credentials"), "[work]\naws_access_key_id = "+bedrocktest.AccessKeyID+
			"\naws_secret_access_key = "+secret+"\naws_session_token = "+token+"\n")
	}
	profile(bedrocktest.SecretAccessKey, "old-session")
	var expired atomic.Bool
	strict := bedrocktest.Handler(func(*http.Request, []byte) llmtest.Reply { return llmtest.Reply{Text: "ok"} })
	chain := bedrock.NewChain(nil)
	m := connect(t, bedrock.Config{UseEnvironment: ptr(true), Profile: "work", Chain: chain}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expired.Load() && r.Header.Get("X-Amz-Security-Token") == "old-session" {
			w.Header().Set("X-Amzn-Errortype", "ExpiredTokenException")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message":"The security token included in the request is expired: old-session"}`))
			return
		}
		strict.ServeHTTP(w, r)
	}))
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	expired.Store(true)
	_, err := m.Do(t.Context(), llmtest.Request(nil))
	if e := failure(t, err); e.Class != llm.ClassAuth || strings.Contains(e.Message, "old-session") || !strings.Contains(e.Message, "aws sso login") {
		t.Fatalf("got %#v", e)
	}
	profile(bedrocktest.SecretAccessKey, "new")
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatalf("the renewed keys: %v", err)
	}
}

// A machine without AWS does not wait long for a metadata service that says
// nothing, and says what to set.
func TestNoCredentials(t *testing.T) {
	for name, tt := range map[string]struct {
		env  func(*testing.T)
		wait time.Duration
	}{
		"disabled": {func(*testing.T) {}, 0},
		"silent": {func(t *testing.T) {
			gone := make(chan struct{})
			silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-gone:
				}
			}))
			t.Cleanup(func() { close(gone); silent.Close() })
			t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", silent.URL)
		}, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			tt.env(t)
			f := serve(t, bedrock.Config{UseEnvironment: ptr(true), CredentialWait: tt.wait}, llmtest.Reply{Text: "ok"})
			begin := time.Now()
			_, err := f.model.Do(t.Context(), llmtest.Request(nil))
			e := failure(t, err)
			if e.Class != llm.ClassAuth || !e.NotSent || !e.Free() || !strings.Contains(e.Message, "AWS_ACCESS_KEY_ID") {
				t.Errorf("got %#v", e)
			}
			if took := time.Since(begin); took > bedrock.DefaultCredentialWait {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Whoever stops a call does not wait for the search either.
func TestCredentialsAreCancelled(t *testing.T) {
	noEnvironment(t)
	asked := make(chan struct{})
	var once sync.Once
	gone := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	}))
	t.Cleanup(func() { close(gone); silent.Close() })
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", silent.URL)
	f := serve(t, bedrock.Config{UseEnvironment: ptr(true)}, llmtest.Reply{Text: "ok"})
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(stopped) }()
	if _, err := f.model.Do(ctx, llmtest.Request(nil)); !errors.Is(err, stopped) {
		t.Fatalf("got %v", err)
	}
}

// Models that share a chain ask the token service once.
func TestChainIsShared(t *testing.T) {
	noEnvironment(t)
	var asked atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"AccessKeyId":"` + bedrocktest.AccessKeyID + `","SecretAccessKey":"` + bedrocktest.SecretAccessKey +
			`","Token":"t","Expiration":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`))
	}))
	t.Cleanup(service.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", service.URL)
	chain := bedrock.NewChain(service.Client())
	for range 3 {
		f := serve(t, bedrock.Config{UseEnvironment: ptr(true), Chain: chain}, llmtest.Reply{Text: "ok"})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := f.model.Do(t.Context(), llmtest.Request(nil)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the token service was asked %d times", n)
	}
}
