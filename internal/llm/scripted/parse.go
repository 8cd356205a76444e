package scripted

import (
	"strconv"
	"strings"
	"time"

	"parley/internal/lazyre"
	"parley/internal/llm"
)

// Kinds of steps.
const (
	kindRun      = "run"
	kindWrite    = "write"
	kindRead     = "read"
	kindEdit     = "edit"
	kindFail     = "fail"
	kindSlow     = "slow"
	kindCrash    = "crash"
	kindThink    = "think"
	kindParallel = "parallel"
	kindSay      = "say"
	kindReason   = "reason"
	kindTokens   = "tokens"
	kindWait     = "wait"
	kindTool     = "tool"
	kindError    = "error"
	kindEmpty    = "empty"
	kindFinish   = "finish"
	kindHelp     = "help"
)

// Bounds of numbers in commands.
const (
	maxSlow   = 600
	maxTokens = 10000
	maxWait   = 3600.0
)

// Step is one command of a user's message.
type Step struct {
	Kind  string
	Arg   string    // command, path, text or tool name
	Value string    // content to write, new text, arguments of a tool
	Old   string    // text to replace
	N     int       // seconds, tokens, or how many attempts fail (0 = all)
	Wait  float64   // seconds
	Class llm.Class // of an error
	Cut   bool      // an error in the middle of the answer
}

// Parse reads the commands of a message, one per line, in any case, with or
// without a list mark. Lines that are no commands are ignored.
func Parse(text string) []Step {
	var steps []Step
	for line := range strings.Lines(text) {
		if s, ok := parseLine(line); ok {
			steps = append(steps, s)
		}
	}
	return steps
}

var listMark = lazyre.MustCompile(`^(?:[-*]|[0-9]{1,3}[.)])\s+`)

func parseLine(line string) (Step, bool) {
	line = strings.TrimSpace(line)
	line = listMark.ReplaceAllString(line, "")
	if cmd, ok := strings.CutPrefix(line, "$ "); ok {
		return Step{Kind: kindRun, Arg: strings.TrimSpace(cmd)}, strings.TrimSpace(cmd) != ""
	}
	word, rest, colon := cutWord(line)
	switch word {
	case kindRun, kindSay, kindReason: // the colon tells them from sentences
		return Step{Kind: word, Arg: rest}, colon && rest != ""
	case kindFinish:
		return Step{Kind: word, Arg: rest}, colon || rest == ""
	case kindThink:
		return Step{Kind: word, Arg: rest}, colon || rest == ""
	case kindFail, kindParallel, kindCrash, kindEmpty, kindHelp:
		return Step{Kind: word}, rest == ""
	case kindSlow:
		return numbered(word, rest, 5, maxSlow)
	case kindTokens:
		return numbered(word, rest, 100, maxTokens)
	case kindWait:
		return parseWait(rest)
	case kindWrite:
		return parseWrite(rest)
	case kindRead:
		return Step{Kind: word, Arg: rest}, isPath(rest)
	case kindEdit:
		return parseEdit(rest)
	case kindTool:
		name, args, _ := strings.Cut(rest, " ")
		return Step{Kind: word, Arg: name, Value: strings.TrimSpace(args)}, colon && name != ""
	case kindError:
		return parseError(rest, colon)
	}
	return Step{}, false
}

// cutWord splits "word: rest" and "word rest"; the word is lower case.
func cutWord(line string) (word, rest string, colon bool) {
	end := strings.IndexFunc(line, func(r rune) bool { return r == ':' || r == ' ' || r == '\t' })
	if end < 0 {
		return strings.ToLower(line), "", false
	}
	rest = strings.TrimSpace(line[end:])
	if strings.HasPrefix(rest, ":") {
		rest, colon = strings.TrimSpace(rest[1:]), true
	}
	return strings.ToLower(line[:end]), rest, colon
}

func numbered(kind, rest string, def, most int) (Step, bool) {
	if rest == "" {
		return Step{Kind: kind, N: def}, true
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 1 {
		return Step{}, false
	}
	return Step{Kind: kind, N: min(n, most)}, true
}

func parseWait(rest string) (Step, bool) {
	s, err := strconv.ParseFloat(rest, 64)
	if err != nil || !(s > 0) {
		return Step{}, false
	}
	return Step{Kind: kindWait, Wait: min(s, maxWait)}, true
}

// parseWrite reads "path: content"; "\n" in the content is a line break.
func parseWrite(rest string) (Step, bool) {
	path, value, ok := strings.Cut(rest, ":")
	path = strings.TrimSpace(path)
	value = strings.ReplaceAll(strings.TrimSpace(value), `\n`, "\n")
	return Step{Kind: kindWrite, Arg: path, Value: value}, ok && isPath(path)
}

// parseEdit reads "path: old => new".
func parseEdit(rest string) (Step, bool) {
	path, change, _ := strings.Cut(rest, ":")
	old, value, ok := strings.Cut(change, "=>")
	path, old = strings.TrimSpace(path), strings.TrimSpace(old)
	return Step{Kind: kindEdit, Arg: path, Old: old, Value: strings.TrimSpace(value)}, ok && isPath(path) && old != ""
}

// isPath keeps sentences ("write a poem: ...") from being commands.
func isPath(s string) bool { return s != "" && !strings.ContainsAny(s, " \t") }

// parseError reads "class" and "class attempts".
func parseError(rest string, colon bool) (Step, bool) {
	name, count, counted := strings.Cut(strings.ToLower(rest), " ")
	s := Step{Kind: kindError, Arg: name}
	var known bool
	s.Class, s.Cut, known = classNamed(name)
	if counted {
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil || n < 1 {
			return Step{}, false
		}
		s.N = n
	}
	return s, colon && known
}

// errorNames are the classes a user can ask for.
const errorNames = "auth, quota, rate_limit, overloaded, network, timeout, context, content_policy, malformed, bad_request, no_response, stream"

func classNamed(name string) (class llm.Class, cut, ok bool) {
	switch name {
	case "context":
		return llm.ClassContext, false, true
	case "stream":
		return llm.ClassNetwork, true, true
	}
	switch c := llm.Class(name); c {
	case llm.ClassAuth, llm.ClassQuota, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassNetwork, llm.ClassTimeout,
		llm.ClassContext, llm.ClassContentPolicy, llm.ClassMalformed, llm.ClassBadRequest, llm.ClassNoResponse:
		return c, false, true
	}
	return "", false, false
}

// seconds turns a number of seconds into a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
