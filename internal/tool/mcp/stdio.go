package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/lazyre"
	"parley/internal/tool"
)

// Bounds of what a program may write to its standard output.
const (
	maxLine     = 4 << 20  // bytes of a message
	maxGarbage  = 16 << 20 // bytes that are no message, between two that are
	maxIncoming = 64       // requests of the server that are not answered yet
	messageRate = 200      // notifications and requests a second,
	messageMost = 1000     // and at once
	noteBytes   = 200      // of the first line that was no message
)

// idlePause follows every line that was not passed on.
const idlePause = 50 * time.Microsecond

// stdinGrace is how long a program may take to end by itself after its input ended.
const stdinGrace = 500 * time.Millisecond

// stdio is the SDK's transport over a program: one JSON-RPC message a line.
type stdio struct {
	program tool.Program
	// changed hears of a change that was dropped with a flood of messages.
	changed func()

	in    *bufio.Reader
	queue chan []byte   // what is to be written
	quit  chan struct{} // closed by Close
	ended chan struct{} // the program is closed
	once  sync.Once

	mu       sync.Mutex
	rate     bucket
	incoming int    // requests of the server
	garbage  int    // bytes since the last message
	skipped  int    // lines that were no messages
	dropped  int    // messages
	note     string // the first skipped line
	broken   error  // why the connection was given up here
	eof      bool   // the program ended its output
	alone    bool   // and itself, before it was stopped
}

var (
	_ sdk.Transport  = (*stdio)(nil)
	_ sdk.Connection = (*stdio)(nil)
)

func newStdio(program tool.Program, changed func()) *stdio {
	s := &stdio{program: program, changed: changed, in: bufio.NewReaderSize(program, 64<<10),
		queue: make(chan []byte, 16), quit: make(chan struct{}), ended: make(chan struct{}),
		rate: bucket{rate: messageRate, most: messageMost}}
	go s.write()
	go s.end()
	return s
}

// Connect implements the SDK's transport: the program runs already.
func (s *stdio) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID is none: a program has one session.
func (s *stdio) SessionID() string { return "" }

// Close makes the program end, in the background: the SDK holds a lock here.
func (s *stdio) Close() error {
	s.once.Do(func() { close(s.quit) })
	return nil
}

// end ends the program: its input ends, then it is stopped.
func (s *stdio) end() {
	defer close(s.ended)
	<-s.quit
	_ = s.program.CloseWrite()
	timer := time.NewTimer(stdinGrace)
	defer timer.Stop()
	select {
	case <-s.program.Done():
		s.mu.Lock()
		s.alone = true
		s.mu.Unlock()
	case <-timer.C:
	}
	_ = s.program.Close()
}

// write is the only one that writes to the program, so that one that does not read
// makes nobody wait longer than his context.
func (s *stdio) write() {
	for {
		select {
		case data := <-s.queue:
			if _, err := s.program.Write(data); err != nil {
				s.giveUp(fmt.Errorf("it does not take its input any more: %w", err))
				return
			}
		case <-s.quit:
			return
		}
	}
}

func (s *stdio) giveUp(err error) {
	s.mu.Lock()
	if s.broken == nil {
		s.broken = err
	}
	s.mu.Unlock()
	_ = s.Close()
}

// Write queues a message.
func (s *stdio) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if _, answer := msg.(*jsonrpc.Response); answer {
		s.mu.Lock()
		s.incoming--
		s.mu.Unlock()
	}
	select {
	case s.queue <- append(data, '\n'):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return io.ErrClosedPipe
	}
}

// Read returns the next message, without what is none and what is too much.
func (s *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line, tooLong, err := readLine(s.in, maxLine)
		if msg := s.message(line, tooLong); msg != nil {
			return msg, nil
		}
		time.Sleep(idlePause) // who sends what nobody reads does not keep a processor busy
		if err == nil {
			err = s.trouble()
		}
		if err != nil {
			return nil, s.readError(err)
		}
	}
}

func (s *stdio) readError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.quit: // it was ended here
		return err
	default:
	}
	if errors.Is(err, io.EOF) {
		s.eof = true
	} else if s.broken == nil {
		s.broken = err
	}
	return err
}

// trouble is why nothing more is read.
func (s *stdio) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.garbage > maxGarbage {
		return fmt.Errorf("it printed more than %d MiB to its standard output that are no MCP messages", maxGarbage>>20)
	}
	return nil
}

