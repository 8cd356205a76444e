package terminal

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"unicode/utf8"

	"parley/internal/tool"
)

// Bounds of saved outputs. Together they bound the disk that a conversation's
// outputs take to maxSavedBytes plus one of maxSpool and a tail: below 260 MiB.
const (
	spoolChunk    = 1 << 20   // raw bytes after which an output is written, piece by piece
	maxSpool      = 64 << 20  // raw bytes of an output that are saved from its beginning
	maxSaved      = 20        // files kept per conversation
	maxSavedBytes = 192 << 20 // bytes of all of them but the one in the making
)

// spool saves an output that is too long for memory in a file in the sandbox, as
// text, while it comes: the first maxSpool bytes, and the tail that the call keeps.
type spool struct {
	hands tool.Hands
	dir   string
	file  string // "" until something was written
	held  []byte // raw, to be written
	taken int64  // raw bytes, those held included
	err   error  // why no more is written
}

// take accepts output as long as there is room.
func (s *spool) take(data []byte) {
	data = data[:min(int64(len(data)), maxSpool-s.taken)]
	s.taken += int64(len(data))
	if s.err == nil {
		s.held = append(s.held, data...)
	}
}

// full tells that nothing more is taken.
func (s *spool) full() bool { return s.taken >= maxSpool }

// flush writes what is held if that is worth it.
func (s *spool) flush(ctx context.Context) {
	if len(s.held) < spoolChunk {
		return
	}
	cut := cutAt(s.held)
	s.write(ctx, cleanText(s.held[:cut]))
	s.held = append(s.held[:0], s.held[cut:]...)
}

// cutAt returns where to cut raw output in two so that both halves can be cleaned
// apart: after a line, else between characters and before a sequence.
func cutAt(raw []byte) int {
	if line := bytes.LastIndexByte(raw, '\n'); line >= 0 {
		return line + 1
	}
	const longest = 64 // of the sequences that matter
	cut := len(raw)
	if esc := bytes.LastIndexByte(raw[max(0, cut-longest):], 0x1b); esc >= 0 {
		cut = max(0, cut-longest) + esc
	}
	cut -= unfinished(raw[:cut])
	if cut > 1 && raw[cut-1] == '\r' {
		cut--
	}
	return max(cut, 1)
}

// unfinished returns how many bytes at the end of raw are the beginning of a
// character.
func unfinished(raw []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(raw); n++ {
		end := raw[len(raw)-n:]
		if utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			return n
		}
	}
	return 0
}

// finish writes the rest of an output that has begun to be written: what is held,
// and the end of what did not fit. It returns where the output is, for a model.
func (s *spool) finish(ctx context.Context, out *capture) (notice string) {
	s.write(ctx, cleanText(s.held))
	s.held = nil
	if rest := out.total - s.taken; rest > 0 {
		tail := out.tail[max(0, int64(len(out.tail))-rest):]
		left := rest - int64(len(tail))
		s.write(ctx, fmt.Sprintf("\n[... %d bytes of output were not kept ...]\n", left)+cleanText(tail))
		return s.where(fmt.Sprintf("Of %d bytes the first %d MiB and the last ones are in ", out.total, maxSpool>>20))
	}
	return s.where(fullIn)
}

const fullIn = "The full output is in "

func (s *spool) where(lead string) string {
	if s.err != nil {
		return "The full output could not be saved."
	}
	return lead + s.file + "."
}

// save writes a text that was not too long for memory.
func (s *spool) save(ctx context.Context, text string) (notice string) {
	s.write(ctx, text)
	return s.where(fullIn)
}

// write appends text to the file and makes it first if need be.
func (s *spool) write(ctx context.Context, text string) {
	if s.err != nil || text == "" {
		return
	}
	if s.file != "" {
		s.err = s.hands.WriteFile(ctx, s.file, []byte(text), tool.WriteOptions{Append: true})
		return
	}
	s.file = path.Join(s.dir, "output-"+newNonce()+".txt")
	s.err = s.hands.WriteFile(ctx, s.file, []byte(text), tool.WriteOptions{Parents: true, Mode: 0o600})
	if s.err == nil {
		sweep(ctx, s.hands, s.dir)
	}
}

// sweep removes the oldest saved outputs. What it cannot remove stays.
func sweep(ctx context.Context, hands tool.Hands, dir string) {
	files, err := hands.ListDir(ctx, dir, 1, 0)
	if err != nil {
		return
	}
	slices.SortFunc(files, func(a, b tool.FileInfo) int { return b.ModTime.Compare(a.ModTime) })
	size := int64(0)
	for i, f := range files {
		size += f.Size
		if i > 0 && (i >= maxSaved || size > maxSavedBytes) {
			_ = hands.Remove(ctx, path.Join(dir, f.Path))
		}
	}
}
