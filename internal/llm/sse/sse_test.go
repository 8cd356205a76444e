package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"parley/internal/llm/sse"
)

type event struct{ Name, Data string }

func readAll(r io.Reader, max int) ([]event, error) {
	reader := sse.NewReader(r, max)
	var all []event
	for {
		ev, err := reader.Next()
		if err != nil {
			return all, err
		}
		all = append(all, event{ev.Name, string(ev.Data)})
	}
}

func TestReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []event
	}{
		{"plain", "data: a\n\ndata: b\n\n", []event{{"", "a"}, {"", "b"}}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{"", "a"}, {"", "b"}}},
		{"cr", "data: a\r\rdata: b\r\r", []event{{"", "a"}, {"", "b"}}},
		{"no space", "data:a\n\n", []event{{"", "a"}}},
		{"one space only is dropped", "data:  a\n\n", []event{{"", " a"}}},
		{"comments are keep-alives", ": ping\n\n:\n\ndata: a\n: in between\n\n", []event{{"", "a"}}},
		{"several data lines", "data: a\ndata:\ndata: b\n\n", []event{{"", "a\n\nb"}}},
		{"event name", "event: error\ndata: a\n\ndata: b\n\n", []event{{"error", "a"}, {"", "b"}}},
		{"event without data is dropped", "event: ping\n\ndata: a\n\n", []event{{"", "a"}}},
		{"id and retry are ignored", "id: 1\nretry: 10\ndata: a\n\n", []event{{"", "a"}}},
		{"no end of the last event", "data: a\n\ndata: b", []event{{"", "a"}, {"", "b"}}},
		{"no empty line at the end", "data: b\n", []event{{"", "b"}}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []event{{"", "a"}}},
		{"empty data", "data\n\n", []event{{"", ""}}},
		{"not ASCII", "data: gr\u00fc\u00df \U0001f600\n\n", []event{{"", "gr\u00fc\u00df \U0001f600"}}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole":   strings.NewReader(tt.in),
				"by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
				"halves":  iotest.HalfReader(strings.NewReader(tt.in)),
				"dataErr": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := readAll(r, 0)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: error %v, want EOF", how, err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("%s: (-want +got)\n%s", how, d)
				}
			}
		})
	}
}

// An event is handed out as soon as its last byte is there, also when a CR ends it.
func TestReaderDoesNotWaitAfterCR(t *testing.T) {
	pr, pw := io.Pipe()
	defer func() { _ = pw.Close() }()
	go func() { _, _ = pw.Write([]byte("data: a\r\r")) }()
	ev, err := sse.NewReader(pr, 0).Next()
	if err != nil || string(ev.Data) != "a" {
		t.Fatalf("got %q, %v", ev.Data, err)
	}
}

func TestReaderBounds(t *testing.T) {
	for name, in := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 200) + "\n\n",
		"many lines": strings.Repeat("data: xxxxxxxxxx\n", 20) + "\n",
		"a comment":  ":" + strings.Repeat("x", 200),
	} {
		if _, err := readAll(strings.NewReader(in), 100); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: %v, want ErrTooLong", name, err)
		}
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("reset")
	r := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	got, err := readAll(r, 0)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Fatalf("got %v, %v: the unfinished event must be dropped and the error kept", got, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\ndata: b\rdata: c\n\n: x\nevent: e\ndata"))
	f.Add([]byte("\xef\xbb\xbfdata:{}\n\ndata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const max = 64
		whole, errWhole := readAll(bytes.NewReader(in), max)
		split, errSplit := readAll(iotest.OneByteReader(bytes.NewReader(in)), max)
		if !errors.Is(errWhole, errSplit) {
			t.Fatalf("errors differ: %v, %v", errWhole, errSplit)
		}
		if d := cmp.Diff(whole, split); d != "" {
			t.Fatalf("how the bytes arrive changes the events:\n%s", d)
		}
		for _, ev := range whole {
			if len(ev.Data) > max {
				t.Fatalf("event of %d bytes", len(ev.Data))
			}
		}
	})
}
