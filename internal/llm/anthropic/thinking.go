package anthropic

// minBudget is the smallest budget the API takes, in tokens; minAdaptive is the
// smallest bound of an answer under which it pays to let the model think.
const (
	minBudget   = 1024
	minAdaptive = 2048
)

const interleavedBeta = "interleaved-thinking-2025-05-14"

type wireThinking struct {
	Type    string `json:"type"`
	Budget  int64  `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort,omitempty"`
}

// plan is how one call thinks.
type plan struct {
	thinking *wireThinking // nil = nothing is said
	effort   string
	beta     string
}

// on reports whether the model was told to think, which excludes sampling
// parameters.
func (p plan) on() bool { return p.thinking != nil && p.thinking.Type != "disabled" }

// budgeted reports whether the API demands that the turn in progress begins
// with thinking.
func (p plan) budgeted() bool { return p.thinking != nil && p.thinking.Budget > 0 }

// style says how a model is told to think: by a number of tokens before Claude
// 4.6 and for other makers' models behind an imitation of the API, else so that
// the model decides, guided by an effort. Where that is wrong, the endpoint's
// first refusal corrects it.
type style int

const (
	thinkNot style = iota
	thinkByBudget
	thinkAdaptively
)

// style is how the model is told to think, after what the endpoint refused.
func (m *Model) style(refused refusals) style {
	if refused.has(refusedThinking) || refused.has(refusedBudget|refusedAdaptive) {
		return thinkNot
	}
	how := m.family.style()
	switch {
	case how == thinkAdaptively && refused.has(refusedAdaptive):
		return thinkByBudget
	case how == thinkByBudget && refused.has(refusedBudget):
		return thinkAdaptively
	}
	return how
}

// think plans a call whose answer may have so many tokens.
func (m *Model) think(maxTokens int64, tools bool, refused refusals) plan {
	if !m.cfg.Reasoning {
		return plan{}
	}
	switch m.style(refused) {
	case thinkByBudget:
		return m.byBudget(maxTokens, tools, refused)
	case thinkAdaptively:
		return m.adaptively(maxTokens, refused)
	}
	return plan{}
}

func (m *Model) byBudget(maxTokens int64, tools bool, refused refusals) plan {
	budget := m.cfg.ReasoningBudget
	if budget <= 0 {
		budget = budgetOf(m.cfg.ReasoningEffort)
	}
	budget = min(budget, maxTokens-1) // agent protocol 4.12
	if m.cfg.ReasoningEffort == "none" || budget < minBudget {
		return plan{}
	}
	p := plan{thinking: &wireThinking{Type: "enabled", Budget: budget}}
	if tools && m.family.interleaves() && !refused.has(refusedBeta) {
		p.beta = interleavedBeta
	}
	return p
}

// budgetOf is how many tokens an effort is worth; 0 = no thinking.
func budgetOf(effort string) int64 {
	switch effort {
	case "minimal":
		return minBudget
	case "low":
		return 4096
	case "medium":
		return 8192
	case "high":
		return 16384
	case "xhigh", "max":
		return 32768
	}
	return 0
}

func (m *Model) adaptively(maxTokens int64, refused refusals) plan {
	effort := m.effort()
	if effort == "none" || maxTokens < minAdaptive {
		return m.hardly(refused)
	}
	if effort == "" && m.cfg.ReasoningBudget <= 0 && !m.family.thinksUnasked() {
		return plan{} // the model's default is not to think
	}
	return plan{thinking: m.adaptive(refused), effort: unless(refused.has(refusedEffort), effort)}
}

// hardly plans a call that shall not think, or as little as the model can.
func (m *Model) hardly(refused refusals) plan {
	switch {
	case !m.family.thinksUnasked():
		return plan{}
	case m.family.canStop() && !refused.has(refusedDisabled):
		return plan{thinking: &wireThinking{Type: "disabled"}}
	}
	return plan{thinking: m.adaptive(refused), effort: unless(refused.has(refusedEffort), "low")}
}

func (m *Model) adaptive(refused refusals) *wireThinking {
	show := m.family.hidesThoughts() && !refused.has(refusedDisplay)
	return &wireThinking{Type: "adaptive", Display: unless(!show, "summarized")}
}

// effort maps ours to the API's, which has no "minimal" and, before Claude 4.7,
// no "xhigh".
func (m *Model) effort() string {
	switch e := m.cfg.ReasoningEffort; {
	case e == "minimal":
		return "low"
	case e == "xhigh" && !m.family.since(407):
		return "high"
	default:
		return e
	}
}

// unless returns s if the condition does not hold.
func unless(condition bool, s string) string {
	if condition {
		return ""
	}
	return s
}
