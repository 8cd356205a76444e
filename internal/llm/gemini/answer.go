package gemini

import (
	"encoding/json"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// wireAnswer is a whole answer or one chunk of a stream: they look the same.
type wireAnswer struct {
	Candidates []wireCandidate `json:"candidates"`
	Feedback   *wireFeedback   `json:"promptFeedback"`
	Usage      json.RawMessage `json:"usageMetadata"`
	ID         string          `json:"responseId"`
	Error      json.RawMessage `json:"error"`
}

type wireFeedback struct {
	Reason  string `json:"blockReason"`
	Message string `json:"blockReasonMessage"`
}

type wireCandidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []answerPart `json:"parts"`
	} `json:"content"`
	Finish  string `json:"finishReason"`
	Message string `json:"finishMessage"`
}

// answerPart holds the parts that we ask for; others (code, images) are not read.
type answerPart struct {
	Text      *string     `json:"text"`
	Thought   bool        `json:"thought"`
	Signature string      `json:"thoughtSignature"`
	Call      *answerCall `json:"functionCall"`
}

// answer gathers what a model says.
type answer struct {
	wire.Speech

	id         string
	calls      calls
	layout     layout
	finish     string
	message    string // what the API says about the finish
	usage      usage
	chunks     int
	candidates bool // there was one
}

// take adds a chunk or a whole answer. Errors are *llm.Error.
func (a *answer) take(raw []byte) error {
	var w wireAnswer
	if err := json.Unmarshal(raw, &w); err != nil {
		return wire.Broken("the endpoint sent something that is not an answer of Gemini", raw, err)
	}
	a.chunks++
	if !wire.IsNull(w.Error) {
		return failure.Payload([]byte(`{"error":` + string(w.Error) + `}`))
	}
	if a.id == "" {
		a.id = w.ID
	}
	a.usage.take(w.Usage)
	if f := w.Feedback; f != nil && f.Reason != "" && f.Reason != "BLOCK_REASON_UNSPECIFIED" {
		return &llm.Error{Class: llm.ClassContentPolicy,
			Message: failure.Bound("Google refused the prompt: " + reasonText(f.Reason, f.Message))}
	}
	for i := range w.Candidates {
		if err := a.takeCandidate(&w.Candidates[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) takeCandidate(c *wireCandidate) error {
	if c.Index != 0 {
		return nil // we ask for one
	}
	a.candidates = true
	for i := range c.Content.Parts {
		if err := a.takePart(&c.Content.Parts[i]); err != nil {
			return err
		}
	}
	if c.Finish != "" && c.Finish != "FINISH_REASON_UNSPECIFIED" {
		a.finish, a.message = c.Finish, c.Message
	}
	return nil
}

func (a *answer) takePart(p *answerPart) error {
	switch {
	case p.Call != nil:
		begins, err := a.calls.add(p.Call)
		if err != nil {
			return &llm.Error{Class: llm.ClassNetwork, Err: err, Message: err.Error()}
		}
		if begins {
			a.calls.all[len(a.calls.all)-1].place = len(a.layout)
			a.layout = append(a.layout, place{Kind: placeCall})
		}
		if n := len(a.calls.all); n > 0 && p.Signature != "" {
			a.layout[a.calls.all[n-1].place].Signature = p.Signature
		}
	case p.Text != nil && p.Thought:
		a.Say("", *p.Text)
		a.layout.say(placeThought, len(*p.Text), p.Signature)
	case p.Text != nil:
		a.Say(*p.Text, "")
		a.layout.say(placeText, len(*p.Text), p.Signature)
	case p.Signature != "": // on nothing: it stands on an empty text then
		a.layout.say(placeText, 0, p.Signature)
	}
	return nil
}

// response finishes the answer. Errors are *llm.Error.
func (m *Model) response(a *answer, req *llm.Request, names *nameMap) (*llm.Response, error) {
	finish, err := a.ended()
	if err != nil {
		return nil, err
	}
	resp := &llm.Response{ID: wire.ResponseID(a.id), FinishReason: finish, Message: a.Message()}
	taken := wire.TakenIDs(req)
	for _, c := range a.calls.all {
		id := wire.FreshID(c.given, taken)
		a.layout[c.place].Call = id
		resp.Message.ToolCalls = append(resp.Message.ToolCalls, c.content(id, names))
	}
	resp.Message.Extra = a.layout.extra(m.source)
	resp.Usage, resp.Cost = m.cfg.Account(a.usage.counts(), resp.ID, a.usage.known, nil)
	return resp, nil
}
