package storetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/store"
	"parley/internal/subagent"
)

var extensionTests = map[string]func(*suite){
	"BundlesRoundTrip":    bundlesRoundTrip,
	"BundlesReplaced":     bundlesReplaced,
	"BundlesGo":           bundlesGo,
	"BundlesBound":        bundlesBound,
	"Decisions":           decisionsListed,
	"DecisionsBound":      decisionsBound,
	"DecisionsLikeModel":  decisionsLikeModel,
	"Skills":              skillsRoundTrip,
	"SkillsBound":         skillsBound,
	"Credentials":         credentialsRoundTrip,
	"CredentialsApart":    credentialsApart,
	"NamelessIsADefect":   extensionsNameless,
	"ListsAreNeverNil":    extensionsEmpty,
	"TextComesBackExact":  extensionsExact,
	"ConcurrentSaveWhole": bundlesConcurrent,
}

func fullServers(key string) *account.MCPConfig {
	secret := func(name string) account.Secret { return account.NewSecret(key + name) }
	return &account.MCPConfig{
		SSE: []account.MCPHTTPServer{{Name: "n", URL: "https://h/x", APIKey: secret("sse"), Timeout: new(5),
			Headers:   map[string]account.Secret{"X-A": secret("a"), "X-B": {}},
			Auth:      &account.MCPAuth{Strategy: account.MCPAuthOAuth, Value: secret("v"), OAuth: &account.MCPOAuth{ClientSecret: secret("o"), Scopes: []string{"s"}}},
			MCPCommon: account.MCPCommon{Disabled: true, Rest: map[string]json.RawMessage{"kept": json.RawMessage(`{"a":[1]}`)}}}},
		Stdio: []account.MCPStdioServer{{Name: "s", Command: "c", Args: []string{"a"}, Env: map[string]account.Secret{"K": secret("env")}, Cwd: "/w"}},
		SHTTP: []account.MCPHTTPServer{},
	}
}

func fullBundle(name string) extension.Bundle {
	list := []hook.Matcher{{Matcher: "*", Hooks: []hook.Definition{{Type: hook.TypeCommand, Name: "n", Command: "c",
		Tools: []string{}, Timeout: 60, MaxIterations: 3, Async: true}}}}
	hooks := hook.Config{PreToolUse: list, PostToolUse: list, UserPromptSubmit: list, SessionStart: list, SessionEnd: list, Stop: list}
	return extension.Bundle{
		Name: name, Level: skill.LevelPlugin, Subject: "plugin " + name, Hash: "h", Root: "/r", Commit: "c0",
		Skills: []skill.Skill{{Name: "sk", Description: "d", Content: "text\n", Source: "a.md", Level: skill.LevelPlugin,
			Triggers: []string{"t"}, Inputs: []skill.Input{{Name: "i", Description: "d"}}, Paths: []string{"*.go"},
			AgentSkill: true, Hidden: true, Family: "claude", Root: "/r/sk", Resources: []string{"scripts/x"}, Version: "1",
			License: "l", Compatibility: "c", AllowedTools: []string{"a"}, Metadata: map[string]string{"k": "v"}, MCP: fullServers(name + "-skill-")}},
		Agents: []subagent.Definition{
			{Name: "ag", Description: "d", Model: subagent.ModelInherit, Tools: []string{}, Skills: []string{"sk"}, SystemPrompt: "p",
				Source: "a", Level: subagent.LevelPlugin, Examples: []string{"e"}, PermissionMode: subagent.PermitConfirmRisky,
				MaxIterations: 3, MaxBudget: 0.5, Hooks: &hooks, MCP: fullServers(name + "-agent-")},
			{Name: "inherits"}}, // Tools nil is not the same as none
		Hooks: hooks, Servers: fullServers(name + "-own-"), Scripts: []string{"setup.sh"},
		Pins:     []extension.Pin{{Path: "/r/x", SHA256: "00"}},
		Problems: []extension.Problem{{File: "f", Line: 3, Text: "why"}},
	}
}

