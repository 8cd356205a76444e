package scripted

import (
	"fmt"
	"path"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/llm"
)

// Names of the tools the demo uses.
const (
	toolTerminal = "terminal"
	toolEditor   = "file_editor"
	toolThink    = "think"
	toolFinish   = "finish"
)

// turn is one answer of the model.
type turn struct {
	text      string
	reasoning string
	calls     []toolUse
	delay     time.Duration // before the answer
	pace      time.Duration // between the pieces of the text
	errors    []Step        // errors instead of the answer, while their attempts last
	// instead returns the turn that follows in view of the calls' results, before
	// the next step; nil = none.
	instead func(results []string) *turn
}

// toolUse is a call without its id.
type toolUse struct{ name, args string }

func use(name string, args map[string]any) toolUse {
	b, _ := content.Marshal(args) // strings and numbers only
	return toolUse{name, string(b)}
}

func shell(command string) toolUse { return use(toolTerminal, map[string]any{"command": command}) }

// script is the plan for one user message.
type script struct {
	dir   string // the working directory
	turns []turn
	open  turn     // what say, wait and the like have put into the next turn
	done  []string // what the last turn tells
	last  string   // the text of an explicit finish
	ended bool
}

// plan turns steps into turns; the last one finishes.
func plan(steps []Step, dir string, canFinish bool) []turn {
	s := &script{dir: dir}
	for _, step := range steps {
		if !s.ended {
			s.add(step)
		}
	}
	return append(s.turns, s.final(canFinish))
}

func (s *script) add(step Step) {
	switch step.Kind {
	case kindSay:
		s.open.text = joinLines(s.open.text, step.Arg)
	case kindReason:
		s.open.reasoning = joinLines(s.open.reasoning, step.Arg)
	case kindTokens:
		s.open.text, s.open.pace = joinLines(s.open.text, tokens(step.N)), 20*time.Millisecond
	case kindWait:
		s.open.delay += seconds(step.Wait)
	case kindError:
		s.open.errors = append(s.open.errors, step)
	case kindHelp:
		s.open.text = joinLines(s.open.text, Help)
	case kindFinish:
		s.last, s.ended = step.Arg, true
	case kindEmpty:
		s.turns = append(s.turns, s.open)
		s.open, s.done = turn{}, append(s.done, "gave an empty answer")
	default:
		s.act(step)
	}
}

// act closes a turn with the calls of a step.
func (s *script) act(step Step) {
	t := s.open
	s.open = turn{}
	var told string
	switch step.Kind {
	case kindRun:
		t.calls, told = []toolUse{shell(step.Arg)}, "ran `"+step.Arg+"`"
	case kindFail:
		t.calls = []toolUse{shell("echo 'this command fails on purpose' >&2; (exit 3)")}
		told = "ran a command that fails on purpose: it should have ended with exit code 3"
	case kindSlow:
		t.calls = []toolUse{shell(fmt.Sprintf("for i in $(seq 1 %d); do echo \"tick $i of %d\"; sleep 1; done", step.N, step.N))}
		told = fmt.Sprintf("ran a command that takes %d s", step.N)
	case kindCrash:
		t.calls, told = []toolUse{shell("kill -9 $$")}, "killed its own shell"
	case kindThink:
		t.calls, told = []toolUse{use(toolThink, map[string]any{"thought": orElse(step.Arg, "What would a real model think here?")})}, "thought"
	case kindParallel:
		t.calls = []toolUse{shell("echo one"), shell("echo two"), use(toolThink, map[string]any{"thought": "Three calls at once."})}
		told = "made three tool calls in one answer"
	case kindTool:
		t.calls, told = []toolUse{{step.Arg, orElse(step.Value, "{}")}}, "called the tool "+step.Arg
	default:
		told = s.editFile(step, &t)
	}
	s.turns, s.done = append(s.turns, t), append(s.done, told)
}

func (s *script) editFile(step Step, t *turn) string {
	file := s.absolute(step.Arg)
	switch step.Kind {
	case kindWrite:
		text := strings.TrimSuffix(step.Value, "\n") + "\n"
		t.calls = []toolUse{use(toolEditor, map[string]any{"command": "create", "path": file, "file_text": text})}
		t.instead = func(results []string) *turn { return overwrite(results, file, text) }
		return "wrote " + file
	case kindEdit:
		t.calls = []toolUse{use(toolEditor, map[string]any{"command": "str_replace", "path": file, "old_str": step.Old, "new_str": step.Value})}
		return "edited " + file
	}
	t.calls = []toolUse{use(toolEditor, map[string]any{"command": "view", "path": file})}
	return "read " + file
}

