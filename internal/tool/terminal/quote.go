package terminal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

// maxLine is how long a typed line may be. The kernel's line discipline drops
// what exceeds 4095 bytes.
const maxLine = 3800

// variableName is what bash accepts as the name of a variable.
var variableName = lazyre.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// quoteRune appends r as it is written inside $'...'. Control characters are
// escaped, because typed raw they would be keys.
func quoteRune(b *strings.Builder, r rune) {
	switch {
	case r == '\\' || r == '\'':
		b.WriteByte('\\')
		b.WriteRune(r)
	case r < 0x20 || r == 0x7f || r == '!':
		fmt.Fprintf(b, `\%03o`, r)
	default:
		b.WriteRune(r)
	}
}

// quote returns s as one word of bash, on one line.
func quote(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range s {
		quoteRune(&b, r)
	}
	b.WriteByte('\'')
	return b.String()
}

// assign returns lines that set a shell variable, each short enough to type.
func assign(keyword, name, value string) string {
	const most = maxLine - 300
	var lines, word strings.Builder
	operator := "="
	flush := func() {
		lines.WriteString(" " + keyword + name + operator + "$'" + word.String() + "'\n")
		operator = "+="
		word.Reset()
	}
	for _, r := range value {
		quoteRune(&word, r)
		if word.Len() > most {
			flush()
		}
	}
	if word.Len() > 0 || operator == "=" {
		flush()
	}
	return lines.String()
}

// exports returns the lines that export secrets, in the order of their names.
// Names and values that bash cannot hold are left out.
func exports(secrets map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if variableName.MatchString(name) && !hasNUL(secrets[name]) {
			b.WriteString(assign("export ", name, secrets[name]))
		}
	}
	return b.String()
}

// unixLines returns a command whose lines all end with CR LF without the CRs, which
// bash takes for a part of the last word. Where only some do, they are meant.
func unixLines(command string) string {
	pairs := strings.Count(command, "\r\n")
	if !strings.Contains(command, "\r") || pairs != strings.Count(command, "\n") {
		return command
	}
	return strings.TrimSuffix(strings.ReplaceAll(command, "\r\n", "\n"), "\r")
}

// script is everything that is typed to run a command. again says that it was typed
// before and may have been lost: it does nothing then if the command has begun.
//
// The command is handed to eval as one quoted word: line editing, history,
// multi-line input and control characters play no part then, and a program that
// reads the terminal does not find the rest of the script there. A long command
// is first collected in a variable, line by line. lastCode is restored so that
// the command can ask for $?.
func script(m marks, nonce, command string, secrets map[string]string, lastCode int, again bool) string {
	lines := exports(secrets)
	frame := m.frame(restoreCode(lastCode, `\builtin eval -- `+quote(command)), nonce)
	if len(frame) > maxLine {
		lines += assign("", "_parley", command)
		frame = m.frame(restoreCode(lastCode, `\builtin eval -- "$_parley"`), nonce)
	}
	if lines != "" {
		lines = quiet(m) + "\\builtin set +o history +H\n" + lines
	}
	if again {
		frame = m.once(frame, nonce)
	}
	return lines + frame
}

// quiet is shell text that ends prompts. The secret in it is for whoever reads its
// echo: see session.take.
func quiet(m marks) string {
	return ` { \builtin : ` + m.secret + `; ` + quietPrompt + `} >/dev/null 2>&1; `
}

// makeSure is typed before a command when the terminal's state is in doubt: it
// drops a half typed line, and sets the modes. On a terminal in raw mode, where the
// key that drops the line is a character like others, the first line is a comment.
// noflsh, because an interrupt key would else discard an end marker that was
// printed but not read yet.
func makeSure(m marks) string {
	return "#\x15\n" + quiet(m) + "\\command stty sane -echo noflsh 2>/dev/null\n"
}

// restoreCode is shell text that sets $? for program and runs it, without
// triggering an ERR trap. A function returns the code, because a subshell would
// cost a fork; it is gone before program runs.
func restoreCode(code int, program string) string {
	switch {
	case code <= 0:
		return program
	case code == 1:
		return "{ [[ '' ]] || " + program + "; }"
	}
	return "{ _parley() { \\builtin unset -f _parley; \\builtin return " + strconv.Itoa(code) + "; }; _parley || " + program + "; }"
}