func (s *suite) bundles(id conversation.ID) []extension.Bundle {
	s.Helper()
	got, err := s.Extensions().Bundles(s.ctx, id)
	s.ok(err)
	return got
}

func bundlesRoundTrip(s *suite) {
	s.create("u", "c")
	want := []extension.Bundle{fullBundle("z"), fullBundle("a"), {Name: "bare", Level: skill.LevelProject}}
	s.ok(s.Extensions().SaveBundles(s.ctx, "c", want))
	s.equal(s.bundles("c"), want)
	s.equal(want[0].Servers.Stdio[0].Env["K"].Reveal(), "z-own-env") // what was handed in is as it was
}

func bundlesReplaced(s *suite) {
	s.create("u", "c")
	s.create("u", "d")
	s.ok(s.Extensions().SaveBundles(s.ctx, "c", []extension.Bundle{fullBundle("one"), fullBundle("two")}))
	s.ok(s.Extensions().SaveBundles(s.ctx, "d", []extension.Bundle{fullBundle("other")}))
	s.ok(s.Extensions().SaveBundles(s.ctx, "c", []extension.Bundle{fullBundle("three")}))
	s.equal(s.bundles("c"), []extension.Bundle{fullBundle("three")})
	s.ok(s.Extensions().SaveBundles(s.ctx, "c", nil))
	s.equal(s.bundles("c"), []extension.Bundle{})
	s.equal(s.bundles("d"), []extension.Bundle{fullBundle("other")})
}

// bundlesGo: with their conversation, and nobody else's. A fork starts without.
func bundlesGo(s *suite) {
	s.create("u", "c")
	s.create("u", "d")
	for _, id := range []conversation.ID{"c", "d"} {
		s.ok(s.Extensions().SaveBundles(s.ctx, id, []extension.Bundle{fullBundle(string(id))}))
	}
	s.ok(s.Conversations().Fork(s.ctx, &conversation.Conversation{ID: "fork", Owner: "u", ForkedFrom: "c"}, nil))
	s.equal(s.bundles("fork"), []extension.Bundle{})
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	s.fails(s.Extensions().SaveBundles(s.ctx, "c", []extension.Bundle{fullBundle("late")}), fault.NotFound, "")
	s.fails(s.Extensions().SaveBundles(s.ctx, "c", nil), fault.NotFound, "")
	s.create("v", "c") // the id again: nothing of the old one is there
	s.equal(s.bundles("c"), []extension.Bundle{})
	s.equal(s.bundles("d"), []extension.Bundle{fullBundle("d")})
}

func bundlesBound(s *suite) {
	s.create("u", "c")
	of := func(size int) []extension.Bundle {
		return []extension.Bundle{{Name: "b", Skills: []skill.Skill{{Name: "s", Content: strings.Repeat("x", size)}}}}
	}
	s.ok(s.Extensions().SaveBundles(s.ctx, "c", of(store.MaxBundles-1000)))
	s.fails(s.Extensions().SaveBundles(s.ctx, "c", of(store.MaxBundles)), fault.TooLarge, store.CodeBundlesTooLarge)
	s.equal(len(s.bundles("c")[0].Skills[0].Content), store.MaxBundles-1000)
}

// bundlesConcurrent: whoever is last, all bundles are of one caller.
func bundlesConcurrent(s *suite) {
	s.create("u", "c")
	parallel(s.T, 8, func(i int) error {
		name := fmt.Sprint(i)
		return s.Extensions().SaveBundles(s.ctx, "c", []extension.Bundle{fullBundle(name), fullBundle(name)})
	})
	got := s.bundles("c")
	s.equal(got, []extension.Bundle{fullBundle(got[0].Name), fullBundle(got[0].Name)})
}

func decision(subject, hash string, trusted bool, seconds int) extension.Decision {
	return extension.Decision{Subject: subject, Hash: hash, Trusted: trusted, At: at(seconds)}
}