// overwrite is what follows when a file could not be created because it exists
// already, or because its directory does not.
func overwrite(results []string, file, text string) *turn {
	said := strings.ToLower(strings.ReplaceAll(strings.Join(results, "\n"), file, ""))
	if !strings.Contains(said, "exist") && !strings.Contains(said, "overwr") && !strings.Contains(said, "no such") {
		return nil
	}
	command := "mkdir -p " + quote(path.Dir(file)) + " && printf '%s' " + quote(text) + " > " + quote(file)
	return &turn{text: "The editor does not create this file, so I write it with a command.", calls: []toolUse{shell(command)}}
}

func (s *script) absolute(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(s.dir, p)
	}
	return path.Clean(p)
}

// final is the turn that ends the run.
func (s *script) final(canFinish bool) turn {
	t := s.open
	message := s.last
	if !s.ended {
		message = summary(s.done)
	}
	switch {
	case canFinish && len(s.turns) > 0, canFinish && s.ended:
		t.calls = []toolUse{use(toolFinish, map[string]any{"message": orElse(message, "Done.")})}
	case t.text == "" || s.ended:
		t.text = joinLines(t.text, orElse(message, "Done."))
	}
	return t
}

func summary(done []string) string {
	if len(done) == 0 {
		return ""
	}
	return "Done. I am Parley's built-in demo model, not an AI; I did what your message said:\n- " + strings.Join(done, "\n- ")
}

// Help is what the model says to a message without commands.
const Help = `I am Parley's built-in demo model, not an AI: I only do what these commands say, one per line.

- run: ls -la            run a command
- write hello.txt: hi    write a file (\n makes a line break)
- read hello.txt         show a file
- edit hello.txt: hi => hello
- fail                   run a command that fails
- slow 5                 run a command that takes 5 seconds
- think                  use the think tool
- parallel               several tool calls in one answer
- crash                  kill the shell
- say: text              say something
- reason: text           show some reasoning
- tokens 200             stream 200 words slowly
- wait 3                 let the model take 3 seconds
- tool: NAME {"a": 1}    call any tool with any arguments
- empty                  give an empty answer
- error: KIND [N]        fail, N times or always; KIND is one of
                         ` + errorNames + `
- finish: text           end the run with a text

To talk to a real model, set one in the settings.`

// next walks what happened since the user's message and returns the turn that
// is due: each answer so far took one.
func next(turns []turn, since []content.Message) turn {
	for i := 0; i < len(since); i++ {
		if since[i].Role != content.RoleAssistant || len(turns) == 1 {
			continue
		}
		taken := turns[0]
		turns = turns[1:]
		if taken.instead == nil {
			continue
		}
		if t := taken.instead(resultsAfter(since[i+1:])); t != nil {
			turns = append([]turn{*t}, turns...)
		}
	}
	return turns[0]
}

// resultsAfter returns the texts of the tool results that follow directly.
func resultsAfter(msgs []content.Message) []string {
	var out []string
	for _, m := range msgs {
		if m.Role != content.RoleTool {
			break
		}
		out = append(out, m.Text())
	}
	return out
}

// failing returns the error that is due at this attempt, nil if none is.
func (t turn) failing(attempt int) *Step {
	for _, e := range t.errors {
		if e.N == 0 || attempt <= e.N {
			return &e
		}
		attempt -= e.N
	}
	return nil
}

func tokens(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "word-%d ", i)
	}
	return strings.TrimSpace(b.String())
}

func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// quote makes s one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// errorFor is the error of a step.
func errorFor(s *Step, attempt int) *llm.Error {
	return &llm.Error{Class: s.Class, Status: statusOf(s.Class),
		Message: fmt.Sprintf("the demo model was asked to fail like this (%s, attempt %d)", s.Arg, attempt)}
}

func statusOf(c llm.Class) int {
	switch c {
	case llm.ClassAuth:
		return 401
	case llm.ClassQuota:
		return 402
	case llm.ClassRateLimit:
		return 429
	case llm.ClassOverloaded:
		return 503
	case llm.ClassTimeout:
		return 504
	case llm.ClassContext, llm.ClassContentPolicy, llm.ClassMalformed, llm.ClassBadRequest:
		return 400
	}
	return 0
}
