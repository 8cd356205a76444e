package bedrock_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

// noEnvironment takes AWS out of the environment of a test.
func noEnvironment(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return home
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// addressOf returns where a model would send a call.
func addressOf(t *testing.T, cfg bedrock.Config) (address, auth string) {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		address, auth = r.URL.String(), r.Header.Get("Authorization")
		return nil, http.ErrServerClosed
	})}
	m, err := bedrock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Do(t.Context(), llmtest.Request(nil)); err == nil {
		t.Fatal("no error")
	}
	return address, auth
}

func TestAddress(t *testing.T) {
	home := noEnvironment(t)
	writeFile(t, filepath.Join(home, "config"), "[profile far]\nregion = ap-southeast-2\naws_access_key_id = a\naws_secret_access_key = b\n")
	const arn = "arn:aws:bedrock:us-west-2:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6"
	const arnPath = "arn%3Aaws%3Abedrock%3Aus-west-2%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-sonnet-4-6"
	tests := []struct {
		name, model, region, base, profile, want, scope string
	}{
		{"plain", "amazon.nova-lite-v1:0", "us-east-1", "", "", "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.nova-lite-v1%3A0/converse", "us-east-1"},
		{"profile id", "us.anthropic.claude-sonnet-4-6", "us-east-2", "", "", "https://bedrock-runtime.us-east-2.amazonaws.com/model/us.anthropic.claude-sonnet-4-6/converse", "us-east-2"},
		{"arn", arn, "", "", "", "https://bedrock-runtime.us-west-2.amazonaws.com/model/" + arnPath + "/converse", "us-west-2"},
		{"arn with a region beside it", arn, "us-east-1", "", "", "https://bedrock-runtime.us-east-1.amazonaws.com/model/" + arnPath + "/converse", "us-east-1"},
		{"as for LiteLLM", "converse/eu-west-3/mistral.x-v1:0", "", "", "", "https://bedrock-runtime.eu-west-3.amazonaws.com/model/mistral.x-v1%3A0/converse", "eu-west-3"},
		{"china", "a.b", "cn-north-1", "", "", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/a.b/converse", "cn-north-1"},
		{"gov", "a.b", "us-gov-west-1", "", "", "https://bedrock-runtime.us-gov-west-1.amazonaws.com/model/a.b/converse", "us-gov-west-1"},
		{"region of the base", "a.b", "", "https://vpce-1.bedrock-runtime.eu-north-1.vpce.amazonaws.com", "", "https://vpce-1.bedrock-runtime.eu-north-1.vpce.amazonaws.com/model/a.b/converse", "eu-north-1"},
		{"base with a path", "a b/c?d", "eu-north-1", "http://gw:80/bedrock/?x=y", "", "http://gw:80/bedrock/model/a%20b%2Fc%3Fd/converse", "eu-north-1"},
		{"profile of the server", "a.b", "", "", "far", "https://bedrock-runtime.ap-southeast-2.amazonaws.com/model/a.b/converse", "ap-southeast-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := bedrock.Config{Region: tt.region, Profile: tt.profile}
			cfg.Model, cfg.BaseURL = tt.model, tt.base
			if tt.profile == "" {
				cfg.AccessKeyID, cfg.SecretAccessKey = account.NewSecret("AKIATEST"), account.NewSecret("secretsecret")
			}
			address, auth := addressOf(t, cfg)
			if address != tt.want || !strings.Contains(auth, "/"+tt.scope+"/bedrock/aws4_request") {
				t.Errorf("%s\n%s", address, auth)
			}
		})
	}
}

