package cli

import (
	"bufio"
	"io"
	"strings"
	"time"
)

// pasteGap is how long after a line further lines count as pasted with it.
const pasteGap = 20 * time.Millisecond

// maxLineBytes bounds one typed line.
const maxLineBytes = 1 << 20

// lineReader reads lines from a terminal in the background, one ahead. A read
// from a terminal cannot be called off: after close, the goroutine ends with the
// next line, the end of the input, or the process.
type lineReader struct {
	lines chan string // closed at the end of the input
	done  chan struct{}
}

func newLineReader(in io.Reader) *lineReader {
	r := &lineReader{lines: make(chan string), done: make(chan struct{})}
	go r.read(in)
	return r
}

func (r *lineReader) read(in io.Reader) {
	defer close(r.lines)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLineBytes)
	for scanner.Scan() {
		select {
		case r.lines <- scanner.Text():
		case <-r.done:
			return
		}
	}
}

// rest returns first and the lines that follow it at once: a pasted text is one
// message.
func (r *lineReader) rest(first string) string {
	lines := []string{first}
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				return strings.Join(lines, "\n")
			}
			lines = append(lines, line)
		case <-time.After(pasteGap):
			return strings.Join(lines, "\n")
		}
	}
}

func (r *lineReader) close() { close(r.done) }
