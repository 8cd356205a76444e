package skill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
)

// Bounds of the commands in a skill (agent protocol 4.10) and of the list of its
// files.
const (
	maxCommands  = 20
	maxCommand   = 4 << 10   // bytes
	maxOutput    = 50 << 10  // bytes
	maxOpened    = 256 << 10 // bytes of a text with its outputs
	commandTime  = 10 * time.Second
	maxResources = 200
)

// Open returns a skill's text for invoke_skill: its content, its directory and the
// files in it. A command between backticks right after an exclamation mark, as in
// !`git status`, is replaced by what run returns of it, unless it is in a block or
// span of code or behind a backslash. At most 20 commands of one skill run, each
// for 10 s, and at most 50 KiB of an output is shown. What run adds is not looked
// at for commands. If run is nil none runs, and a note stands in the place of each.
func Open(ctx context.Context, s Skill, run func(ctx context.Context, command string) (output string, err error)) string {
	x := &expander{run: run}
	x.text(ctx, clip(s.Content, maxContent, s.location()))
	head := fmt.Sprintf("The following is the skill \"%s\" from %s. %s", attribute(s.Name), attribute(where(s.location())), untrusted)
	return section(tagOpened, head+"\n\n"+contain(clip(x.out.String(), maxOpened, s.location()))+"\n"+files(&s))
}

// files says where a skill's directory is and what is in it.
func files(s *Skill) string {
	if s.Root == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n[The skill's directory is %s; paths in its text are relative to that. ", attribute(s.Root))
	switch n := len(s.Resources); {
	case n == 0:
		b.WriteString("No other files of it are known.]")
	case n > maxResources:
		fmt.Fprintf(&b, "%d of its %d files:]", maxResources, n)
	default:
		b.WriteString("Its files:]")
	}
	for _, file := range s.Resources[:min(len(s.Resources), maxResources)] {
		b.WriteString("\n- " + attribute(file))
	}
	return b.String()
}

// expander replaces the commands of one text.
type expander struct {
	run   func(context.Context, string) (string, error)
	count int
	out   strings.Builder
}

// text reads a whole text; blocks of code stay as they are.
func (x *expander) text(ctx context.Context, text string) {
	fence := ""
	for line := range strings.Lines(text) {
		mark := fenceMark(line)
		switch {
		case fence == "" && mark == "":
			x.line(ctx, line)
			continue
		case fence == "":
			fence = mark
		case strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark:
			fence = ""
		}
		x.out.WriteString(line)
	}
}

// fenceMark returns the backticks or tildes of a line that begins or ends a block of
// code.
func fenceMark(line string) string {
	line = strings.TrimLeft(line, " \t>")
	for _, c := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, c))
		if n >= 3 && !(c == "`" && strings.Contains(line[n:], "`")) {
			return line[:n]
		}
	}
	return ""
}

// line replaces the commands of one line. Runs of backticks open and close spans of
// code, and a command is a span that an exclamation mark stands before.
func (x *expander) line(ctx context.Context, line string) {
	last := lastRuns(line)
	begin := 0 // what is before it is written
	for at := 0; at < len(line); {
		if line[at] != '`' {
			at++
			continue
		}
		n := runOf(line[at:])
		if last[n] <= at {
			at += n // nothing closes it
			continue
		}
		end := closing(line, at+n, n)
		mark, escaped := markBefore(line, begin, at)
		switch span := line[at+n : end-n]; {
		case n > 1 || !mark || strings.Contains(span, "`"):
			at = end
			continue
		case escaped: // without its backslash it is shown as it is
			x.out.WriteString(line[begin:at-2] + line[at-1:end])
		default:
			x.out.WriteString(line[begin:at-1] + x.result(ctx, span))
		}
		begin = end
		at = end
	}
	x.out.WriteString(line[begin:])
}

func runOf(text string) int { return len(text) - len(strings.TrimLeft(text, "`")) }

// lastRuns returns where the last run of backticks of each length begins.
func lastRuns(line string) map[int]int {
	last := map[int]int{}
	for at := strings.IndexByte(line, '`'); at >= 0 && at < len(line); {
		n := runOf(line[at:])
		last[n] = at
		next := strings.IndexByte(line[at+n:], '`')
		if next < 0 {
			break
		}
		at += n + next
	}
	return last
}

// closing returns where the span that begins at from ends, behind its n backticks;
// there are such.
func closing(line string, from, n int) int {
	for at := from; ; {
		at += strings.IndexByte(line[at:], '`')
		m := runOf(line[at:])
		at += m
		if m == n {
			return at
		}
	}
}

// markBefore tells whether an exclamation mark that makes a command stands before
// at, and whether a backslash takes its meaning. One that ends a word is a sentence's.
func markBefore(line string, begin, at int) (mark, escaped bool) {
	if at-1 < begin || line[at-1] != '!' {
		return false, false
	}
	if at-2 >= begin && line[at-2] == '\\' {
		return true, true
	}
	r, _ := utf8.DecodeLastRuneInString(line[begin : at-1])
	return !unicode.IsLetter(r) && !unicode.IsDigit(r), false
}

// result returns what stands in the place of a command.
func (x *expander) result(ctx context.Context, command string) string {
	shown := "`" + short(command) + "`"
	x.count++
	switch {
	case strings.TrimSpace(command) == "":
		return "[there is no command here]"
	case x.run == nil:
		return "[the command " + shown + " was not run: commands of skills do not run here]"
	case len(command) > maxCommand:
		return fmt.Sprintf("[the command %s was not run: it has more than %d bytes]", shown, maxCommand)
	case x.count > maxCommands:
		return fmt.Sprintf("[the command %s was not run: at most %d of a skill are]", shown, maxCommands)
	case ctx.Err() != nil:
		return "[the command " + shown + " was not run: the call was stopped]"
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	output, err := x.run(ctx, command)
	output = strings.TrimSpace(strings.ToValidUTF8(output, "\uFFFD"))
	if len(output) > maxOutput {
		output = content.Head(output, maxOutput) + fmt.Sprintf("\n[cut here: %d of %d bytes]", maxOutput, len(output))
	}
	if err != nil {
		output = strings.TrimSpace(output + "\n[the command " + shown + " failed: " + reason(ctx, err) + "]")
	}
	return output
}

func reason(ctx context.Context, err error) string {
	switch {
	case ctx.Err() == nil && fault.KindOf(err) != fault.Timeout:
		return fault.PublicText(err)
	case errors.Is(ctx.Err(), context.Canceled):
		return "the call was stopped"
	}
	return fmt.Sprintf("it did not end within %d s", int(commandTime.Seconds()))
}