func (s *suite) decide(owner string, list ...extension.Decision) {
	s.Helper()
	for _, d := range list {
		s.ok(s.Extensions().Decide(s.ctx, owner, d))
	}
}

func (s *suite) decisions(owner string) []extension.Decision {
	s.Helper()
	got, err := s.Extensions().Decisions(s.ctx, owner)
	s.ok(err)
	return got
}

func decisionsListed(s *suite) {
	old, other, unhashed := decision("repo", "1", true, 1), decision("repo", "2", false, 3), decision("plugin", "", true, 2)
	s.decide("u", old, other, unhashed)
	s.decide("v", decision("repo", "1", false, 9))
	s.equal(s.decisions("u"), []extension.Decision{other, unhashed, old})
	changed := decision("repo", "1", false, 4)
	s.decide("u", changed)
	s.equal(s.decisions("u"), []extension.Decision{changed, other, unhashed})
	s.ok(s.Extensions().Forget(s.ctx, "u", "repo"))
	s.equal(s.decisions("u"), []extension.Decision{unhashed})
	s.fails(s.Extensions().Forget(s.ctx, "u", "repo"), fault.NotFound, "")
	s.equal(len(s.decisions("v")), 1)
}

// decisionsBound: the oldest other decision goes, never the new one.
func decisionsBound(s *suite) {
	parallel(s.T, store.MaxDecisions, func(i int) error {
		return s.Extensions().Decide(s.ctx, "u", decision("repo", fmt.Sprintf("%04d", i), true, i))
	})
	subject := func(d extension.Decision) string { return d.Subject + d.Hash }
	s.decide("v", decision("repo", "x", true, -9))
	s.decide("u", decision("repo", "0000", false, 0)) // replaced: nothing goes
	s.equal(len(s.decisions("u")), store.MaxDecisions)
	s.decide("u", decision("ancient", "", true, -5))
	got := s.decisions("u")
	s.equal(len(got), store.MaxDecisions)
	s.equal(subject(got[len(got)-1]), "ancient")
	s.equal(subject(got[len(got)-2]), "repo0001")
	s.decide("u", decision("new", "", false, 5000))
	got = s.decisions("u")
	s.equal(len(got), store.MaxDecisions)
	s.equal([]string{subject(got[0]), subject(got[len(got)-1])}, []string{"new", "repo0001"})
	s.equal(len(s.decisions("v")), 1)
}

func userSkill(name, content string, seconds int) store.UserSkill {
	return store.UserSkill{Name: name, Content: content, UpdatedAt: at(seconds)}
}

func (s *suite) skills(owner string) []store.UserSkill {
	s.Helper()
	got, err := s.Extensions().Skills(s.ctx, owner)
	s.ok(err)
	return got
}

func skillsRoundTrip(s *suite) {
	for _, sk := range []store.UserSkill{userSkill("b", "old", 1), userSkill("a", "A", 2), userSkill("B", "", 3), userSkill("b", "new", 4)} {
		s.ok(s.Extensions().PutSkill(s.ctx, "u", sk))
	}
	s.ok(s.Extensions().PutSkill(s.ctx, "v", userSkill("a", "other", 5)))
	s.equal(s.skills("u"), []store.UserSkill{userSkill("B", "", 3), userSkill("a", "A", 2), userSkill("b", "new", 4)})
	s.ok(s.Extensions().DeleteSkill(s.ctx, "u", "a"))
	s.fails(s.Extensions().DeleteSkill(s.ctx, "u", "a"), fault.NotFound, "")
	s.equal(len(s.skills("u")), 2)
	s.equal(s.skills("v"), []store.UserSkill{userSkill("a", "other", 5)})
}

