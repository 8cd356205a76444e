package hookrun_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/internal/agent/hookrun"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/tool"
	"parley/internal/tool/tooltest"
)

// bench is a sandbox with a runner for it.
type bench struct {
	*tooltest.Box
	*hookrun.Runner
}

func newBench(t *testing.T, event hook.Event, hooks ...hook.Definition) *bench {
	t.Helper()
	b := &bench{Box: tooltest.New(t)}
	b.Runner = &hookrun.Runner{
		Hands:      func(context.Context) (tool.Hands, error) { return b.Env.Hands, nil },
		WorkingDir: b.Dir, SessionID: "session-1", Background: hookrun.NewBackground(),
		Mask: func(s string) string { return strings.ReplaceAll(s, "s3cret", "<hidden>") },
	}
	if event != "" {
		b.Sources = []hookrun.Source{source("repository", event, hooks...)}
	}
	t.Cleanup(func() { b.Background.Close(ended()) })
	return b
}

// ended is a context that is over: what runs in the background is to end now.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func source(name string, event hook.Event, hooks ...hook.Definition) hookrun.Source {
	m := []hook.Matcher{{Matcher: "*", Hooks: hooks}}
	return hookrun.Source{Name: name, Config: map[hook.Event]hook.Config{
		hook.PreToolUse: {PreToolUse: m}, hook.PostToolUse: {PostToolUse: m}, hook.UserPromptSubmit: {UserPromptSubmit: m},
		hook.SessionStart: {SessionStart: m}, hook.SessionEnd: {SessionEnd: m}, hook.Stop: {Stop: m}}[event]}
}

func command(text string) hook.Definition {
	return hook.Definition{Type: hook.TypeCommand, Command: text, Timeout: 60, MaxIterations: 3}
}

func input(event hook.Event) hookrun.Input {
	in := hookrun.Input{Event: event}
	if event == hook.PreToolUse || event == hook.PostToolUse {
		in.Tool = "terminal"
	}
	return in
}

