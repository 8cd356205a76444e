// Package bedrocktest is a strict stand-in for Amazon Bedrock's Converse API: it
// verifies the signature of every request for real, refuses what the service
// refuses, in its words, and answers in its wire format, streamed as event stream
// frames or whole.
//
// It knows one identity (AccessKeyID, SecretAccessKey, SessionToken) and one API
// key, in one region. It does not run a model, and keeps nothing but the
// signatures that it gave out.
package bedrocktest

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"parley/internal/llm/llmtest"
)

// What a request must be signed with, or carry.
const (
	Region          = "eu-central-1"
	AccessKeyID     = "AKIAPARLEYTEST000000"
	SecretAccessKey = "parley/test/secret/access/key/0123456789"
	APIKey          = "bedrock-api-key-parley-test-0123456789"
)

// maxBody bounds what is read of a request, in bytes.
const maxBody = 64 << 20

// Handler serves the replies of next in the wire format of Converse and
// ConverseStream. next gets the request, whose body has been read; it is called
// for requests that the service would accept, from many goroutines.
func Handler(next func(r *http.Request, body []byte) llmtest.Reply) http.Handler {
	return &server{next: next, signed: map[string][]signedAnswer{}, given: map[string]bool{}, free: map[string]bool{}}
}

type server struct {
	next func(r *http.Request, body []byte) llmtest.Reply

	mu     sync.Mutex
	signed map[string][]signedAnswer // by the ids of the answer's calls
	free   map[string]bool           // calls that were also made without thinking
	given  map[string]bool           // all signatures that were given out
}

// signedAnswer is thinking that must come back with the calls it came with.
type signedAnswer struct{ text, signature string }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client is gone
	}
	if f := checkIdentity(r, body); f != nil {
		f.write(w)
		return
	}
	stream, f := operation(r)
	if f == nil {
		f = s.check(r, body)
	}
	if f != nil {
		f.write(w)
		return
	}
	s.answer(w, r, stream, s.next(r, body))
}

// operation reads the path: /model/{id}/converse or converse-stream, below any
// prefix. The id is one segment, with everything but unreserved characters encoded.
func operation(r *http.Request) (stream bool, f *failure) {
	_, rest, ok := strings.Cut(r.URL.EscapedPath(), "/model/")
	id, op, two := strings.Cut(rest, "/")
	if !ok || !two || r.Method != http.MethodPost || op != "converse" && op != "converse-stream" {
		return false, &failure{http.StatusNotFound, "UnknownOperationException", ""}
	}
	plain, err := url.PathUnescape(id)
	if err != nil || plain == "" || strings.ContainsAny(id, ":/ ") {
		return false, invalid("The provided model identifier is invalid.")
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		return false, invalid("The content type %q is not supported.", ct)
	}
	return op == "converse-stream", nil
}

// remember notes the signature of an answer. An id that several answers have used
// is good with each of their signatures.
func (s *server) remember(reply llmtest.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signed := reply.Signature != "" && reply.Reasoning != ""
	if signed {
		s.given[reply.Signature] = true
	}
	for _, c := range reply.Calls {
		switch {
		case !signed:
			s.free[c.ID] = true
			delete(s.signed, c.ID)
		case !s.free[c.ID]:
			s.signed[c.ID] = append(s.signed[c.ID], signedAnswer{text: reply.Reasoning, signature: reply.Signature})
		}
	}
}
