package wire_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"parley/internal/llm"
	"parley/internal/llm/sse"
	"parley/internal/llm/wire"
)

var errBroken = errors.New("the connection broke")

// body is a stream that ends with err.
func body(text string, err error) *sse.Reader {
	return sse.NewReader(io.MultiReader(strings.NewReader(text), failing{err}), 1000)
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestStream(t *testing.T) {
	errTake, errEnd := errors.New("take"), errors.New("end")
	for name, tt := range map[string]struct {
		text     string
		broken   error // io.EOF if nil
		end      error // what End makes of it; errors.ErrUnsupported = the cause itself
		want     error
		took     []string
		cause    error
		complete int // before which event, counted from 1; 0 = never
	}{
		"to the end mark":   {text: "data: a\n\ndata: finish\n\ndata: b\n\n data: no\n\ndata: [DONE]\n\ndata: c\n\n", took: []string{"a", "finish", "b"}, complete: 3},
		"to the last event": {text: "data: a\n\ndata: last\n\ndata: b\n\n", took: []string{"a", "last"}},
		"blank data":        {text: "data:  \n\nevent: n\ndata:  a \n\ndata: [DONE] \n\n", took: []string{"n:a"}},
		"closed":            {text: "data: a\n\n", took: []string{"a"}, cause: io.EOF, end: errors.ErrUnsupported, want: io.ErrUnexpectedEOF},
		"closed in time":    {text: "data: finish\n\n", took: []string{"finish"}, cause: io.EOF, complete: 2},
		"broken":            {text: "data: a\n\n", broken: errBroken, took: []string{"a"}, cause: errBroken, end: errors.ErrUnsupported, want: errBroken},
		"broken in time":    {text: "data: finish\n\ndata: finish\n\n", broken: errBroken, took: []string{"finish", "finish"}, cause: errBroken, complete: 2},
		"not well ended":    {text: "data: [DONE]\n\n", end: errEnd, want: errEnd},
		"refused":           {text: "data: a\n\ndata: bad\n\ndata: b\n\n", took: []string{"a", "bad"}, want: errTake},
	} {
		t.Run(name, func(t *testing.T) {
			var took []string
			cause, complete := errors.New("End was not asked"), 0
			if errors.Is(tt.want, errTake) {
				tt.cause = cause
			}
			s := wire.Stream{
				Take: func(name string, data []byte) (bool, error) {
					took = append(took, strings.TrimPrefix(name+":"+string(data), ":"))
					if string(data) == "bad" {
						return true, errTake
					}
					return string(data) == "last", nil
				},
				Finished: func() bool { return slices.Contains(took, "finish") || slices.Contains(took, "last") },
				End: func(err error) error {
					cause = err
					if errors.Is(tt.end, errors.ErrUnsupported) {
						return err
					}
					return tt.end
				}}
			if tt.broken == nil {
				tt.broken = io.EOF
			}
			err := s.Read(body(tt.text, tt.broken), func() {
				if complete != 0 {
					t.Error("complete twice")
				}
				complete = len(took) + 1
			})
			if !errors.Is(err, tt.want) || !errors.Is(cause, tt.cause) || !slices.Equal(took, tt.took) || complete != tt.complete {
				t.Errorf("error %v, cause %v, took %q, complete before %d", err, cause, took, complete)
			}
		})
	}
}

// TestStreamIsBounded: an event over the bound is an error, though the answer is there.
func TestStreamIsBounded(t *testing.T) {
	s := wire.Stream{Take: func(string, []byte) (bool, error) { return false, nil }, Finished: func() bool { return true },
		End: func(error) error { return nil }}
	var e *llm.Error
	if err := s.Read(body("data: a\n\ndata: "+strings.Repeat("x", 2000)+"\n\n", io.EOF), func() {}); !errors.As(err, &e) || e.Class != llm.ClassBadRequest {
		t.Errorf("%v", err)
	}
}

func TestBrokenEvent(t *testing.T) {
	for in, want := range map[string]string{`{"error":{"message":"too much"}}`: "too much", `upstream timeout`: "upstream timeout", `{"a`: ""} {
		err := wire.BrokenEvent([]byte(in))
		var e *llm.Error
		switch {
		case want == "" && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("%s: %v", in, err)
		case want != "" && (!errors.As(err, &e) || !strings.Contains(e.Message, want)):
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestSpeech(t *testing.T) {
	var told []llm.Delta
	s := wire.Speech{Listener: wire.Listen(&llm.Request{OnDelta: func(d llm.Delta) { told = append(told, d) }})}
	s.Say("", "")
	if s.Streamed() || len(s.Message().Parts) != 0 {
		t.Error("nothing was said")
	}
	s.Say("", "hm")
	s.Say("a", "")
	s.Say("b", "m")
	want := []llm.Delta{{Reasoning: "hm"}, {Text: "a"}, {Text: "b", Reasoning: "m"}}
	if msg := s.Message(); !s.Streamed() || !slices.Equal(told, want) || msg.Text() != "ab" || msg.Reasoning != "hmm" {
		t.Errorf("told %v, message %+v", told, msg)
	}
	alone := wire.Speech{Listener: wire.Listen(&llm.Request{})}
	if alone.Say("a", ""); alone.Streamed() || string(alone.Text) != "a" {
		t.Errorf("nobody listens: %+v", alone)
	}
}