// run runs the hooks of an event that must not be canceled.
func (b *bench) run(event hook.Event) hookrun.Outcome {
	b.Helper()
	out, err := b.Run(context.Background(), input(event))
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// one runs the one hook of an event.
func (b *bench) one(event hook.Event) (hookrun.Outcome, *conversation.HookExecutionEvent) {
	b.Helper()
	out := b.run(event)
	if len(out.Events) != 1 {
		b.Fatalf("%d events", len(out.Events))
	}
	return out, out.Events[0]
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

var allEvents = hook.Events

func TestCommandReadsTheEvent(t *testing.T) {
	b := newBench(t, hook.PreToolUse, command(`cat >in.json; echo "$OPENHANDS_PROJECT_DIR,$OPENHANDS_SESSION_ID,$OPENHANDS_EVENT_TYPE,$OPENHANDS_TOOL_NAME,$PARLEY_TOOL_NAME,$ROOT,$TOKEN"; pwd`))
	b.Sources[0].Env = map[string]string{"ROOT": "/plugin", "OPENHANDS_EVENT_TYPE": "forged"}
	b.Secrets = func(c string) map[string]string {
		if strings.Contains(c, "TOKEN") {
			return map[string]string{"TOKEN": "s3cret", "PARLEY_TOOL_NAME": "forged"}
		}
		return nil
	}
	in := input(hook.PreToolUse)
	in.ToolInput, in.ToolResponse = json.RawMessage(`{"command":"ls <a> s3cret","n":12345678901234567890}`), json.RawMessage(`"ok"`)
	in.Metadata, in.ActionID, in.MessageID = map[string]any{"turn": 3}, "action-1", "message-1"
	out, err := b.Run(t.Context(), in)
	if err != nil || out.Blocked || len(out.Events) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	b.Holds("in.json", `{"event_type":"PreToolUse","message":null,"metadata":{"turn":3},"session_id":"session-1",`+
		`"tool_input":{"command":"ls <a> s3cret","n":12345678901234567890},"tool_name":"terminal","tool_response":"ok","working_dir":"`+b.Dir+`"}`)
	e := out.Events[0]
	if want := b.Dir + ",session-1,PreToolUse,terminal,terminal,/plugin,<hidden>\n" + b.Dir + "\n"; e.Stdout != want {
		t.Errorf("stdout %q, want %q", e.Stdout, want)
	}
	if e.Kind != conversation.KindHookExecution || e.Source != conversation.SourceHook || e.EventType != "PreToolUse" || !e.Success ||
		e.ToolName != "terminal" || e.ActionID != "action-1" || e.MessageID != "message-1" || e.Error != "" || e.ExitCode != 0 {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(string(e.Input), "ls <a> <hidden>") {
		t.Errorf("input %s", e.Input)
	}
	if _, err := conversation.Encode(e); err != nil {
		t.Error(err)
	}
}

func TestCommandRunsInItsSourcesDirectoryWithBash(t *testing.T) {
	b := newBench(t, hook.SessionStart, command(`[[ -n $BASH_VERSION ]] && pwd; echo "$OPENHANDS_PROJECT_DIR"`))
	b.Write("plugin/x", "")
	b.Sources[0].Dir = b.Path("plugin")
	if _, e := b.one(hook.SessionStart); e.Stdout != b.Dir+"/plugin\n"+b.Dir+"\n" {
		t.Errorf("%+v", e)
	}
}

func TestWhatACommandMayBeginWith(t *testing.T) {
	b := newBench(t, hook.Stop, command("-x; exit 0"))
	if _, e := b.one(hook.Stop); !e.Success || !strings.Contains(e.Stderr, "-x") {
		t.Errorf("%+v", e)
	}
}

// TestWhatCommandsSay runs each command for a guard, for Stop, and for an event that
// nothing can block.
func TestWhatCommandsSay(t *testing.T) {
	const ran, blocks, fails = "ran", "blocks", "fails"
	for _, c := range []struct{ name, command, want, reason string }{
		{"silent", ":", ran, ""},
		{"text", "echo all is well", ran, ""},
		{"another exit code", "echo bad >&2; exit 1", ran, ""},
		{"exit 255", "exit 255", ran, ""},
		{"allow", `echo '{"decision":"allow","reason":"fine"}'`, ran, "fine"},
		{"approve in capitals", `echo '{"decision":"APPROVE"}'`, ran, ""},
		{"unknown members", `echo '{"systemMessage":"x","decision":null,"continue":null}'`, ran, ""},
		{"JSON behind text", `echo; echo 'x {"decision":'`, ran, ""},
		{"exit 2 with stderr", "echo no >&2; exit 2", blocks, "no"},
		{"exit 2 with a reason", `echo '{"reason":"because"}'; exit 2`, blocks, "because"},
		{"exit 2 with blanks and a reason", `echo >&2; echo '{"reason":"because"}'; exit 2`, blocks, "because"},
		{"exit 2 with garbage", `echo '{'; exit 2`, blocks, "gave no reason"},
		{"exit 2 with nothing", "exit 2", blocks, "gave no reason"},
		{"exit 2 and allow", `echo '{"decision":"allow"}'; exit 2`, blocks, ""},
		{"deny", `echo '{"decision":"deny","reason":"s3cret is in it"}'`, blocks, "<hidden> is in it"},
		{"block", `printf '\n {"decision":"block","reason":["a",1]} \n'`, blocks, `["a",1]`},
		{"deny and another exit code", `echo '{"decision":"deny","reason":"r"}'; exit 1`, blocks, "r"},
		{"continue false", `echo '{"continue":false,"stopReason":"enough"}'`, blocks, "enough"},
		{"allow but do not continue", `echo '{"decision":"allow","continue":false}'`, blocks, ""},
		{"permission denied", `echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"pr"}}'`, blocks, "pr"},
		{"no object", `echo '{"decision":"allow"'`, fails, "begins like a JSON object"},
		{"two objects", `echo '{"decision":"allow"} {}'`, fails, "begins like a JSON object"},
		{"garbage and another exit code", `echo '{oops'; exit 1`, fails, "begins like a JSON object"},
		{"unknown decision", `echo '{"decision":"perhaps"}'`, fails, "perhaps"},
		{"unknown permission", `echo '{"hookSpecificOutput":{"permissionDecision":"ask"}}'`, fails, "ask"},
		{"decision is no text", `echo '{"decision":true}'`, fails, "no text"},
		{"continue is no truth value", `echo '{"continue":"no"}'`, fails, "continue"},
		{"specific output is no object", `echo '{"hookSpecificOutput":"deny"}'`, fails, "hookSpecificOutput"},
		{"not found", "./missing.sh", fails, "missing.sh"},
		{"not executable", "echo x >plain; ./plain", fails, "126"},
		{"killed", "kill -9 $$", fails, "signal 9"},
		{"its program killed", "sh -c 'kill -SEGV $$'; exit", fails, "signal 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "")
			for _, event := range allEvents {
				b.Sources = []hookrun.Source{source("repository", event, command(c.command))}
				guard := event == hook.PreToolUse || event == hook.UserPromptSubmit
				out, e := b.one(event)
				blocked := c.want == blocks && (guard || event == hook.Stop) || c.want == fails && guard
				if out.Blocked != blocked || e.Blocked != blocked {
					t.Errorf("%s: blocked %v, %+v", event, out.Blocked, e)
				}
				if (e.Error != "") != (c.want == fails) || c.want == fails && e.Success {
					t.Errorf("%s: %+v", event, e)
				}
				if blocked && (!strings.Contains(out.Reason, c.reason) || out.Reason == "" || e.Reason != out.Reason) || !blocked && out.Reason != "" {
					t.Errorf("%s: reason %q, %+v", event, out.Reason, e)
				}
				if c.want == fails && !strings.Contains(e.Error, c.reason) {
					t.Errorf("%s: error %q", event, e.Error)
				}
			}
		})
	}
}

func TestContext(t *testing.T) {
	b := newBench(t, hook.UserPromptSubmit,
		command(`echo '{"additionalContext":"one s3cret"}'`),
		command(`echo '{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"two"}}'`),
		command(`echo plain`))
	out := b.run(hook.UserPromptSubmit)
	if !slices.Equal(out.Context, []string{"one <hidden>", "two"}) || out.Events[0].Context != "one <hidden>" {
		t.Errorf("%+v", out)
	}
}

func TestContextOfManyHooksIsBounded(t *testing.T) {
	long := command(`printf '{"additionalContext":"%s"}' "$(head -c 40000 /dev/zero | tr '\0' x)"`)
	b := newBench(t, hook.SessionStart, long, long, long, long)
	total := 0
	for _, text := range b.run(hook.SessionStart).Context {
		total += len(text)
	}
	if total > 100_000 || total < 90_000 {
		t.Errorf("%d characters", total)
	}
}

func TestStopsAtTheFirstBlock(t *testing.T) {
	for _, event := range allEvents {
		b := newBench(t, event, command("echo 1"), command("exit 2"), command("touch third"))
		second := source("plugin", event, command("touch fourth"))
		b.Sources = append(b.Sources, second)
		out := b.run(event)
		stops := event == hook.PreToolUse || event == hook.UserPromptSubmit || event == hook.Stop
		if want := map[bool]int{true: 2, false: 4}[stops]; len(out.Events) != want || out.Blocked != stops ||
			exists(b.Path("third")) == stops || exists(b.Path("fourth")) == stops {
			t.Errorf("%s: %d events, blocked %v", event, len(out.Events), out.Blocked)
		}
	}
}

func TestHas(t *testing.T) {
	r := hookrun.Runner{Sources: []hookrun.Source{{Config: hook.Config{PreToolUse: []hook.Matcher{
		{Matcher: "terminal", Hooks: []hook.Definition{command("x")}}}}}}}
	if !r.Has(hook.PreToolUse, "terminal") || r.Has(hook.PreToolUse, "grep") || r.Has(hook.PostToolUse, "terminal") {
		t.Error("wrong")
	}
	out, err := r.Run(t.Context(), hookrun.Input{Event: hook.PreToolUse, Tool: "grep"}) // no sandbox is needed
	if err != nil || out.Blocked || out.Events != nil {
		t.Errorf("%+v %v", out, err)
	}
}

func TestNoSandboxIsNoPass(t *testing.T) {
	gone := fault.New(fault.Unavailable, "gone", "The sandbox was deleted.")
	for name, change := range map[string]func(*bench){
		"no hands":      func(b *bench) { b.Hands = nil },
		"cannot start":  func(b *bench) { b.Hands = func(context.Context) (tool.Hands, error) { return nil, gone } },
		"no directory":  func(b *bench) { b.Sources[0].Dir = "/no/such" },
		"no time":       func(b *bench) { b.Sources[0].Config.PreToolUse[0].Hooks[0].Timeout = 0 },
		"unknown type":  func(b *bench) { b.Sources[0].Config.PreToolUse[0].Hooks[0].Type = "shell" },
		"NUL in it":     func(b *bench) { b.Sources[0].Config.PreToolUse[0].Hooks[0].Command = "a\x00b" },
		"bad variable":  func(b *bench) { b.Sources[0].Env = map[string]string{"A=B": ""} },
		"closed client": func(b *bench) { b.Env.Hands.(interface{ Close() }).Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, hook.PreToolUse, command(":"))
			change(b)
			out, e := b.one(hook.PreToolUse)
			if !out.Blocked || e.Error == "" || e.Success || e.ExitCode != -1 || !strings.Contains(out.Reason, "could not run") ||
				!strings.Contains(out.Reason, "repository") {
				t.Errorf("%+v %+v", out, e)
			}
		})
	}
}