func skillsBound(s *suite) {
	parallel(s.T, store.MaxUserSkills+20, func(i int) error {
		err := s.Extensions().PutSkill(s.ctx, "u", userSkill(fmt.Sprintf("%04d", i), "c", i))
		if fault.CodeOf(err) == store.CodeTooManySkills && fault.Is(err, fault.TooLarge) {
			return nil
		}
		return err
	})
	all := s.skills("u")
	s.equal(len(all), store.MaxUserSkills)
	first := all[0]
	first.Content = "changed"
	s.ok(s.Extensions().PutSkill(s.ctx, "u", first)) // one that is there
	s.fails(s.Extensions().PutSkill(s.ctx, "u", userSkill("more", "c", 1)), fault.TooLarge, store.CodeTooManySkills)
	s.ok(s.Extensions().PutSkill(s.ctx, "v", userSkill("more", "c", 1)))
	s.ok(s.Extensions().DeleteSkill(s.ctx, "u", first.Name))
	s.ok(s.Extensions().PutSkill(s.ctx, "u", userSkill("more", "c", 1)))
}

func credentialsRoundTrip(s *suite) {
	_, err := s.Extensions().Credential(s.ctx, "u", "n")
	s.fails(err, fault.NotFound, "")
	s.ok(s.Extensions().PutCredential(s.ctx, "u", "n", account.Secret{})) // nothing to remove
	for _, value := range []string{"token-1", "token-2", account.Mask, "\x00\xff bytes"} {
		s.ok(s.Extensions().PutCredential(s.ctx, "u", "n", account.NewSecret(value)))
		got, err := s.Extensions().Credential(s.ctx, "u", "n")
		s.ok(err)
		s.equal(got.Reveal(), value)
	}
	s.ok(s.Extensions().PutCredential(s.ctx, "u", "n", account.Secret{}))
	got, err := s.Extensions().Credential(s.ctx, "u", "n")
	s.fails(err, fault.NotFound, "")
	s.equal(got.IsSet(), false)
}

// credentialsApart: names that look alike once they are put together.
func credentialsApart(s *suite) {
	pairs := [][2]string{{"u", "n"}, {"u/n", "m"}, {"u", "n/m"}, {"u\"/\"n", "m"}, {"u", "N"}}
	for i, p := range pairs {
		s.ok(s.Extensions().PutCredential(s.ctx, p[0], p[1], account.NewSecret(fmt.Sprint("value-", i))))
	}
	for i, p := range pairs {
		got, err := s.Extensions().Credential(s.ctx, p[0], p[1])
		s.ok(err)
		s.equal(got.Reveal(), fmt.Sprint("value-", i))
	}
}

// extensionsNameless: what has no owner or name would be everybody's.
func extensionsNameless(s *suite) {
	for name, err := range map[string]error{
		"decision without owner":   s.Extensions().Decide(s.ctx, "", decision("s", "h", true, 1)),
		"decision without subject": s.Extensions().Decide(s.ctx, "u", decision("", "h", true, 1)),
		"skill without owner":      s.Extensions().PutSkill(s.ctx, "", userSkill("n", "c", 1)),
		"skill without name":       s.Extensions().PutSkill(s.ctx, "u", userSkill("", "c", 1)),
		"credential without owner": s.Extensions().PutCredential(s.ctx, "", "n", account.NewSecret("x")),
		"credential without name":  s.Extensions().PutCredential(s.ctx, "u", "", account.NewSecret("x")),
	} {
		if !fault.Is(err, fault.Internal) {
			s.Errorf("%s: %v", name, err)
		}
	}
}

func extensionsEmpty(s *suite) {
	if b, d, k := s.bundles("absent"), s.decisions("u"), s.skills("u"); b == nil || d == nil || k == nil {
		s.Errorf("an empty list is nil: %v %v %v", b, d, k)
	}
}

// extensionsExact: skills are files, and files hold anything.
func extensionsExact(s *suite) {
	for _, text := range []string{"", "\x00\xff\r\n", strings.Repeat("\u00e9\U0001f600", 1000)} {
		s.ok(s.Extensions().PutSkill(s.ctx, "u", userSkill("n", text, 1)))
		s.equal(s.skills("u"), []store.UserSkill{userSkill("n", text, 1)})
	}
}
