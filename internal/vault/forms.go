package vault

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// minShifted is the length below which the determined characters of a value in
// the middle of base64 are too few to be told from chance.
const minShifted = 6

// forms returns the value and its encodings.
func forms(value string) []pattern {
	var out []pattern
	for i, v := range []string{value, strings.TrimRight(value, "\r\n")} {
		if i > 0 && v == value {
			break
		}
		for _, text := range texts(v) {
			out = append(out, pattern{text: text})
		}
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for lead := range 3 {
				out = appendBase64(out, enc, v, lead)
			}
		}
	}
	return out
}

// texts returns the forms that are found as they are.
func texts(v string) []string {
	quoted := jsonForms(v)
	out := append([]string{v}, quoted...)
	for _, q := range quoted { // JSON inside JSON
		out = append(out, jsonForms(q)...)
	}
	for _, u := range []string{url.QueryEscape(v), url.PathEscape(v), percent(v, ""), percent(v, "/")} {
		out = append(append(out, u, lowerHex(u)), jsonForms(u)...)
	}
	return out
}

// appendBase64 adds the characters that are the same whatever surrounds the
// value, when lead (0..2) bytes precede it in its group of three.
func appendBase64(out []pattern, enc *base64.Encoding, v string, lead int) []pattern {
	text := enc.EncodeToString([]byte("\x00\x00"[:lead] + v))
	p := pattern{}
	if lead > 0 {
		p.before = 1
		text = text[lead+1:]
	}
	if (lead+len(v))%3 != 0 {
		p.after = 1
		text = text[:len(text)-1]
	}
	if lead > 0 && len(text) < minShifted {
		return out
	}
	p.text = text
	return append(out, p)
}

// jsonForms returns the spellings of v inside a JSON string: with and without
// escaped HTML characters, ASCII only, and with "\/".
func jsonForms(v string) []string {
	html, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	bare := strings.TrimSuffix(plain.String(), "\n")
	bare = bare[1 : len(bare)-1]
	return []string{string(html[1 : len(html)-1]), bare, ascii(bare), strings.ReplaceAll(bare, "/", `\/`)}
}

// ascii writes characters outside ASCII as \uXXXX.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// percent escapes every byte but letters, digits, "-._~" and those of safe.
func percent(v, safe string) string {
	safe += "-._~"
	var b strings.Builder
	for i := range len(v) {
		c := v[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// lowerHex writes %XX as %xx.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}
