package bedrock

// thought says how a call shall think; nil = as the model does by itself.
type thought struct {
	fields map[string]any // of additionalModelRequestFields
	active bool           // sampling settings must be left out
}

// Bounds of a thinking budget that is told in tokens.
const (
	minBudget     = 1024
	lowBudget     = 4096
	mediumBudget  = 16384
	highBudget    = 32768
	biggestBudget = 65536
)

// thinking says what this call is told about thinking. Each vendor has words of
// its own. openLoop: the call goes on from an answer without its thinking.
func (m *Model) thinking(output int64, openLoop bool, refused refusals) *thought {
	if !m.cfg.Reasoning || refused.has(refusedThinking) || m.cfg.ReasoningEffort == "" && m.cfg.ReasoningBudget <= 0 {
		return nil
	}
	switch m.family.vendor {
	case claude:
		return m.claudeThinking(output, openLoop, refused)
	case nova:
		if m.family.version >= 2 {
			return m.novaThinking(output)
		}
	case openai:
		if e := level(m.cfg.ReasoningEffort, "high"); e != "" && e != "none" {
			return &thought{fields: map[string]any{"reasoning_effort": e}}
		}
	}
	return nil
}

func (m *Model) claudeThinking(output int64, openLoop bool, refused refusals) *thought {
	if m.cfg.ReasoningEffort == "none" {
		return &thought{fields: map[string]any{"thinking": map[string]any{"type": "disabled"}}}
	}
	adaptive := m.family.adaptive()
	if refused.has(refusedBudget) {
		adaptive = true
	}
	if refused.has(refusedAdaptive) {
		adaptive = false
	}
	if !adaptive {
		budget := m.budget(output)
		if budget < minBudget || openLoop {
			return nil
		}
		return &thought{active: true, fields: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": budget}}}
	}
	how := map[string]any{"type": "adaptive"}
	if !refused.has(refusedDisplay) {
		how["display"] = "summarized" // else some models think without a word
	}
	t := &thought{active: true, fields: map[string]any{"thinking": how}}
	top := "high"
	if m.family.version >= 4.7 {
		top = "xhigh"
	}
	if e := level(m.cfg.ReasoningEffort, top); e != "" {
		t.fields["output_config"] = map[string]any{"effort": e}
	}
	return t
}

// budget is the number of tokens to think with: part of the answer's, of which
// enough must be left to say something.
func (m *Model) budget(output int64) int64 {
	n := m.cfg.ReasoningBudget
	if n <= 0 {
		switch m.cfg.ReasoningEffort {
		case "minimal", "low":
			n = lowBudget
		case "medium":
			n = mediumBudget
		case "high":
			n = highBudget
		default:
			n = biggestBudget
		}
	}
	if output > 0 {
		return min(n, output-output/4)
	}
	return min(n, mediumBudget) // less than any thinking model's own bound
}

// novaThinking: with its highest effort Nova refuses a bound on the answer, which
// is what keeps a call within its budget of money; so a bound makes it "medium".
func (m *Model) novaThinking(output int64) *thought {
	e := level(m.cfg.ReasoningEffort, "high")
	switch {
	case e == "none":
		return &thought{fields: map[string]any{"reasoningConfig": map[string]any{"type": "disabled"}}}
	case e == "":
		e = "medium"
	case e == "high" && output > 0:
		e = "medium"
	}
	return &thought{active: e == "high", fields: map[string]any{"reasoningConfig": map[string]any{"type": "enabled", "maxReasoningEffort": e}}}
}

// level is an effort in the vendors' words, of which top is the highest.
func level(effort, top string) string {
	switch effort {
	case "minimal":
		return "low"
	case "xhigh":
		return top
	}
	return effort
}

// additional are the fields that Converse passes on to the model.
func (m *Model) additional(think *thought, refused refusals) map[string]any {
	out := map[string]any{}
	if think != nil {
		for k, v := range think.fields {
			out[k] = v
		}
	}
	if k := m.cfg.TopK; k != nil && !refused.has(refusedTopK) && (think == nil || !think.active) {
		switch m.family.vendor {
		case claude, mistral:
			out["top_k"] = int64(*k)
		case nova:
			out["inferenceConfig"] = map[string]any{"topK": int64(*k)}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// inference is the bound of the answer and how it is sampled; a model that thinks
// does not let itself be told the latter.
func (m *Model) inference(output int64, think *thought, refused refusals) *inference {
	i := &inference{MaxTokens: max(output, 0)}
	if think == nil || !think.active {
		if !refused.has(refusedTemperature) {
			i.Temperature = atMost(m.cfg.Temperature, 1) // the API knows no hotter one
		}
		if !refused.has(refusedTopP) {
			i.TopP = m.cfg.TopP
		}
	}
	if *i == (inference{}) {
		return nil
	}
	return i
}

func atMost(v *float64, top float64) *float64 {
	if v != nil && *v > top {
		return &top
	}
	return v
}
