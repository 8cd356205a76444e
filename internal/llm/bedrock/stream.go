package bedrock

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// eventStream is the content type of a streamed answer.
const eventStream = "application/vnd.amazon.eventstream"

// readAnswer reads a stream or a document, whichever came: gateways do not always
// send what was asked for, nor say what they send.
func readAnswer(in *wire.Answer, a *answer) error {
	r := bufio.NewReaderSize(in, 16<<10)
	first, err := r.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint sent an empty answer"}
	case err != nil:
		return err
	case first[0] > 1: // no frame is that long
		return readWhole(r, a)
	}
	if err := readEvents(&frames{in: r}, a, in.Complete); err != nil {
		return err
	}
	in.Drain()
	return nil
}

// readEvents reads to the usage, or to the end. finished is called when the
// message is complete: behind it an answer is one, however the connection ends.
// An end before it is a broken stream.
func readEvents(in *frames, a *answer, finished func()) error {
	for {
		f, err := in.next()
		switch {
		case err != nil && a.finish != "":
			return nil //nolint:nilerr // the answer is complete
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case f.exception != "" && a.finish != "":
			return nil
		case f.exception != "":
			return exception(f)
		}
		was := a.finish
		if err := a.event(f); err != nil {
			return err
		}
		if was == "" && a.finish != "" {
			finished()
		}
		if f.event == "metadata" && a.finish != "" {
			return nil
		}
	}
}

// exception classifies an error in the middle of a stream.
func exception(f frame) *llm.Error {
	o := wire.Object(f.payload)
	text := ""
	for _, key := range []string{"message", "Message", "originalMessage"} {
		if t := wire.Text(o[key]); t != "" && !strings.Contains(text, t) {
			text = strings.TrimPrefix(text+": "+t, ": ")
		}
	}
	if text == "" {
		text = f.exception
	}
	body, err := content.Marshal(map[string]string{"message": text, "type": f.exception})
	if err != nil {
		return wire.Broken("the endpoint broke off its answer", f.payload, err)
	}
	e := failure.Payload(body)
	e.Status = 0
	return e
}
