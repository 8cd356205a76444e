package terminal

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLine is how long a typed line may be. The kernel's line discipline drops
// what exceeds 4095 bytes.
const maxLine = 3800

// variableName is what bash accepts as the name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

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

// script is everything that is typed to run a command.
//
// The command is handed to eval as one quoted word: line editing, history,
// multi-line input and control characters play no part then, and a program that
// reads the terminal does not find the rest of the script there. A long command
// is first collected in a variable, line by line. lastCode is restored so that
// the command can ask for $?.
func script(m marks, nonce, command string, secrets map[string]string, lastCode int) string {
	lines := exports(secrets)
	program := `\builtin eval -- ` + quote(command)
	frame := m.frame(restoreCode(lastCode)+program, nonce)
	if len(frame) > maxLine {
		lines += assign("", "_parley", command)
		frame = m.frame(restoreCode(lastCode)+`\builtin eval -- "$_parley"`, nonce)
	}
	if lines != "" {
		lines = " PS1= PS2= PROMPT_COMMAND=; \\builtin set +o history +H\n" + lines
	}
	return lines + frame
}

// restoreCode sets $? for what follows without triggering an ERR trap.
func restoreCode(code int) string {
	if code <= 0 {
		return ""
	}
	return "(\\builtin exit " + strconv.Itoa(code) + ") || "
}
