package spend

import (
	"hash/maphash"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// What a prompt holds beside its own bytes, in tokens. Providers wrap messages,
// calls and tools into markup of their own that they do not show; these are
// several times what is known of it.
const (
	perRequest = 1024 // preambles, how-to-call-tools texts of chat templates
	perMessage = 32
	perPart    = 8
	perCall    = 64
	perTool    = 64
	perText    = 4096 // the text protocol of models without native tools
	perAnchor  = 256  // what may stand differently after a prompt that has grown
)

// jsonFactor bounds how much longer JSON gets when a provider formats it anew
// (spaces after separators, indentation that is tokenized in runs).
const jsonFactor = 2

// leastDensity is the smallest number of reported tokens per byte of a prompt
// that is believed, as its inverse: fewer say that the endpoint counts only a
// part (what its cache did not hold), and are no anchor.
const leastDensity = 16

// bytesPerToken is how many bytes a token of ordinary text has, about.
const bytesPerToken = 4

// Prompt is an estimate of how many tokens a request's prompt has.
type Prompt struct {
	Bound    int64 // at most
	Likely   int64 // about; never more than Bound
	Anchored bool  // by the exact count of an earlier prompt that this one extends
}

// Anchor is the exact size of a prompt that a provider has counted. It bounds
// later prompts that begin with it: only what is new must be estimated. It is
// immutable, and worth nothing in another process.
type Anchor struct {
	model    string
	seed     maphash.Seed
	messages int    // of the request
	digest   uint64 // of model, tools and these messages
	prompt   int64  // tokens, as the provider counted
	answer   int64  // tokens of the answer, which later prompts hold
}

// counter names who counts: two endpoints may count a model of one name
// differently.
func counter(info llm.Info) string { return info.Model + " " + info.Endpoint }

// Estimate bounds the prompt of a request. No byte-level tokenizer makes more
// tokens of a text than it has bytes, so the bytes count as tokens, with
// allowances for markup and images (imageTokens). With an anchor that the
// request extends, only the rest is counted so. a may be nil, or of anything
// else: then it is not used.
func Estimate(info llm.Info, req *llm.Request, a *Anchor) Prompt {
	return measure(info, req, a).Prompt
}

// measured is an estimate with what makes the next anchor.
type measured struct {
	Prompt
	old      *Anchor // that the request extends, or nil
	seed     maphash.Seed
	digest   uint64
	messages int
	text     int64 // bytes
}

func measure(info llm.Info, req *llm.Request, a *Anchor) measured {
	m := measured{seed: maphash.MakeSeed(), messages: len(req.Messages)}
	if a != nil {
		m.seed = a.seed
	}
	d := &digester{}
	d.hash.SetSeed(m.seed)
	whole := toolsSize(d, info, req.Tools)
	whole.tokens += perRequest
	var added size
	var answered bool
	for i, msg := range req.Messages {
		if a != nil && i == a.messages && a.model == counter(info) && a.digest == d.sum() {
			m.old = a
		}
		s := messageSize(d, info, msg)
		if m.old != nil {
			if !answered && msg.Role == content.RoleAssistant {
				answered = true // hidden reasoning may go back as less bytes than tokens
				s.tokens = max(s.tokens, a.answer-s.text)
			}
			added.add(s)
		}
		whole.add(s)
	}
	if a != nil && a.messages == len(req.Messages) && a.model == counter(info) && a.digest == d.sum() {
		m.old = a
	}
	m.digest, m.text = d.sum(), whole.text
	m.Bound, m.Likely = whole.bound(), whole.bound()/bytesPerToken
	if m.old != nil {
		m.Anchored = true
		m.Bound = min(m.Bound, a.prompt+added.bound()+perAnchor)
		m.Likely = min(m.Bound, a.prompt+added.bound()/bytesPerToken)
	}
	return m
}

// anchor returns the anchor that an answer's usage gives, nil if the usage is
// not credible.
func (m *measured) anchor(model string, u conversation.Usage) *Anchor {
	tokens := u.PromptTokens
	if m.old != nil { // it holds that prompt, so it cannot be shorter
		tokens = max(tokens, m.old.prompt)
	}
	if u.PromptTokens <= 0 || tokens < m.text/leastDensity {
		return nil
	}
	return &Anchor{model: model, seed: m.seed, messages: m.messages, digest: m.digest,
		prompt: tokens, answer: max(u.CompletionTokens, 0)}
}

// size is a part of a prompt: bytes that are tokenized, and tokens.
type size struct{ text, tokens int64 }

func (s *size) add(o size) { s.text += o.text; s.tokens += o.tokens }

func (s size) bound() int64 { return s.text + s.tokens }

// count adds a text. What is no UTF-8 reaches the model as replacement
// characters of three bytes.
func (s *size) count(texts ...string) {
	for _, text := range texts {
		n := int64(len(text))
		if !utf8.ValidString(text) {
			n *= int64(utf8.RuneLen(utf8.RuneError))
		}
		s.text += n
	}
}

func toolsSize(d *digester, info llm.Info, tools []llm.Tool) size {
	var s size
	for _, t := range tools {
		d.add(t.Name, t.Description, string(t.Parameters))
		s.tokens += perTool
		s.count(t.Name, t.Description)
		s.text += jsonFactor * int64(len(t.Parameters))
	}
	if len(tools) > 0 && !info.NativeTools {
		s.tokens += perText
	}
	d.add("tools end")
	return s
}

func messageSize(d *digester, info llm.Info, m content.Message) size {
	s := size{tokens: perMessage}
	d.add(m.Role, m.ToolCallID, m.ToolName, m.Reasoning)
	s.count(m.ToolCallID, m.ToolName, m.Reasoning)
	for _, p := range m.Parts {
		d.add(p.Type, p.Text)
		d.add(p.ImageURLs...)
		s.tokens += perPart + int64(len(p.ImageURLs))*imageTokens(info.Model)
		s.count(p.Text)
	}
	for _, c := range m.ToolCalls {
		d.add(c.ID, c.Name, c.Arguments)
		s.tokens += perCall
		s.count(c.ID, c.Name)
		s.text += jsonFactor * int64(len(c.Arguments))
	}
	for _, name := range sortedNames(m.Extra) {
		d.add(name, string(m.Extra[name]))
		s.count(name)
		s.text += int64(len(m.Extra[name]))
	}
	d.add("message end")
	return s
}
