package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/store"
)

// skillView is a skill of a conversation (V1 1.2).
type skillView struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Content     string   `json:"content"`
	Triggers    []string `json:"triggers"`
	Source      *string  `json:"source"`
	Description *string  `json:"description"`
}

func viewSkill(s *skill.Skill) skillView {
	return skillView{Name: s.Name, Type: s.Type(), Content: s.Content, Triggers: append([]string{}, s.Triggers...),
		Source: orNull(s.Source), Description: orNull(s.Description)}
}

// extensions are what is added to the agent of the conversation in the path. While its
// sandbox does not run that is nothing: clients expect empty lists then (V1 11 row 13).
func (h *handlers) extensions(r *httpkit.Request) (engine.Extensions, error) {
	v, err := h.find(r)
	if err != nil || v.SandboxStatus != store.SandboxRunning {
		return engine.Extensions{}, err
	}
	return h.Engine.Extensions(r.Context(), r.Principal.UserID, v.ID)
}

func (h *handlers) conversationSkills(w http.ResponseWriter, r *httpkit.Request) error {
	x, err := h.extensions(r)
	if err != nil {
		return err
	}
	skills := make([]skillView, len(x.Skills))
	for i := range x.Skills {
		skills[i] = viewSkill(&x.Skills[i])
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"skills": skills})
}

// hookView are the hooks of one event (V1 1.2).
type hookView struct {
	Event    string        `json:"event_type"`
	Matchers []matcherView `json:"matchers"`
}

type matcherView struct {
	Matcher string       `json:"matcher"`
	Source  string       `json:"source"`
	Hooks   []hookDefine `json:"hooks"`
}

type hookDefine struct {
	Type    string  `json:"type"`
	Name    *string `json:"name,omitempty"`
	Command string  `json:"command"`
	Prompt  *string `json:"prompt,omitempty"`
	Timeout int     `json:"timeout"`
	Async   bool    `json:"async"`
}

// hookEvents are the events as the configuration of hooks names them.
var hookEvents = []struct {
	name string
	of   func(*hook.Config) []hook.Matcher
}{
	{"pre_tool_use", func(c *hook.Config) []hook.Matcher { return c.PreToolUse }},
	{"post_tool_use", func(c *hook.Config) []hook.Matcher { return c.PostToolUse }},
	{"user_prompt_submit", func(c *hook.Config) []hook.Matcher { return c.UserPromptSubmit }},
	{"session_start", func(c *hook.Config) []hook.Matcher { return c.SessionStart }},
	{"session_end", func(c *hook.Config) []hook.Matcher { return c.SessionEnd }},
	{"stop", func(c *hook.Config) []hook.Matcher { return c.Stop }},
}

// conversationHooks shows the hooks that run: those of a repository that is not
// trusted are in its question.
func (h *handlers) conversationHooks(w http.ResponseWriter, r *httpkit.Request) error {
	x, err := h.extensions(r)
	if err != nil {
		return err
	}
	hooks := []hookView{}
	for _, event := range hookEvents {
		var matchers []matcherView
		for i := range x.Hooks {
			for _, m := range event.of(&x.Hooks[i].Config) {
				matchers = append(matchers, viewMatcher(x.Hooks[i].Name, m))
			}
		}
		if len(matchers) > 0 {
			hooks = append(hooks, hookView{event.name, matchers})
		}
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"hooks": hooks})
}

func viewMatcher(source string, m hook.Matcher) matcherView {
	out := matcherView{Matcher: m.Matcher, Source: source, Hooks: []hookDefine{}}
	for _, d := range m.Hooks {
		out.Hooks = append(out.Hooks, hookDefine{Type: d.Type, Name: orNull(d.Name), Command: d.Command, Prompt: orNull(d.Prompt),
			Timeout: d.Timeout, Async: d.Async})
	}
	return out
}

// trustQuestions lists what the conversation asks about, whether its sandbox runs or
// not.
func (h *handlers) trustQuestions(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	x, err := h.Engine.Extensions(r.Context(), r.Principal.UserID, v.ID)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"questions": append([]conversation.TrustQuestion{}, x.Questions...)})
}

func (h *handlers) decideTrust(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Subject string `json:"subject"`
		Hash    string `json:"hash"`
		Trusted bool   `json:"trusted"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	if err := h.Engine.Trust(r.Context(), r.Principal.UserID, v.ID, in.Subject, in.Hash, in.Trusted); err != nil {
		return err
	}
	return writeSuccess(w)
}

// decisionView is what the user decided about something that wants to run.
type decisionView struct {
	Subject string `json:"subject"`
	Hash    string `json:"hash"`
	Trusted bool   `json:"trusted"`
	At      string `json:"decided_at"`
}

func viewDecision(d extension.Decision) decisionView {
	return decisionView{Subject: d.Subject, Hash: d.Hash, Trusted: d.Trusted, At: httpkit.FormatTime(d.At)}
}

func (h *handlers) listTrust(w http.ResponseWriter, r *httpkit.Request) error {
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	decisions, err := h.Engine.Decisions(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	items, next := cutPage(decisions, q)
	views := make([]decisionView, len(items))
	for i, d := range items {
		views[i] = viewDecision(d)
	}
	return writePage(w, views, next)
}

func (h *handlers) forgetTrust(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Subject string `json:"subject"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := h.Engine.Forget(r.Context(), r.Principal.UserID, q.Subject); err != nil {
		return err
	}
	return writeSuccess(w)
}
