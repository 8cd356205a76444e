package v1

import (
	"encoding/json"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/engine"
)

// llmTest is how a test of a model went. It is an answer, not an error of this
// API: the status is 200 in any case.
type llmTest struct {
	OK      bool          `json:"ok"`
	Model   string        `json:"model"`
	Latency float64       `json:"latency_seconds"`
	Cost    *float64      `json:"cost"` // USD
	Text    string        `json:"text"`
	Error   *llmTestError `json:"error"`
}

type llmTestError struct {
	Code   string  `json:"code"`
	Detail string  `json:"detail"`
	Action *string `json:"action"`
}

func renderTest(p engine.ProbeResult) llmTest {
	t := llmTest{OK: p.OK, Model: p.Model, Latency: p.LatencySeconds, Text: p.Text}
	if p.Cost != nil {
		usd := p.Cost.USD()
		t.Cost = &usd
	}
	if p.Error != nil {
		t.Error = &llmTestError{p.Error.Code, p.Error.Text, orNull(p.Error.Advice)}
	}
	return t
}

func (h *handlers) probe(w http.ResponseWriter, r *httpkit.Request, l account.LLM) error {
	return httpkit.JSON(w, http.StatusOK, renderTest(h.Engine.Probe(r.Context(), r.Principal.UserID, l)))
}

func (h *handlers) testProfile(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	l, err := s.Profile(r.PathValue("name"))
	if err != nil {
		return err
	}
	return h.probe(w, r, l)
}

// testLLM tests what a form holds before it is stored. A key that it shows as the
// mask is the stored one, and so is one that it leaves out, where the calls go
// where that was stored for.
func (h *handlers) testLLM(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		LLM json.RawMessage `json:"llm"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	in, err := input(q.LLM)
	if err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	l := s.LLM()
	if in != nil {
		if l, err = in.Over(&l, false, "body", "llm"); err != nil {
			return err
		}
	}
	return h.probe(w, r, l)
}