func TestRegionOfEnvironment(t *testing.T) {
	home := noEnvironment(t)
	cfg := bedrock.Config{AccessKeyID: account.NewSecret("AKIATEST"), SecretAccessKey: account.NewSecret("secretsecret")}
	cfg.Model = "a.b"
	writeFile(t, filepath.Join(home, "config"), "[default]\nregion = sa-east-1\n")
	if address, _ := addressOf(t, cfg); !strings.Contains(address, ".sa-east-1.") {
		t.Errorf("the shared configuration's region: %s", address)
	}
	t.Setenv("AWS_REGION", "eu-south-1")
	if address, _ := addressOf(t, cfg); !strings.Contains(address, ".eu-south-1.") {
		t.Errorf("AWS_REGION: %s", address)
	}
	cfg.UseEnvironment = ptr(false)
	if _, err := bedrock.New(cfg); fault.CodeOf(err) != "llm_aws_region_missing" {
		t.Errorf("the environment was read: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	noEnvironment(t)
	key, secret := account.NewSecret("AKIATEST"), account.NewSecret("secretsecret")
	tests := map[string]struct {
		code string
		set  func(*bedrock.Config)
	}{
		"no model":         {"llm_model_missing", func(c *bedrock.Config) { c.Model = " " }},
		"only an API":      {"llm_model_missing", func(c *bedrock.Config) { c.Model = "converse/" }},
		"no region":        {"llm_aws_region_missing", func(c *bedrock.Config) { c.Region = "" }},
		"a host as region": {"llm_aws_region_invalid", func(c *bedrock.Config) { c.Region = "evil.example/" }},
		"half a key":       {"llm_aws_keys_incomplete", func(c *bedrock.Config) { c.SecretAccessKey = account.Secret{} }},
		"nothing": {"llm_aws_credentials_missing", func(c *bedrock.Config) {
			*c = bedrock.Config{ModelConfig: c.ModelConfig, Region: c.Region, UseEnvironment: ptr(false)}
		}},
		"a base that is none":  {"llm_base_url_invalid", func(c *bedrock.Config) { c.BaseURL = "ftp://x" }},
		"a key with a newline": {"llm_api_key_invalid", func(c *bedrock.Config) { c.APIKey = account.NewSecret("a\nb") }},
		"no such profile":      {"llm_aws_profile_invalid", func(c *bedrock.Config) { c.Profile, c.Region = "nobody", "" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := bedrock.Config{Region: "us-east-1", AccessKeyID: key, SecretAccessKey: secret}
			cfg.Model = "a.b"
			tt.set(&cfg)
			_, err := bedrock.New(cfg)
			if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != tt.code || fault.PublicText(err) == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	cfg := bedrock.Config{Region: "us-east-1", AccessKeyID: account.NewSecret("a"), SecretAccessKey: account.NewSecret("b")}
	cfg.Model, cfg.ContextWindow, cfg.NoVision, cfg.Price = "converse/a.b", 1000, true, &llm.Price{Input: 1}
	m, err := bedrock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if i := m.Info(); i.Model != "bedrock/a.b" || i.ContextWindow != 1000 || i.Vision || !i.NativeTools || i.Price != cfg.Price {
		t.Errorf("%+v", i)
	}
}

// An API key goes to a gateway without a region, and a header of the user's wins.
func TestBearer(t *testing.T) {
	noEnvironment(t)
	f := serve(t, bedrock.Config{BearerToken: account.NewSecret(bedrocktest.APIKey), UseEnvironment: ptr(false)}, llmtest.Reply{Text: "ok"})
	if _, err := f.model.Do(t.Context(), llmtest.Request(nil)); err != nil {
		t.Fatal(err)
	}
	cfg := bedrock.Config{BearerToken: account.NewSecret("the-servers-token"), UseEnvironment: ptr(false)}
	cfg.APIKey, cfg.Model, cfg.BaseURL = account.NewSecret(bedrocktest.APIKey), "a.b", "https://gateway.example/x"
	if address, auth := addressOf(t, cfg); auth != "Bearer "+bedrocktest.APIKey || address != "https://gateway.example/x/model/a.b/converse" {
		t.Errorf("%s %s", address, auth)
	}
	cfg.Headers = map[string]string{"Authorization": "Basic abc"}
	if _, auth := addressOf(t, cfg); auth != "Basic abc" {
		t.Errorf("%s", auth)
	}
}
