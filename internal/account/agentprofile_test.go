package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/fault"
)

func mustAgent(t testing.TB, text string) AgentProfile {
	t.Helper()
	p, err := ParseAgentProfile(json.RawMessage(text), "body")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAgentProfileIsReadBackAsItIsShown(t *testing.T) {
	for _, text := range []string{
		`{"llm_profile_ref":"p"}`,
		`{"llm_profile_ref":"p","tools":[],"mcp_server_refs":[],"condenser":{"condenser_kind":"no_op"}}`,
		`{"llm_profile_ref":"p","tools":[{"name":"sh","params":{"a":["x"]}}],"mcp_server_refs":["x"],"condenser":{"max_tokens":5},
			"verification":{"critic_enabled":true,"critic_threshold":0.1,"critic_server_url":"https://x"},"system_message_suffix":"s","agent":"Other"}`,
		`{"agent_kind":"acp","acp_server":"custom","acp_command":"run","acp_args":["-x"],"acp_prompt_timeout":1.5}`,
	} {
		s := DefaultSettings()
		if err := s.SaveAgentProfile("n", mustAgent(t, text)); err != nil {
			t.Fatal(err)
		}
		raw, err := EncodePrivate(s)
		if err != nil {
			t.Fatal(err)
		}
		stored := &Settings{}
		if err := DecodePrivate(raw, stored); err != nil || !reflect.DeepEqual(stored.AgentProfiles, s.AgentProfiles) {
			t.Errorf("%s: stored as %+v, %v", text, stored.AgentProfiles, err)
		}
		shown, err := json.Marshal(s.AgentProfiles["n"])
		if err != nil {
			t.Fatal(err)
		}
		again := mustAgent(t, string(shown))
		again.SchemaVersion, again.ID, again.Name = agentProfileSchema, s.AgentProfiles["n"].ID, "n"
		if !reflect.DeepEqual(again, s.AgentProfiles["n"]) {
			t.Errorf("%s: shown as %s, read as %+v", text, shown, again)
		}
	}
}

// Whatever is done to agent profiles: ids are unique and stay, names are the map's, and
// the chosen one is there. What was read before does not change.
func TestAgentProfilesHoldTogether(t *testing.T) {
	p := mustAgent(t, `{"llm_profile_ref":"p"}`)
	rapid.Check(t, func(t *rapid.T) {
		s := DefaultSettings()
		names := []string{"a", "b", "c"}
		name := rapid.SampledFrom(names)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before := *s
			kept := fmt.Sprint(before.AgentProfiles)
			from, to := name.Draw(t, "from"), name.Draw(t, "to")
			old, existed := s.AgentProfiles[from]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if err := s.SaveAgentProfile(from, p); err != nil {
					t.Fatal(err)
				}
				if now := s.AgentProfiles[from]; existed && (now.ID != old.ID || now.Revision != old.Revision+1) {
					t.Fatalf("%+v became %+v", old, now)
				}
			case 1:
				s.DeleteAgentProfile(from)
			case 2:
				if err := s.RenameAgentProfile(from, to); err == nil && s.AgentProfiles[to].ID != old.ID {
					t.Fatal("a renamed profile has another id")
				}
			case 3:
				if err := s.ActivateAgentProfile(old.ID); existed != (err == nil) {
					t.Fatal(err)
				}
			}
			if fmt.Sprint(before.AgentProfiles) != kept {
				t.Fatal("what was read before changed")
			}
			ids := map[string]bool{}
			for n, q := range s.AgentProfiles {
				if ids[q.ID] || q.Name != n {
					t.Fatalf("%s is %+v", n, q)
				}
				ids[q.ID] = true
			}
			if s.ActiveAgentProfile != "" && !ids[s.ActiveAgentProfile] {
				t.Fatal("the chosen profile is gone")
			}
		}
	})
}

func TestPickServers(t *testing.T) {
	c := &MCPConfig{Stdio: []MCPStdioServer{{Name: "a"}}, SSE: []MCPHTTPServer{{Name: "b"}}, SHTTP: []MCPHTTPServer{{Name: "c"}}}
	for name, x := range map[string]struct {
		of      *MCPConfig
		names   []string
		want    int
		missing int
	}{
		"all": {c, nil, 3, 0}, "none": {c, []string{}, 0, 0}, "some, doubled": {c, []string{"a", "c", "a"}, 2, 0},
		"missing": {c, []string{"b", "x", "x"}, 1, 1}, "of nothing": {nil, []string{"x"}, 0, 1}, "nothing of nothing": {nil, nil, 0, 0},
	} {
		got, missing := x.of.PickServers(x.names)
		if len(got.named()) != x.want || len(missing) != x.missing {
			t.Errorf("%s: %v, missing %v", name, got, missing)
		}
	}
}

func FuzzParseAgentProfile(f *testing.F) {
	for _, seed := range []string{`{"llm_profile_ref":"p","tools":[{"name":"x"}],"condenser":{"max_size":20}}`, `{"agent_kind":"acp","acp_args":[1]}`, `[]`, `{"verification":[]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseAgentProfile(json.RawMessage(text), "body")
		var wrong *fault.Error
		if err != nil {
			if !errors.As(err, &wrong) || len(wrong.Fields) == 0 {
				t.Fatal(err)
			}
			return
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseAgentProfile(raw, "body")
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%s\nis shown as %s\nand read as %+v, %v", text, raw, again, err)
		}
	})
}

func TestCustomSecretsAreBounded(t *testing.T) {
	s := DefaultSettings()
	if err := s.PutSecret("A", NewSecret("v"), nil, "body", "value"); err != nil {
		t.Fatal(err)
	}
	if err := s.RenameSecret("A", "B", nil); err != nil || s.Secrets.Custom["B"].Value.Reveal() != "v" || len(s.Secrets.Custom) != 1 {
		t.Errorf("%v %v", s.Secrets.Custom, err)
	}
	for i := range MaxCustomSecrets - 1 {
		if err := s.PutSecret(fmt.Sprint("N", i), NewSecret("v"), nil, "body"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutSecret("ONE_MORE", NewSecret("v"), nil, "body"); fault.CodeOf(err) != CodeSecretLimit {
		t.Errorf("%v", err)
	}
	big := NewSecret(string(make([]byte, maxCustomSecretValue)))
	var err error
	for i := 0; err == nil && i < MaxCustomSecrets; i++ {
		err = s.PutSecret(fmt.Sprint("N", i), big, nil, "body")
	}
	if fault.CodeOf(err) != CodeSecretLimit {
		t.Errorf("%v", err)
	}
	if err := s.PutSecret("N0", NewSecret("small"), nil, "body"); err != nil {
		t.Errorf("room was made, and: %v", err)
	}
}