func pin(path, text string) extension.Pin {
	sum := sha256.Sum256([]byte(text))
	return extension.Pin{Path: path, SHA256: hex.EncodeToString(sum[:])}
}

func TestPinnedFiles(t *testing.T) {
	const good = "#!/bin/sh\necho ran\n"
	odd := "it's $(touch injected) \"a\nb\\c"
	for _, c := range []struct {
		name   string
		change func(b *bench)
		wrong  string // in the error; "" = it runs
	}{
		{"as they were", func(*bench) {}, ""},
		{"sums in capitals", func(b *bench) { b.Sources[0].Pins[0].SHA256 = strings.ToUpper(b.Sources[0].Pins[0].SHA256) }, ""},
		{"changed", func(b *bench) { b.Write("guard.sh", good+"exit 0\n") }, "guard.sh is not as it was"},
		{"the second changed", func(b *bench) { b.Write(odd, "else") }, "touch injected"},
		{"removed", func(b *bench) { _ = os.Remove(b.Path("guard.sh")) }, "guard.sh is not there"},
		{"a directory", func(b *bench) {
			_ = os.Remove(b.Path("guard.sh"))
			_ = os.Mkdir(b.Path("guard.sh"), 0o755)
		}, "is no file"},
		{"a link to something else", func(b *bench) {
			_ = os.Remove(b.Path("guard.sh"))
			b.Link("/dev/zero", "guard.sh")
		}, "is no file"},
		{"no sum", func(b *bench) { b.Sources[0].Pins[0].SHA256 = "" }, "guard.sh is not as it was"},
		{"a program of that name in the PATH of the source", func(b *bench) {
			b.Write("guard.sh", "changed")
			sum := b.Write("bin/sha256sum", "#!/bin/sh\necho "+b.Sources[0].Pins[0].SHA256+"\n")
			_ = os.Chmod(sum, 0o755)
			b.Sources[0].Env = map[string]string{"PATH": filepath.Dir(sum) + ":/usr/bin:/bin"}
		}, "guard.sh is not as it was"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, hook.PreToolUse, command("sh ./guard.sh; cat"))
			b.Write("guard.sh", good)
			b.Write(odd, "data")
			b.Sources[0].Pins = []extension.Pin{pin(b.Path("guard.sh"), good), pin(b.Path(odd), "data")}
			c.change(b)
			out, e := b.one(hook.PreToolUse)
			switch {
			case c.wrong == "":
				if out.Blocked || !strings.HasPrefix(e.Stdout, "ran\n{") {
					t.Errorf("%+v", e)
				}
			case !out.Blocked || !strings.Contains(e.Error, c.wrong) || !strings.Contains(out.Reason, c.wrong) || e.Stdout != "":
				t.Errorf("%+v %+v", out, e)
			}
			if exists(b.Path("injected")) {
				t.Error("a path became part of the shell's text")
			}
		})
	}
}

