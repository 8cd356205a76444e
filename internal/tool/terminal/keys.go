package terminal

import "strings"

// keyBytes are what terminals send for named keys.
var keyBytes = map[string]string{
	"ENTER": "\r", "RETURN": "\r", "TAB": "\t", "ESC": "\x1b", "ESCAPE": "\x1b", "SPACE": " ",
	"BS": "\x7f", "BACKSPACE": "\x7f", "DEL": "\x1b[3~", "DELETE": "\x1b[3~", "INS": "\x1b[2~",
	"UP": "\x1b[A", "DOWN": "\x1b[B", "RIGHT": "\x1b[C", "LEFT": "\x1b[D",
	"HOME": "\x1b[H", "END": "\x1b[F", "PGUP": "\x1b[5~", "PGDN": "\x1b[6~",
	"F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS", "F5": "\x1b[15~", "F6": "\x1b[17~",
	"F7": "\x1b[18~", "F8": "\x1b[19~", "F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}

// interruptKey is what Ctrl-C sends.
const interruptKey = "\x03"

// typed returns the bytes for an input: keys if it consists of names of keys
// only, else the text with Enter after it.
func typed(input string) []byte {
	var keys strings.Builder
	words := strings.Fields(input)
	for _, word := range words {
		bytes, ok := key(word)
		if !ok {
			text := strings.TrimSuffix(strings.ReplaceAll(input, "\r\n", "\n"), "\n")
			return []byte(strings.ReplaceAll(text, "\n", "\r") + "\r")
		}
		keys.WriteString(bytes)
	}
	if len(words) == 0 {
		return []byte("\r")
	}
	return []byte(keys.String())
}

// key returns the bytes of a named key, or of a control key: C-c, C-[.
func key(name string) (string, bool) {
	if bytes, ok := keyBytes[name]; ok {
		return bytes, true
	}
	for _, prefix := range []string{"C-", "Ctrl-", "CTRL-", "ctrl-", "Ctrl+", "CTRL+", "ctrl+", "^"} {
		if char, ok := strings.CutPrefix(name, prefix); ok && len(char) == 1 {
			return control(char[0])
		}
	}
	return "", false
}

// control returns the control character of a letter or of one of @[\]^_?.
func control(char byte) (string, bool) {
	switch upper := strings.ToUpper(string(rune(char)))[0]; {
	case upper >= '@' && upper <= '_':
		return string(rune(upper & 0x1f)), true
	case upper == '?':
		return "\x7f", true
	}
	return "", false
}
