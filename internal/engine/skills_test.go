package engine_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/tool"
	"parley/internal/tool/invokeskill"
)

// withSkills is a request that brings skills.
func withSkills(message string, skills ...skill.Skill) engine.StartRequest {
	for i := range skills {
		skills[i].Level = skill.LevelExplicit
	}
	return engine.StartRequest{Owner: owner, InitialMessage: words(message), Brought: &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Skills: skills}}
}

// pathTool takes a path and does nothing.
func pathTool() tool.Tool {
	type in struct {
		Path string `json:"path"`
	}
	return tool.New(tool.Spec{Name: "look", Description: "looks", ReadOnly: true},
		func(context.Context, *tool.Env, in) (tool.Result, error) {
			return tool.TextObservation("LookObservation", "seen").Result()
		})
}

// skilful adds the tools of these tests.
func skilful(o *engine.Options) {
	o.Tools = must(tool.NewSet(shTool(), pathTool(), invokeskill.New(), finishTool()))
	o.DefaultTools, o.SkillTool = []string{"sh", "look"}, invokeskill.Name
}

func TestASkillIsTriggeredOnce(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(withSkills("please deploy it", skill.Skill{Name: "deploying", Content: "Use make ship.", Triggers: []string{"deploy"}}))
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); !strings.Contains(said, "Use make ship.") {
		t.Error(said)
	}
	for range 2 { // also after a restart
		w.send(id, "deploy again")
		n := w.model.calls()
		w.eventually("the answer", func() bool { return w.model.calls() > n-1 && w.status(id) == conversation.Finished })
		w.stop()
		w.start()
	}
	if said := w.model.lastRequest(); strings.Count(said, "Use make ship.") != 1 {
		t.Error(said)
	}
	if v := must(w.engine.View(t.Context(), owner, id)); strings.Join(v.Summary.Skills, ",") != "deploying" {
		t.Error(v.Summary.Skills)
	}
}

func TestADisabledSkillSaysNothing(t *testing.T) {
	w := newWorld(t)
	w.settings(func(s *account.Settings) { s.DisabledSkills = []string{"deploying"} })
	req := withSkills("deploy and test", skill.Skill{Name: "deploying", Content: "Use make ship.", Triggers: []string{"deploy"}},
		skill.Skill{Name: "testing", Content: "Use make check.", Triggers: []string{"test"}})
	req.DisabledSkills = []string{"testing"}
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); strings.Contains(said, "Use make") {
		t.Error(said)
	}
}

func TestAPathBringsItsSkillInOnce(t *testing.T) {
	w := newWorldWith(t, skilful, call("look", `{"path":"db/a.sql"}`, "look", `{"path":"db/b.sql"}`), say("done"), call("look", `{"path":"db/c.sql"}`))
	id := w.beginWith(withSkills("go", skill.Skill{Name: "database", Content: "Never drop a table.", Paths: []string{"db/**"}}))
	w.wait(id, conversation.Finished)
	w.stop()
	w.start()
	w.send(id, "again")
	w.eventually("the answer", func() bool { return w.model.calls() == 4 && w.status(id) == conversation.Finished })
	if said := w.model.lastRequest(); strings.Count(said, "Never drop a table.") != 1 {
		t.Error(said)
	}
	// On a branch without it, it is said again.
	first := w.events(id)[1].ID
	for _, ev := range w.events(id) {
		if ev.Kind == conversation.KindMessage {
			first = ev.ID
			break
		}
	}
	if err := w.engine.Navigate(t.Context(), owner, id, first); err != nil {
		t.Fatal(err)
	}
	w.model.mu.Lock()
	w.model.steps = append(w.model.steps, say(""), call("look", `{"path":"db/d.sql"}`))
	w.model.mu.Unlock()
	w.send(id, "on another branch")
	w.eventually("the answer", func() bool { return w.model.calls() >= 6 && w.status(id) == conversation.Finished })
	if said := w.model.lastRequest(); strings.Count(said, "Never drop a table.") != 1 {
		t.Error(said)
	}
}

func TestTheAgentOpensSkills(t *testing.T) {
	shipping := skill.Skill{Name: "shipping", Description: "how to ship", AgentSkill: true, Content: "Version: !`echo $((40+2))`", Trusted: true}
	w := newWorldWith(t, skilful, call("invoke_skill", `{"name":"shipping"}`), call("invoke_skill", `{"name":"sailing"}`))
	id := w.beginWith(withSkills("go", shipping))
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); !strings.Contains(said, "42") || !strings.Contains(said, `no skill named \"sailing\"`) && !strings.Contains(said, `no skill named "sailing"`) {
		t.Error(said)
	}
	if prompt := w.model.reqs[0].Messages[0].Text(); !strings.Contains(prompt, "how to ship") {
		t.Error(prompt)
	}
	if v := must(w.engine.View(t.Context(), owner, id)); strings.Join(v.Summary.Invoked, ",") != "shipping" {
		t.Error(v.Summary.Invoked)
	}
	// Without anything to open, the tool is not offered.
	plain := w.begin("hi")
	w.wait(plain, conversation.Finished)
	for _, spec := range w.model.reqs[len(w.model.reqs)-1].Tools {
		if spec.Name == invokeskill.Name {
			t.Error("offered")
		}
	}
}

// What a repository writes is marked, and its commands do not run before it is trusted.
func TestSkillsOfARepository(t *testing.T) {
	w := newWorldWith(t, skilful, call("invoke_skill", `{"name":"shipping"}`))
	dir := place(t, map[string]string{
		"AGENTS.md":                        "Tabs, never spaces.",
		".agents/skills/shipping/SKILL.md": "---\nname: shipping\ndescription: how to ship\n---\nVersion: !`touch " + filepath.Join(t.TempDir(), "ran") + "`",
		".agents/skills/broken.md":         "---\nname: [\n---\nx",
	})
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	prompt := w.model.reqs[0].Messages[0].Text()
	if !strings.Contains(prompt, "Tabs, never spaces.") || !strings.Contains(prompt, "untrusted") && !strings.Contains(prompt, "did not write") && !strings.Contains(prompt, "repository") {
		t.Error(prompt)
	}
	notes := must(w.engine.View(t.Context(), owner, id)).Summary.Notes
	if len(notes.Problems) != 1 || !strings.Contains(notes.Problems[0], "broken.md:") {
		t.Errorf("%q", notes.Problems)
	}
	if said := w.model.lastRequest(); strings.Contains(said, "untouched") {
		t.Error(said)
	}
	x := must(w.engine.Extensions(t.Context(), owner, id))
	for _, s := range x.Skills {
		if s.Trusted {
			t.Errorf("%s is trusted", s.Name)
		}
	}
}

// A skill that a user stores is theirs in every conversation; a later level replaces it.
func TestSkillsOfAUser(t *testing.T) {
	w := newWorld(t)
	if _, err := w.engine.PutSkill(t.Context(), owner, "deploying", "---\ntriggers: [deploy]\n---\nUse the user's way."); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.PutSkill(t.Context(), owner, "../x", "x"); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if _, err := w.engine.PutSkill(t.Context(), owner, "broken", "---\nname: [\n---\nx"); fault.CodeOf(err) != "bad_skill" {
		t.Error(err)
	}
	id := w.begin("deploy")
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); !strings.Contains(said, "Use the user's way.") {
		t.Error(said)
	}
	id = w.beginWith(withSkills("deploy", skill.Skill{Name: "deploying", Content: "Use the request's way.", Triggers: []string{"deploy"}}))
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); strings.Contains(said, "the user's way") || !strings.Contains(said, "Use the request's way.") {
		t.Error(said)
	}
}
