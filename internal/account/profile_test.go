package account_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/fault"
)

var sameSecret = cmp.Comparer(func(a, b account.Secret) bool { return a == b })

func secret(v string) account.Secret { return account.NewSecret(v) }

func parseLLM(t *testing.T, raw string) *account.LLMInput {
	t.Helper()
	in, err := account.ParseLLM(json.RawMessage(raw), "body", "llm")
	if err != nil {
		t.Fatalf("%s: %v", raw, fields(err))
	}
	return in
}

// fields renders what is wrong, without inputs.
func fields(err error) []string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return []string{fmt.Sprint(err)}
	}
	var out []string
	for _, field := range f.Fields {
		loc := strings.Trim(strings.ReplaceAll(fmt.Sprint(field.Loc), " ", "."), "[]")
		out = append(out, loc+" "+field.Type)
	}
	return out
}

// The object that clients send when their user changed nothing: all of it is
// understood, and comes back.
const clientDefaults = `{"model":"openai/gpt-4o","api_key":"k","base_url":null,"api_version":null,"provider_connection_id":null,
	"auth_type":"api_key","subscription_vendor":null,"aws_access_key_id":null,"aws_secret_access_key":null,"aws_session_token":null,
	"aws_region_name":null,"aws_profile_name":null,"aws_role_name":null,"aws_session_name":null,"aws_bedrock_runtime_endpoint":null,
	"openrouter_site_url":"https://x","openrouter_app_name":"App","num_retries":5,"retry_multiplier":8.0,"retry_min_wait":8,
	"retry_max_wait":64,"timeout":300,"max_message_chars":30000,"temperature":null,"top_p":1.0,"top_k":null,"max_input_tokens":null,
	"max_output_tokens":null,"model_canonical_name":null,"api_mode":"auto","capability_overrides":{},"extra_headers":null,
	"input_cost_per_token":null,"output_cost_per_token":null,"stream":false,"drop_params":true,"disable_vision":null,
	"caching_prompt":true,"log_completions":false,"log_completions_folder":"logs","custom_tokenizer":null,
	"native_tool_calling":true,"force_string_serializer":null,"inline_image_urls":null,"reasoning_effort":"high",
	"reasoning_summary":null,"enable_encrypted_reasoning":true,"prompt_cache_retention":"24h","extended_thinking_budget":200000,
	"seed":null,"usage_id":"default","litellm_extra_body":{},"is_subscription":false,"schema_version":1}`