func TestHostileCommands(t *testing.T) {
	t.Run("floods its output with a secret at the bound", func(t *testing.T) {
		b := newBench(t, hook.PostToolUse, command(`yes s3cret | head -c 5000000; yes s3cret | head -c 5000000 >&2`))
		_, e := b.one(hook.PostToolUse)
		for _, text := range []string{e.Stdout, e.Stderr} {
			if n := utf8.RuneCountInString(text); n > 50_000 || n < 49_900 || strings.Contains(text, "s3") || !strings.HasSuffix(text, "clipped]") {
				t.Errorf("%d characters ending in %q", n, text[len(text)-40:])
			}
		}
	})
	t.Run("floods with what is no text", func(t *testing.T) {
		b := newBench(t, hook.PostToolUse, command(`head -c 400000 /dev/zero | tr '\0' '\377'; echo s3cret`))
		if _, e := b.one(hook.PostToolUse); !utf8.ValidString(e.Stdout) || strings.Contains(e.Stdout, "s3") {
			t.Errorf("%q", e.Stdout)
		}
	})
	t.Run("floods a decision", func(t *testing.T) {
		b := newBench(t, hook.PreToolUse, command(`echo '{"decision":"allow","x":"'; yes | head -c 5000000; echo '"}'`))
		if out, e := b.one(hook.PreToolUse); !out.Blocked || e.Error == "" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("ignores TERM, forks, and outlives its time", func(t *testing.T) {
		d := command(`trap '' TERM; echo late >&2; (trap '' TERM; sleep 1000) & while :; do sleep 100; done`)
		d.Timeout = 1
		b := newBench(t, hook.PreToolUse, d)
		started := time.Now()
		out, e := b.one(hook.PreToolUse)
		if !out.Blocked || !strings.Contains(e.Error, "within 1 seconds") || !strings.Contains(e.Error, "late") || e.ExitCode != -1 || time.Since(started) > 15*time.Second {
			t.Errorf("%+v", e)
		}
	})
	t.Run("leaves a child with its output", func(t *testing.T) {
		b := newBench(t, hook.PreToolUse, command(`sleep 1000 & echo $! >pid; echo '{"decision":"deny","reason":"r"}'`))
		started := time.Now()
		if out, _ := b.one(hook.PreToolUse); !out.Blocked || out.Reason != "r" || time.Since(started) > 15*time.Second {
			t.Errorf("%+v", out)
		}
		if _, err := b.Env.Hands.Exec(t.Context(), tool.ExecRequest{Argv: []string{"/bin/sh", "-c", "kill -9 $(cat pid)"}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("never reads its input", func(t *testing.T) {
		b := newBench(t, hook.PreToolUse, command(`exec <&-; exit 0`))
		out, err := b.Run(t.Context(), hookrun.Input{Event: hook.PreToolUse, Tool: "x", ToolInput: json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)})
		if err != nil || out.Blocked || !out.Events[0].Success {
			t.Errorf("%+v %v", out, err)
		}
	})
	t.Run("deletes its own script", func(t *testing.T) {
		b := newBench(t, hook.PreToolUse, command(`./guard.sh`))
		if err := os.Chmod(b.Write("guard.sh", "#!/bin/sh\nrm -- \"$0\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, e := b.one(hook.PreToolUse); out.Blocked || !e.Success {
			t.Errorf("%+v", e)
		}
		if out, e := b.one(hook.PreToolUse); !out.Blocked || e.ExitCode != 127 {
			t.Errorf("%+v", e)
		}
	})
}

func TestLongInputStaysJSON(t *testing.T) {
	many := make([]string, 400_000)
	manyRaw, _ := json.Marshal(many)
	for name, c := range map[string]hookrun.Input{
		"a long text":         {ToolInput: json.RawMessage(`{"command":"begin` + strings.Repeat("\u00e4\\u0001", 1<<20) + `end"}`)},
		"many small things":   {ToolResponse: manyRaw},
		"a long message":      {Message: "begin" + strings.Repeat("m", 3<<20) + "end", Metadata: map[string]any{"turn": 1}},
		"what is no JSON":     {ToolInput: json.RawMessage(`{"a":`)},
		"a long name":         {ToolInput: json.RawMessage(`{"` + strings.Repeat("k", 2<<20) + `":1}`)},
		"metadata not for it": {Metadata: map[string]any{"f": func() {}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, hook.PreToolUse, command(`cat >in.json`))
			c.Event, c.Tool = hook.PreToolUse, "terminal"
			out, err := b.Run(t.Context(), c)
			if err != nil || out.Blocked {
				t.Fatalf("%+v %v", out.Reason, err)
			}
			raw, err := os.ReadFile(b.Path("in.json"))
			if err != nil || len(raw) > 1<<20 || len(out.Events[0].Input) > 50_000 {
				t.Fatalf("%d and %d bytes, %v", len(raw), len(out.Events[0].Input), err)
			}
			for _, text := range [][]byte{raw, out.Events[0].Input} {
				var doc struct {
					EventType string         `json:"event_type"`
					ToolName  string         `json:"tool_name"`
					Metadata  map[string]any `json:"metadata"`
				}
				if err := json.Unmarshal(text, &doc); err != nil || doc.EventType != "PreToolUse" || doc.ToolName != "terminal" {
					t.Fatalf("%.300s: %v", text, err)
				}
				long := len(c.Message)+len(c.ToolInput)+len(c.ToolResponse) > 1<<20
				if (doc.Metadata["clipped"] == true) != long {
					t.Errorf("metadata %v", doc.Metadata)
				}
			}
		})
	}
}

func TestInterruptedHookIsNoPass(t *testing.T) {
	for _, event := range []hook.Event{hook.PreToolUse, hook.UserPromptSubmit, hook.Stop} {
		b := newBench(t, event, command(`touch started; sleep 1000`), command(`touch second`))
		cause := errors.New("the user stopped it")
		ctx, cancel := context.WithCancelCause(t.Context())
		type end struct {
			out hookrun.Outcome
			err error
		}
		ends := make(chan end, 1)
		go func() {
			out, err := b.Run(ctx, input(event))
			ends <- end{out, err}
		}()
		eventually(t, "the hook", func() bool { return exists(b.Path("started")) })
		started := time.Now()
		cancel(cause)
		got := <-ends
		guard := event != hook.Stop
		if !errors.Is(got.err, cause) || got.out.Blocked != guard || len(got.out.Events) != 1 || time.Since(started) > 15*time.Second {
			t.Fatalf("%s: %+v", event, got)
		}
		if e := got.out.Events[0]; e.Blocked || e.Success || e.Error == "" || exists(b.Path("second")) {
			t.Errorf("%s: %+v", event, e)
		}
		if out, err := b.Run(ctx, input(event)); !errors.Is(err, cause) || out.Blocked != guard || len(out.Events) != 0 {
			t.Errorf("%s: %+v %v", event, out, err)
		}
	}
}
