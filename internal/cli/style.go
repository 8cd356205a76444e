package cli

import "strings"

// style is a terminal attribute as an SGR parameter.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint wraps every line of text, which must be clean, in the style.
func paint(color bool, s style, text string) string {
	if !color || s == plain || text == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "\x1b[" + string(s) + "m" + line + "\x1b[0m"
		}
	}
	return strings.Join(lines, "\n")
}
