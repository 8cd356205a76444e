package fileeditor

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

// document is a file's text with what is needed to store it the same way.
type document struct {
	text     string // with "\n" as line end if crlf
	encoding encoding
	crlf     bool // every line ends with "\r\n"
}

// decode reads a file. ok is false if it is binary.
func decode(data []byte) (d document, ok bool) {
	text, enc, ok := decodeText(data)
	if !ok {
		return document{}, false
	}
	d = document{text: text, encoding: enc}
	if n := strings.Count(text, "\r\n"); n > 0 && n == strings.Count(text, "\n") {
		d.crlf = true
		d.text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return d, true
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

// encode stores text as the document was stored. ok is false if its encoding has
// no code for a character.
func (d document) encode(text string) (data []byte, ok bool) {
	if d.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	switch d.encoding {
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

// adapt gives a model's text the line ends of the document's text.
func (d document) adapt(text string) string {
	if d.crlf {
		return strings.ReplaceAll(text, "\r\n", "\n")
	}
	return text
}

// splitLines returns the lines without their ends, and whether the last one has
// an end. An empty text has no lines.
func splitLines(text string) (lines []string, ended bool) {
	if text == "" {
		return nil, true
	}
	body, ended := strings.CutSuffix(text, "\n")
	return strings.Split(body, "\n"), ended
}

// lineAt returns the number of the line that holds the byte at offset.
func lineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }
