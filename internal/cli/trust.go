package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"parley/internal/conversation"
)

// maxTrustLines bounds what is shown of what would run.
const maxTrustLines = 60

// TrustQuestions returns what wants to run in a conversation and waits for the user's
// trust; none from a server that does not ask.
func (c *Client) TrustQuestions(ctx context.Context, id string) ([]conversation.TrustQuestion, error) {
	var found struct {
		Questions []conversation.TrustQuestion `json:"questions"`
	}
	err := c.get(ctx, trustPath(id), &found)
	var api *APIError
	if errors.As(err, &api) && (api.Status == http.StatusNotFound || api.Status == http.StatusMethodNotAllowed) {
		return nil, nil
	}
	return found.Questions, err
}

// Trust answers a question.
func (c *Client) Trust(ctx context.Context, id string, q conversation.TrustQuestion, trusted bool) error {
	return c.post(ctx, trustPath(id), map[string]any{"subject": q.Subject, "hash": q.Hash, "trusted": trusted})
}

func trustPath(id string) string {
	return "/api/v1/app-conversations/" + url.PathEscape(id) + "/trust"
}

const trustPrompt = "Trust it? [y]es, [n]o, or [l]ater: "

// askTrust shows what wants to run, and asks whether it may. Nothing of it runs before
// that.
func (s *session) askTrust(ctx context.Context) error {
	questions, err := s.client.TrustQuestions(ctx, s.conv.ID)
	if err != nil {
		return err
	}
	for _, q := range questions {
		s.known = append(s.known, q.Subject+" "+q.Hash)
		s.note.trust(q)
		if err := s.decide(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// decide takes the answer to one question: that of the command line, or of who sits
// at the terminal.
func (s *session) decide(ctx context.Context, q conversation.TrustQuestion) error {
	verdict := later
	switch {
	case s.opts.Trust:
		verdict = yes
	case s.interactive:
		var err error
		if verdict, err = s.readTrust(ctx); err != nil {
			return err
		}
	}
	switch verdict {
	case later:
		s.note.line(dim, "it does not run; answer with: parley chat --conversation "+CleanLine(s.conv.ID)+", or say yes with --trust")
		return nil
	case yes:
		s.note.line(dim, "trusted: "+cut(CleanLine(q.Subject), lineRunes))
	}
	err := s.client.Trust(ctx, s.conv.ID, q, verdict == yes)
	var api *APIError
	if errors.As(err, &api) && (api.Status == http.StatusConflict || api.Status == http.StatusNotFound) {
		s.note.line(red, "! "+Clean(err.Error())) // it changed, or somebody else has answered
		return nil
	}
	return err
}

// answer is what somebody says to a question.
type answer uint8

const (
	later answer = iota
	yes
	no
)

// readTrust reads until it is an answer. The end of the input is "later".
func (s *session) readTrust(ctx context.Context) (answer, error) {
	for {
		s.note.write(trustPrompt)
		select {
		case line, ok := <-s.lines.lines:
			s.note.cursor.midLine = false // the terminal has echoed the line's end
			if !ok {
				return later, nil
			}
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				return yes, nil
			case "n", "no":
				return no, nil
			case "l", "later":
				return later, nil
			}
		case <-s.term.Interrupts:
			return later, errLeft
		case <-ctx.Done():
			return later, context.Cause(ctx)
		}
	}
}

// newQuestions tells about questions that came up while the conversation goes on.
func (s *session) newQuestions(asked []conversation.TrustQuestion) {
	for _, q := range asked {
		if key := q.Subject + " " + q.Hash; !slices.Contains(s.known, key) {
			s.known = append(s.known, key)
			s.note.line(yellow, "! "+cut(CleanLine(q.Subject), lineRunes)+
				" wants to run something; look at it with: parley chat --conversation "+CleanLine(s.conv.ID))
		}
	}
}

// trust shows a question: all of what would run, as the server tells it.
func (p *printer) trust(q conversation.TrustQuestion) {
	p.line(yellow, cut(CleanLine(q.Subject), lineRunes)+" wants to run:")
	lines := make([]string, len(q.Runs))
	for i, line := range q.Runs {
		lines[i] = CleanLine(line)
	}
	p.block(lines, maxTrustLines, 0, all(plain))
}
