// Package textfile reads text files as text and stores an edited text the way the
// file was stored: encoding and line ends are kept. Binary files are refused. It
// does no I/O.
package textfile

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is how a file's text is stored.
type encoding int

const (
	utf8Plain encoding = iota
	utf8BOM
	utf16LE
	utf16BE
	latin1
)

var (
	bomUTF8    = []byte{0xef, 0xbb, 0xbf}
	bomUTF16LE = []byte{0xff, 0xfe}
	bomUTF16BE = []byte{0xfe, 0xff}
)

// File is a file's text with what is needed to store it the same way. The zero
// value is an empty UTF-8 file.
type File struct {
	Text     string // with "\n" as line end if crlf
	encoding encoding
	crlf     bool // every line ends with "\r\n"
}

// Decode reads a file. ok is false if it is binary.
func Decode(data []byte) (f File, ok bool) {
	text, enc, ok := decodeText(data)
	if !ok {
		return File{}, false
	}
	f = File{Text: text, encoding: enc}
	if n := strings.Count(text, "\r\n"); n > 0 && n == strings.Count(text, "\n") {
		f.crlf = true
		f.Text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return f, true
}

func decodeText(data []byte) (string, encoding, bool) {
	if rest, found := bytes.CutPrefix(data, bomUTF8); found {
		return string(rest), utf8BOM, utf8.Valid(rest) && !isBinary(rest)
	}
	if rest, found := bytes.CutPrefix(data, bomUTF16LE); found {
		text, ok := decodeUTF16(rest, binary.LittleEndian)
		return text, utf16LE, ok
	}
	if rest, found := bytes.CutPrefix(data, bomUTF16BE); found {
		text, ok := decodeUTF16(rest, binary.BigEndian)
		return text, utf16BE, ok
	}
	if isBinary(data) {
		return "", 0, false
	}
	if utf8.Valid(data) {
		return string(data), utf8Plain, true
	}
	runes := make([]rune, len(data))
	for i, c := range data {
		runes[i] = rune(c)
	}
	return string(runes), latin1, true
}

// isBinary tells by NUL bytes and by the share of control characters.
func isBinary(data []byte) bool {
	controls := 0
	for _, c := range data {
		switch {
		case c == 0:
			return true
		case c < 0x20 && (c < '\t' || c > '\r') && c != 0x1b, c == 0x7f:
			controls++
		}
	}
	return controls*20 > len(data)
}

// byteOrder is one of encoding/binary's.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// decodeUTF16 refuses what would not come out the same again.
func decodeUTF16(data []byte, order byteOrder) (string, bool) {
	if len(data)%2 != 0 {
		return "", false
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	text := string(utf16.Decode(units))
	return text, bytes.Equal(encodeUTF16(nil, text, order), data) && !strings.ContainsRune(text, 0)
}

// Encode stores text as the file was stored. ok is false if its encoding (Latin-1)
// has no code for a character.
func (f File) Encode(text string) (data []byte, ok bool) {
	if f.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	switch f.encoding {
	case utf8BOM:
		return append(bytes.Clone(bomUTF8), text...), true
	case utf16LE:
		return encodeUTF16(bomUTF16LE, text, binary.LittleEndian), true
	case utf16BE:
		return encodeUTF16(bomUTF16BE, text, binary.BigEndian), true
	case latin1:
		return encodeLatin1(text)
	}
	return []byte(text), true
}

func encodeUTF16(bom []byte, text string, order byteOrder) []byte {
	data := bytes.Clone(bom)
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return data
}

func encodeLatin1(text string) ([]byte, bool) {
	data := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, false
		}
		data = append(data, byte(r))
	}
	return data, true
}

// Adapt gives a model's text the line ends of the file's text.
func (f File) Adapt(text string) string {
	if f.crlf {
		return strings.ReplaceAll(text, "\r\n", "\n")
	}
	return text
}
