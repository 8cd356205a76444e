package terminal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// The shell prints a begin marker before each command and an end marker after it
// (or, if the command was aborted, as its prompt). A marker is an OSC sequence, so
// that terminals which show the raw output ignore it:
//
//	ESC ] 6973 ; SECRET ; b ; NONCE BEL
//	ESC ] 6973 ; SECRET ; e ; NONCE US code US job US user US host US python US cwd US SECRET BEL
//
// The secret is derived from the server's and the conversation's id: programs in
// the sandbox cannot guess it, and a restarted server derives it again. The nonce
// ties the two to one command, because a prompt may be printed again later. Shell
// variables that hold the text of a marker spell its control characters as
// escapes, so that printing a variable prints no marker.
const (
	oscStart = "\x1b]6973;"
	unit     = "\x1f"
	bell     = "\a"
	// maxMarker bounds a marker: paths have at most 4096 bytes, and there are two.
	maxMarker = 12 << 10
)

// marks makes and finds the markers of one conversation.
type marks struct {
	secret string
	begin  string // prefix of begin markers
	end    string // prefix of end markers
	until  string // what only the end of an end marker contains
}

func newMarks(secret []byte, conversationID string) marks {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("terminal marker\x00" + conversationID))
	s := hex.EncodeToString(mac.Sum(nil))[:32]
	head := oscStart + s + ";"
	return marks{secret: s, begin: head + "b;", end: head + "e;", until: unit + s + bell}
}

// prompt is shell text for one word that prints an end marker once it is expanded
// as a prompt; code is shell text that gives the exit code.
func (m marks) prompt(nonce, code string) string {
	return `'\e]6973;` + m.secret + `;e;` + nonce + `\037'` + code +
		`'\037${!-}\037\u\037\h\037${BASH_CMDS[python3]-}\037$PWD\037` + m.secret + `\a'`
}

// begun is the shell variable that holds the nonce of the last command that began.
const begun = "_parley_begun"

// frame is the line that runs program, a piece of shell text, between the
// markers of nonce.
//
// Before it, PS1 is set to print an end marker in case the command is aborted
// (Ctrl-C, unbound variable). After it, the same text is printed without a
// prompt, and PS1 is emptied: nothing stale is left to read. The markers go to
// /dev/tty because the command may have redirected the shell's own output. What
// traps print meanwhile, and the shell's tracing, goes to /dev/null.
//
// The shell's state is the model's to spoil. Variables are set with printf, which
// goes on where one is readonly: an assignment would drop the rest of the line. A
// program whose begin marker could not be printed is not run.
func (m marks) frame(program, nonce string) string {
	return ` { \builtin enable printf eval set unset hash; ` + quietPrompt +
		`\builtin printf -v PS1 %s ` + m.prompt(nonce, `'$?'`) + `; ` +
		`\builtin printf -v ` + begun + ` ` + nonce + `; \builtin set +o history +H; ` +
		`\builtin printf '\033]6973;` + m.secret + `;b;` + nonce + `\007' >/dev/tty; } >/dev/null 2>&1 && ` +
		program +
		`; { \builtin printf -v _parley %s ` + m.prompt(nonce, `$?`) + `; \builtin printf -v PS1 %s "$_parley"; ` +
		`\builtin unset PROMPT_COMMAND PS0; \builtin set +e; \builtin shopt -s promptvars; \builtin hash python3; ` +
		`\builtin printf %s "${_parley@P}" >/dev/tty && \builtin printf -v PS1 ''; \builtin unset _parley; } >/dev/null 2>&1` + "\n"
}

// quietPrompt is shell text that keeps the shell from printing prompts.
const quietPrompt = `\builtin unset PROMPT_COMMAND PS0; \builtin printf -v PS1 ''; \builtin printf -v PS2 ''; `

// once is shell text that runs frame unless the command of nonce has begun.
func (m marks) once(frame, nonce string) string {
	return ` if [[ ${` + begun + `-} != ` + nonce + ` ]]; then` + strings.TrimSuffix(frame, "\n") + "; fi\n"
}

// status is what an end marker says.
type status struct {
	code   int
	job    int // process id of the last background job; -1 if there is none
	user   string
	host   string
	python string
	cwd    string
}

// piece is a part of the terminal's output: text, or a marker.
type piece struct {
	text  []byte
	nonce string  // of a marker
	end   *status // of an end marker; nil for a begin marker
	size  int     // bytes of output
}

// next cuts the first piece off data. ok is false when data is empty or may be
// the beginning of a marker of which the rest is still to come.
func (m marks) next(data []byte) (p piece, ok bool) {
	if len(data) == 0 {
		return piece{}, false
	}
	at := bytes.IndexByte(data, 0x1b)
	for at >= 0 {
		switch m.at(data[at:]) {
		case isMarker:
			if at > 0 {
				return piece{text: data[:at], size: at}, true
			}
			return m.decode(data)
		case isPartial:
			return piece{text: data[:at], size: at}, at > 0
		}
		next := bytes.IndexByte(data[at+1:], 0x1b)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return piece{text: data, size: len(data)}, true
}

type match int

const (
	isText match = iota
	isPartial
	isMarker
)

// at tells whether data, which begins with ESC, begins with a marker.
func (m marks) at(data []byte) match {
	for _, prefix := range []string{m.begin, m.end} {
		n := min(len(data), len(prefix))
		if string(data[:n]) != prefix[:n] {
			continue
		}
		if n < len(prefix) {
			return isPartial
		}
		switch {
		case bytes.IndexByte(data[:min(len(data), maxMarker)], bell[0]) >= 0:
			return isMarker
		case len(data) < maxMarker:
			return isPartial
		}
	}
	return isText
}

// decode reads the marker at the beginning of data.
func (m marks) decode(data []byte) (piece, bool) {
	if rest, ok := bytes.CutPrefix(data, []byte(m.begin)); ok {
		nonce, _, _ := bytes.Cut(rest, []byte(bell))
		return piece{nonce: string(nonce), size: len(m.begin) + len(nonce) + 1}, true
	}
	size := bytes.Index(data, []byte(m.until))
	if size < 0 { // a working directory with BEL in its name
		if len(data) < maxMarker {
			return piece{}, false
		}
		return piece{text: data[:1], size: 1}, true
	}
	nonce, fields, _ := strings.Cut(string(data[len(m.end):size]), unit)
	st := parseStatus(fields)
	return piece{nonce: nonce, end: &st, size: size + len(m.until)}, true
}

func parseStatus(text string) status {
	st := status{code: -1, job: -1}
	fields := strings.SplitN(text, unit, 6)
	if len(fields) < 6 {
		return st
	}
	if code, err := strconv.Atoi(fields[0]); err == nil {
		st.code = code
	}
	if job, err := strconv.Atoi(fields[1]); err == nil {
		st.job = job
	}
	st.user, st.host, st.python, st.cwd = fields[2], fields[3], fields[4], fields[5]
	return st
}
