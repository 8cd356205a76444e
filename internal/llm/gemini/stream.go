package gemini

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"parley/internal/llm"
	"parley/internal/llm/sse"
	"parley/internal/llm/wire"
)

// readAnswer reads an answer in the shape it has, whatever was asked for: a
// gateway may know one of them only.
func readAnswer(in *wire.Answer, a *answer) error {
	if in.IsEventStream() {
		err := readEvents(in.Events(), a, in.Complete)
		if err == nil {
			in.Drain()
		}
		return err
	}
	r := bufio.NewReader(in)
	first, err := firstByte(r)
	switch {
	case errors.Is(err, io.EOF):
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint sent an empty answer"}
	case err != nil:
		return err
	case first == '[':
		return readArray(r, a)
	case first != '{' && startsLikeEvents(r):
		return readEvents(sse.NewReader(r, wire.MaxEvent), a, func() {})
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return a.take(body)
}

// firstByte skips white space and peeks at what follows.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, r.UnreadByte()
		}
	}
}

func startsLikeEvents(r *bufio.Reader) bool {
	begin, _ := r.Peek(6) // a shorter answer is no stream
	for _, prefix := range []string{"data:", "event:", ":", "id:"} {
		if bytes.HasPrefix(begin, []byte(prefix)) {
			return true
		}
	}
	return false
}

// readArray reads a stream that is one JSON array, chunk by chunk: what the API
// sends without alt=sse.
func readArray(r io.Reader, a *answer) error {
	d := json.NewDecoder(r)
	if _, err := d.Token(); err != nil {
		return unfinished(a, err)
	}
	for d.More() {
		var chunk json.RawMessage
		if err := d.Decode(&chunk); err != nil {
			return unfinished(a, err)
		}
		if err := a.take(chunk); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return unfinished(a, err)
	}
	return ended(a)
}

// unfinished classifies the end of a stream by an error: behind a finish reason
// the answer is complete, however the connection ends.
func unfinished(a *answer, err error) error {
	var syntax *json.SyntaxError
	switch {
	case a.finish != "" && !a.calls.open:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &syntax):
		return wire.Broken("the endpoint's stream cannot be read", []byte(syntax.Error()), err)
	}
	return err
}

// ended checks a stream that ended in order.
func ended(a *answer) error {
	switch {
	case a.calls.open:
		return io.ErrUnexpectedEOF
	case a.finish != "" || (a.chunks > 0 && !a.candidates):
		return nil
	}
	return io.ErrUnexpectedEOF
}

// readEvents reads to the end of the stream, for the usage comes late. complete is
// called at the finish reason, except where the very first chunk has it: some
// gateways put one on every chunk.
func readEvents(events *sse.Reader, a *answer, complete func()) error {
	s := wire.Stream{Take: a.takeEvent, Finished: func() bool { return a.finish != "" }, End: a.end}
	return s.Read(events, func() {
		if a.chunks > 1 {
			complete()
		}
	})
}

func (a *answer) takeEvent(name string, data []byte) (done bool, err error) {
	if name == "error" {
		return false, wire.BrokenEvent(data)
	}
	err = a.take(data)
	if err != nil && !json.Valid(data) {
		err = wire.BrokenEvent(data)
	}
	return false, err
}

func (a *answer) end(cause error) error {
	if cause == nil || errors.Is(cause, io.EOF) {
		return ended(a)
	}
	return unfinished(a, cause)
}