func TestParseLLMKnowsWhatClientsSend(t *testing.T) {
	l, err := parseLLM(t, clientDefaults).Over(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := account.LLM{Model: "openai/gpt-4o", APIKey: secret("k"), APIMode: "auto", TopP: ref(1.0), ReasoningEffort: "high",
		ReasoningBudget: 200000, NativeToolCalling: &yes, CachingPrompt: &yes, PromptCacheRetention: "24h",
		Attempts: ref(5), RetryMultiplier: ref(8.0), RetryMin: ref(8.0), RetryMax: ref(64.0), Timeout: ref(300.0)}
	rest := l.Rest
	l.Rest = nil
	if diff := cmp.Diff(want, l, sameSecret); diff != "" {
		t.Error(diff)
	}
	if string(rest["usage_id"]) != `"default"` || string(rest["stream"]) != "false" || rest["is_subscription"] != nil {
		t.Errorf("rest %s", rest)
	}
}

func TestParseLLMIsStrict(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                                     "body.llm model_attributes_type",
		`{}`:                                                     "body.llm.model missing",
		`{"model":" "}`:                                          "body.llm.model value_error",
		`{"model":"a/b","model_name":"x"}`:                       "body.llm.model_name extra_forbidden",
		`{"model":"a/b","temperature":2.1}`:                      "body.llm.temperature less_than_equal",
		`{"model":"a/b","temperature":-1}`:                       "body.llm.temperature greater_than_equal",
		`{"model":"a/b","temperature":"hot"}`:                    "body.llm.temperature float_type",
		`{"model":"a/b","top_p":1.5}`:                            "body.llm.top_p less_than_equal",
		`{"model":"a/b","max_output_tokens":0}`:                  "body.llm.max_output_tokens greater_than_equal",
		`{"model":"a/b","max_input_tokens":1.5}`:                 "body.llm.max_input_tokens int_type",
		`{"model":"a/b","num_retries":-1}`:                       "body.llm.num_retries greater_than_equal",
		`{"model":"a/b","timeout":1e99}`:                         "body.llm.timeout less_than_equal",
		`{"model":"a/b","reasoning_effort":"huge"}`:              "body.llm.reasoning_effort literal_error",
		`{"model":"a/b","api_mode":"soap"}`:                      "body.llm.api_mode literal_error",
		`{"model":"a/b","caching_prompt":"yes"}`:                 "body.llm.caching_prompt bool_type",
		`{"model":"a/b","api_key":5}`:                            "body.llm.api_key string_type",
		`{"model":"a/b","extra_headers":{"X":1}}`:                "body.llm.extra_headers.X string_type",
		`{"model":"a/b","litellm_extra_body":[1]}`:               "body.llm.litellm_extra_body dict_type",
		`{"model":"a/b","input_cost_per_token":1}`:               "body.llm.output_cost_per_token value_error",
		`{"model":"a/b","output_cost_per_token":1}`:              "body.llm.input_cost_per_token value_error",
		`{"model":"a/b","fallback_profiles":["x","no/slash"]}`:   "body.llm.fallback_profiles.1 string_pattern_mismatch",
		`{"model":"a/b","stream":1}`:                             "body.llm.stream bool_type",
		`{"model":"a/b","seed":9007199254740993}`:                "body.llm.seed int_type",
		`{"model":"a/b","temperature":3,"top_p":2,"nonsense":1}`: "body.llm.temperature less_than_equal,body.llm.top_p less_than_equal,body.llm.nonsense extra_forbidden",
	} {
		_, err := account.ParseLLM(json.RawMessage(in), "body", "llm")
		if got := strings.Join(fields(err), ","); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// Secrets in a request that is wrong are not echoed.
func TestParseLLMDoesNotEchoSecrets(t *testing.T) {
	_, err := account.ParseLLM(json.RawMessage(`{"model":"a/b","api_key":["hush"],"extra_headers":{"X":["hush"]},"aws_secret_access_key":{"a":"hush"}}`))
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) != 3 {
		t.Fatal(err)
	}
	if text := fmt.Sprint(f.Fields); strings.Contains(text, "hush") {
		t.Error(text)
	}
}

func TestRenderHidesSecretsAndParsesAgain(t *testing.T) {
	l, err := parseLLM(t, `{"model":"openai/gpt-4o","api_key":"sk-hush","base_url":"https://x/v1","extra_headers":{"X-A":"hush-2"},
		"aws_access_key_id":"hush-3","temperature":0.5,"seed":7,"stream":true,"litellm_extra_body":{"a":1},"fallback_profiles":["b"]}`).Over(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, show := range map[string]func(account.Secret) string{"null": nil, "mask": account.Secret.String} {
		out, err := l.Render(show)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(out)
		if err != nil || strings.Contains(string(raw), "hush") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		want := map[string]string{"null": "null", "mask": `"**********"`}[name]
		if string(out["api_key"]) != want || string(out["stream"]) != "true" || out["rest"] != nil {
			t.Errorf("%s: %s", name, raw)
		}
		again, err := parseLLM(t, string(raw)).Over(&l, true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, again, sameSecret); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	out, err := l.Render(account.Secret.Reveal)
	if err != nil || string(out["api_key"]) != `"sk-hush"` || string(out["extra_headers"]) != `{"X-A":"hush-2"}` {
		t.Errorf("%s, %v", out, err)
	}
}

// The mask keeps what is stored, but never carries it to another place.
func TestTheMaskKeepsASecretWhereItBelongs(t *testing.T) {
	stored := account.LLM{Model: "openai/gpt-4o", APIKey: secret("k1"), ExtraHeaders: map[string]account.Secret{"X": secret("h1")}}
	for in, want := range map[string]string{
		`{"model":"openai/gpt-5","api_key":"**********"}`:                                          "k1",
		`{"model":"openai/gpt-5","api_key":"k2"}`:                                                  "k2",
		`{"model":"openai/gpt-5"}`:                                                                 "",
		`{"model":"openai/gpt-5","api_key":null}`:                                                  "",
		`{"model":"openai/gpt-5","api_key":""}`:                                                    "",
		`{"model":"anthropic/claude","api_key":"**********"}`:                                      "refused",
		`{"model":"openai/gpt-5","base_url":"https://evil","api_key":"**********"}`:                "refused",
		`{"model":"openai/gpt-5","base_url":"https://evil","extra_headers":{"X":"**********"}}`:    "refused",
		`{"model":"anthropic/claude","api_key":"k2"}`:                                              "k2",
		`{"model":"anthropic/claude"}`:                                                             "",
		`{"model":"openai/gpt-5","api_key":"k2","extra_headers":{"X":"**********","Y":"z"}}`:       "k2",
		`{"model":"openai/gpt-5","api_key":"k2","extra_headers":{"Unknown":"**********","Y":"z"}}`: "k2",
	} {
		l, err := parseLLM(t, in).Over(&stored, false)
		got := l.APIKey.Reveal()
		if fault.Is(err, fault.Invalid) {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", in, got, want, err)
		}
		if _, there := l.ExtraHeaders["Unknown"]; there {
			t.Error("a mask without a secret became a header")
		}
	}
	l, err := parseLLM(t, `{"model":"openai/gpt-5"}`).Over(&stored, true)
	if err != nil || l.APIKey.Reveal() != "k1" || l.ExtraHeaders["X"].Reveal() != "h1" {
		t.Errorf("not preserved: %v, %v", l.APIKey.IsSet(), err)
	}
	if stored.ExtraHeaders["X"].Reveal() != "h1" {
		t.Error("the stored profile was changed")
	}
}

func save(t *testing.T, s *account.Settings, name, llm string) {
	t.Helper()
	if err := s.SaveProfile(name, account.ProfileSave{LLM: parseLLM(t, llm), WithSecrets: true}); err != nil {
		t.Fatal(err)
	}
}

func TestProfileNames(t *testing.T) {
	s := &account.Settings{}
	for name, ok := range map[string]bool{"a": true, "A.b_c-9": true, "...": true, ".a": true, strings.Repeat("x", 64): true,
		"": false, ".": false, "..": false, strings.Repeat("x", 65): false, "a b": false, "a/b": false, "\u00e4": false, "a\n": false} {
		err := s.SaveProfile(name, account.ProfileSave{LLM: parseLLM(t, `{"model":"a/b"}`)})
		if (err == nil) != ok || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestProfileLimit(t *testing.T) {
	s := &account.Settings{}
	for i := range account.MaxProfiles {
		save(t, s, fmt.Sprint("p", i), `{"model":"a/b"}`)
	}
	err := s.SaveProfile("more", account.ProfileSave{LLM: parseLLM(t, `{"model":"a/b"}`)})
	if !fault.Is(err, fault.Conflict) || fault.CodeOf(err) != account.CodeProfileLimit {
		t.Error(err)
	}
	save(t, s, "p0", `{"model":"a/c"}`) // one that is there can be overwritten
}

func TestASnapshotIsWhatTheSettingsChoose(t *testing.T) {
	s := &account.Settings{}
	if err := s.SaveProfile("x", account.ProfileSave{}); !fault.Is(err, fault.Invalid) || len(s.Profiles) != 0 {
		t.Errorf("nothing is chosen: %v", err)
	}
	s.LLMModel, s.LLMBaseURL, s.LLMAPIKey = ref("p/m"), ref("https://x"), secret("k")
	for _, with := range []bool{true, false} {
		if err := s.SaveProfile("x", account.ProfileSave{WithSecrets: with}); err != nil {
			t.Fatal(err)
		}
		if p := s.Profiles["x"]; p.Model != "p/m" || p.BaseURL != "https://x" || p.APIKey.IsSet() != with {
			t.Errorf("with secrets %v: %+v", with, p)
		}
	}
}

func TestActivateAndWhatFollows(t *testing.T) {
	s := &account.Settings{LLMModel: ref("openai/old"), LLMAPIKey: secret("old-key")}
	save(t, s, "fast", `{"model":"anthropic/haiku","api_key":"k1","temperature":0.3}`)
	save(t, s, "same", `{"model":"openai/new","temperature":0.4}`)
	save(t, s, "else", `{"model":"gemini/pro"}`)
	if err := s.ActivateProfile("nope"); !fault.Is(err, fault.NotFound) || fault.CodeOf(err) != account.CodeProfileNotFound {
		t.Error(err)
	}
	activate := func(name, model, key string) {
		t.Helper()
		if err := s.ActivateProfile(name); err != nil {
			t.Fatal(err)
		}
		if l := s.LLM(); l.Model != model || l.APIKey.Reveal() != key || s.ActiveProfile != name {
			t.Errorf("%s: %s with %q, active %s", name, l.Model, l.APIKey.Reveal(), s.ActiveProfile)
		}
	}
	activate("same", "openai/new", "old-key") // the key was stored for that place
	activate("fast", "anthropic/haiku", "k1")
	if got := s.LLM(); got.Temperature == nil || *got.Temperature != 0.3 {
		t.Errorf("the rest of the profile does not hold: %+v", got)
	}
	if err := errors.Join(s.RenameProfile("fast", "quick")); err != nil || s.ActiveProfile != "quick" {
		t.Errorf("active %q, %v", s.ActiveProfile, err)
	}
	save(t, s, "quick", `{"model":"anthropic/haiku-2","api_key":"k2"}`)
	if got := s.LLM(); got.Model != "anthropic/haiku-2" || got.APIKey.Reveal() != "k2" {
		t.Errorf("the settings do not follow their active profile: %+v", got)
	}
	activate("else", "gemini/pro", "") // no key goes to another place
	if err := s.DeleteProfile("else"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteProfile("else"); err != nil {
		t.Error(err)
	}
	if s.ActiveProfile != "" || *s.LLMModel != "gemini/pro" {
		t.Errorf("active %q, model %s", s.ActiveProfile, *s.LLMModel)
	}
}

func TestRenameRefusesAndReferencesFollow(t *testing.T) {
	s := &account.Settings{TitleProfile: "a"}
	save(t, s, "a", `{"model":"x/a"}`)
	save(t, s, "b", `{"model":"x/b","fallback_profiles":["a","b","c"]}`)
	before := s.Profiles
	for to, kind := range map[string]fault.Kind{"b": fault.Conflict, "no name": fault.Invalid} {
		if err := s.RenameProfile("a", to); !fault.Is(err, kind) {
			t.Errorf("%s: %v", to, err)
		}
	}
	if err := s.RenameProfile("nope", "x"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if err := s.RenameProfile("a", "a"); err != nil {
		t.Error(err)
	}
	if err := s.RenameProfile("a", "z"); err != nil {
		t.Fatal(err)
	}
	if s.TitleProfile != "z" || strings.Join(s.Profiles["b"].Fallbacks, " ") != "z c" {
		t.Errorf("title %s, fallbacks %v", s.TitleProfile, s.Profiles["b"].Fallbacks)
	}
	if _, ok := before["a"]; !ok || before["b"].Fallbacks[0] != "a" {
		t.Error("the stored settings were changed in place")
	}
	found, missing := s.FallbackModels(ref(s.Profiles["b"]))
	if len(found) != 1 || found[0].Model != "x/a" || strings.Join(missing, " ") != "c" {
		t.Errorf("found %v, missing %v", found, missing)
	}
	if err := s.DeleteProfile("z"); err != nil {
		t.Error(err)
	}
	if s.TitleProfile != "" || strings.Join(s.Profiles["b"].Fallbacks, " ") != "c" {
		t.Errorf("title %q, fallbacks %v", s.TitleProfile, s.Profiles["b"].Fallbacks)
	}
}

// POST /api/settings knows nothing of profiles and must not lose them.
func TestTheLegacyAPIKeepsProfiles(t *testing.T) {
	base := func() *account.Settings {
		s := &account.Settings{TitleProfile: "t", Kept: json.RawMessage(`{"git_full_clone":true}`)}
		save(t, s, "p", `{"model":"openai/m","api_key":"k","temperature":0.3}`)
		if err := s.ActivateProfile("p"); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for in, want := range map[string]struct{ active, tuned bool }{
		`{}`: {true, true},
		`{"llm_model":"openai/m","llm_api_key":"k"}`:       {true, true},
		`{"llm_model":"openai/other"}`:                     {false, false},
		`{"llm_base_url":"https://x"}`:                     {false, false},
		`{"llm_api_key":"another"}`:                        {false, true},
		`{"llm_api_key":"**********","language":"de"}`:     {true, true},
		`{"llm_model":"openai/m","max_budget_per_task":1}`: {true, true},
	} {
		s := merge(t, in).Apply(base())
		tuned := s.LLM().Temperature != nil
		if (s.ActiveProfile == "p") != want.active || tuned != want.tuned || len(s.Profiles) != 1 || s.TitleProfile != "t" || s.Kept == nil {
			t.Errorf("%s: active %q, tuned %v, %d profiles, title %q", in, s.ActiveProfile, tuned, len(s.Profiles), s.TitleProfile)
		}
	}
}

func TestSettingsWithProfilesAreSealedWhole(t *testing.T) {
	s := &account.Settings{}
	save(t, s, "p", `{"model":"bedrock/m","aws_secret_access_key":"hush-1","extra_headers":{"X":"hush-2"},"api_key":"hush-3","stream":true}`)
	if err := s.ActivateProfile("p"); err != nil {
		t.Fatal(err)
	}
	raw, err := account.EncodePrivate(s)
	if err != nil {
		t.Fatal(err)
	}
	var back account.Settings
	if err := account.DecodePrivate(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Profiles, back.Profiles, sameSecret); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(s.LLM(), back.LLM(), sameSecret); diff != "" {
		t.Error(diff)
	}
}

// Whatever is done to profiles: what is refused changes nothing, names stay
// legal, references point to what there is, and keys stay at their place.
func TestProfileOperationsKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &account.Settings{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		model := rapid.SampledFrom([]string{"openai/m", "openai/n", "gemini/m"})
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			from, to := name.Draw(t, "name"), name.Draw(t, "to")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				id := model.Draw(t, "model")
				raw := fmt.Sprintf(`{"model":%q,"fallback_profiles":[%q]}`, id, to)
				if rapid.Bool().Draw(t, "keyed") {
					raw = fmt.Sprintf(`{"model":%q,"api_key":%q}`, id, "key-of-"+strings.Split(id, "/")[0])
				}
				in, err := account.ParseLLM(json.RawMessage(raw))
				if err != nil {
					t.Fatal(err)
				}
				_ = s.SaveProfile(from, account.ProfileSave{LLM: in, WithSecrets: true, PreserveKeys: rapid.Bool().Draw(t, "preserve")})
			case 1:
				if err := s.DeleteProfile(from); err != nil {
					t.Error(err)
				}
			case 2:
				_ = s.RenameProfile(from, to)
			case 3:
				_ = s.ActivateProfile(from)
			case 4:
				_ = s.ChooseTitleProfile(from)
			case 5:
				id := model.Draw(t, "model")
				raw := rapid.SampledFrom([]string{`{"model":%q}`, `{"model":%q,"api_key":null}`, `{"model":%q,"temperature":0.5}`,
					`{"model":%q,"api_key":"key-of-` + strings.Split(id, "/")[0] + `"}`}).Draw(t, "diff")
				_ = s.ChangeLLM(json.RawMessage(fmt.Sprintf(raw, id)))
			}
			checkKeys(t, s)
		}
	})
}

func checkKeys(t *rapid.T, s *account.Settings) {
	all := []account.LLM{s.LLM()}
	for _, p := range s.Profiles {
		all = append(all, p, s.WithKeys(p))
	}
	for _, l := range all {
		if l.APIKey.IsSet() && l.APIKey.Reveal() != "key-of-"+l.Provider() {
			t.Fatalf("%s has %s", l.Model, l.APIKey.Reveal())
		}
	}
	for _, ref := range []string{s.ActiveProfile, s.TitleProfile} {
		if _, ok := s.Profiles[ref]; ref != "" && !ok {
			t.Fatalf("%s is referred to and not there", ref)
		}
	}
	if p, ok := s.Profiles[s.ActiveProfile]; ok {
		if l := s.LLM(); l.Model != p.Model || l.BaseURL != p.BaseURL {
			t.Fatalf("the active profile has %s, the settings %s", p.Model, l.Model)
		}
	}
}

func FuzzParseLLM(f *testing.F) {
	f.Add([]byte(clientDefaults))
	f.Add([]byte(`{"model":"a/b","extra_headers":{"a":"**********"},"seed":1e3,"fallback_profiles":[1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := account.ParseLLM(raw)
		if err != nil {
			return
		}
		l, err := in.Over(nil, true)
		if err != nil {
			t.Fatal(err)
		}
		out, err := l.Render(account.Secret.Reveal)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		in, err = account.ParseLLM(again)
		if err != nil {
			t.Fatalf("%s becomes %s: %v", raw, again, fields(err))
		}
		back, err := in.Over(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, back, sameSecret); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	})
}

func TestHasKey(t *testing.T) {
	for name, tt := range map[string]struct {
		l    account.LLM
		want bool
	}{
		"nothing":      {account.LLM{}, false},
		"blank":        {account.LLM{APIKey: secret(" ")}, false},
		"key":          {account.LLM{APIKey: secret("k")}, true},
		"header":       {account.LLM{ExtraHeaders: map[string]account.Secret{"X-API-Key": secret("k")}}, true},
		"other header": {account.LLM{ExtraHeaders: map[string]account.Secret{"X-Team": secret("k")}}, false},
	} {
		if got := tt.l.HasKey(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
