package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
)

// Stream says how the events of one answer are read.
type Stream struct {
	// Take adds an event. data is not empty, without white space around it, and
	// valid until Take returns. done means that the answer ends with this event.
	Take func(name string, data []byte) (done bool, err error)
	// Finished reports whether the answer is there, though something may follow,
	// such as the usage. It is asked after each event until it says so.
	Finished func() bool
	// End says what the end of the stream means. cause is nil where the endpoint
	// said that it ends here, io.EOF where it said nothing, else what the
	// connection broke off with. The outcome of the stream is what End returns;
	// io.EOF stands for an answer that was cut off.
	End func(cause error) error
}

// Read reads to the end of the answer. complete is called once, when it is
// Finished, but not by its last event. Errors are those of Take and End,
// io.ErrUnexpectedEOF, or *llm.Error for an event over the bounds.
func (s Stream) Read(events *sse.Reader, complete func()) error {
	finished := false
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return ErrTooLarge()
		case err != nil:
			return s.ended(err)
		}
		data := bytes.TrimSpace(ev.Data)
		switch string(data) {
		case "":
			continue
		case "[DONE]": // of OpenAI's API, and of gateways that imitate it beside another
			return s.ended(nil)
		}
		done, err := s.Take(ev.Name, data)
		switch {
		case err != nil:
			return err
		case done:
			return s.ended(nil)
		case !finished && s.Finished():
			finished = true
			complete()
		}
	}
}

func (s Stream) ended(cause error) error {
	err := s.End(cause)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// BrokenEvent reads an error event, or data that is no JSON: a gateway's text,
// or an event that the end of the connection cut in two.
func BrokenEvent(data []byte) error {
	if json.Valid(data) || !bytes.HasPrefix(data, []byte("{")) {
		return failure.Payload(data)
	}
	return io.ErrUnexpectedEOF
}