// message reads a line. nil = there is nothing to pass on.
func (s *stdio) message(line []byte, tooLong bool) jsonrpc.Message {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if tooLong {
		if id, ok := answered(line); ok { // head and tail of it
			return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
				Message: fmt.Sprintf("the answer has more than %d MiB and was not read", maxLine>>20)}}
		}
		s.skip(line, maxLine)
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		s.skip(line, len(line))
		return nil
	}
	s.garbage = 0
	req, isRequest := msg.(*jsonrpc.Request)
	if !isRequest {
		return msg
	}
	if !s.rate.take(time.Now()) || req.IsCall() && s.incoming >= maxIncoming {
		s.dropped++
		if req.Method == "notifications/tools/list_changed" {
			s.changed()
		}
		return nil
	}
	if req.IsCall() {
		s.incoming++
	}
	return msg
}

func (s *stdio) skip(line []byte, size int) {
	s.garbage += size
	if s.skipped++; s.note == "" {
		s.note = oneLine(string(line[:min(len(line), 4*noteBytes)]), noteBytes)
	}
}

// trace says what the program printed beside its messages, "" for nothing.
func (s *stdio) trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dropped > 0:
		return fmt.Sprintf("It floods: %d of its messages were dropped.", s.dropped)
	case s.skipped > 0:
		return fmt.Sprintf("It printed %s to its standard output that are no MCP messages, the first: %s", count(s.skipped, "line"), s.note)
	}
	return ""
}

// programEnd is how the program of a server ended, or failed to be one.
type programEnd struct{ text string }

func (e *programEnd) Error() string { return e.text }

// explain says what is wrong with a program whose connection failed with err. It is
// called when that is closed.
func (s *stdio) explain(err error) error {
	s.mu.Lock()
	broken, eof, alone := s.broken, s.eof, s.alone
	s.mu.Unlock()
	text := "It does not speak MCP: " + oneLine(err.Error(), 200) + "."
	switch {
	case broken != nil:
		text = sentence(broken.Error())
	case eof && alone && s.program.ExitCode() >= 0:
		text = "The program ended with exit code " + strconv.Itoa(s.program.ExitCode()) + "."
	case eof:
		text = "The program ended its output."
	}
	for _, more := range []string{s.trace(), s.said()} {
		if more != "" {
			text += " " + more
		}
	}
	return &programEnd{text}
}

// said is the end of what the program wrote to its standard error.
func (s *stdio) said() string {
	tail := lastLines(s.program.Stderr(), 600)
	if tail == "" {
		return ""
	}
	return "It wrote: " + tail
}

// readLine reads a line without its end. Of one that is longer than most it returns the
// beginning and the end.
func readLine(in *bufio.Reader, most int) (line []byte, tooLong bool, err error) {
	const edge = 512
	var tail []byte
	for {
		piece, err := in.ReadSlice('\n')
		switch {
		case tooLong:
			tail = append(tail, piece...)
			tail = tail[max(0, len(tail)-edge):]
		case len(line)+len(piece) > most:
			tooLong = true
			tail = append(bytes.Clone(line[max(0, len(line)-edge):]), piece...)
			tail = tail[max(0, len(tail)-edge):]
			line = append(line, piece...)
			line = line[:min(edge, len(line)):min(edge, len(line))]
		default:
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return append(line, tail...), tooLong, err
		}
	}
}

// Where the id of an answer stands: at the beginning or at the end.
var (
	idFirst = lazyre.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"`)
	idLast  = lazyre.MustCompile(`,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// answered guesses which request a message answers that was too long to be read.
func answered(edges []byte) (jsonrpc.ID, bool) {
	for _, form := range []*lazyre.Regexp{idFirst, idLast} {
		if m := form.FindSubmatch(edges); m != nil {
			n, err := strconv.ParseInt(string(m[1]), 10, 64)
			if err != nil {
				continue
			}
			id, err := jsonrpc.MakeID(float64(n))
			return id, err == nil
		}
	}
	return jsonrpc.ID{}, false
}

// bucket bounds how often something happens.
type bucket struct {
	rate, most float64 // a second, and at once
	level      float64 // used
	last       time.Time
}

// take reports whether it may happen once more now.
func (b *bucket) take(now time.Time) bool { return b.takeN(1, now) }

func (b *bucket) takeN(n float64, now time.Time) bool {
	if !b.last.IsZero() {
		b.level = max(0, b.level-b.rate*now.Sub(b.last).Seconds())
	}
	b.last = now
	if b.level+n > b.most {
		return false
	}
	b.level += n
	return true
}
