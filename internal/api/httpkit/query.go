package httpkit

import (
	"net/url"
	"strings"
)

// parseQuery reads a query as the servers do that this one's clients know: what
// is no escape stands for itself ("100%", "a;b"). The standard library drops such
// parameters, and a filter that is dropped shows what it should hide.
func parseQuery(raw string) url.Values {
	out := url.Values{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = unescape(name)
		out[name] = append(out[name], unescape(value))
	}
	return out
}

// unescape decodes "+" and "%XX", and leaves everything else alone.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			out = append(out, ' ')
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			out = append(out, fromHex(s[i+1])<<4|fromHex(s[i+2]))
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	return string(out)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func fromHex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
