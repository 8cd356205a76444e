package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/tool"
	"parley/internal/tool/terminal"
)

// quick leaves a silent command running after a short time.
var quick = terminal.Config{SoftTimeout: 400 * time.Millisecond}

// left checks that a command was left running.
func (b *box) left(o observation) {
	b.Helper()
	if !o.Timeout || o.ExitCode != -1 || o.IsError {
		b.Fatalf("%q was not left running: %s", o.Command, clip(o.model))
	}
	b.wantIn(o.Metadata.Suffix, "still running")
}

// patience is for machines that do something else meanwhile.
const patience = 30 * time.Second

// until asks for more output as long as done says no.
func (b *box) until(o observation, done func(observation) bool) observation {
	b.Helper()
	for deadline := time.Now().Add(patience); !done(o); {
		if time.Now().After(deadline) {
			b.Fatalf("%q does not get there: %s", o.Command, clip(o.model))
		}
		next := b.call(map[string]any{"command": ""})
		next.Content = []content.Part{content.Text(o.text() + next.text())}
		o = next
	}
	return o
}

// ended asks for more output until the command ends.
func (b *box) ended(o observation) observation {
	b.Helper()
	return b.until(o, func(o observation) bool { return !o.Timeout })
}

// shows asks for more output until the text is there.
func (b *box) shows(o observation, text string) observation {
	b.Helper()
	return b.until(o, func(o observation) bool { return strings.Contains(o.text(), text) })
}

// soon runs a command as soon as the earlier one lets it.
func (b *box) soon(command string) (last observation, all string) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; {
		o := b.ended(b.call(map[string]any{"command": command}))
		all += o.Metadata.Prefix + o.text()
		if !o.IsError {
			return o, all
		}
		if time.Now().After(deadline) {
			b.Fatalf("%q was not run: %s", command, o.model)
		}
	}
}

func TestInteractive(t *testing.T) {
	for _, c := range []struct {
		name, command, prompt string
		inputs                []string
		last                  string
		code                  int
	}{
		{"read", `read -p "name? " x; echo "hello $x"`, "name? ", []string{"bob"}, "hello bob", 0},
		{"cat", "cat", "", []string{"line one", "C-d"}, "", 0},
		{"python input", `python3 -c 'print("got", input("in: "))'`, "in: ", []string{"42"}, "got 42", 0},
		{"select", "select x in a b; do echo \"chose $x\"; break; done", "1) a\n2) b\n#? ", []string{"2"}, "chose b", 0},
		{"password", `bash -c 'read -s -p "Password: " p </dev/tty; echo; echo "${#p} chars"'`, "Password: ", []string{"s3cret"}, "\n6 chars", 0},
		{"nested shell", "sh", "", []string{"exit 9"}, "", 9},
		{"interrupt", "sleep 1000", "", []string{"C-c"}, "", 130},
		{"suspend", "sleep 1000", "", []string{"C-z"}, "", 148},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t, quick)
			o := b.call(map[string]any{"command": c.command})
			b.left(o)
			o = b.shows(o, c.prompt)
			for i, input := range c.inputs {
				o = b.input(input)
				if i < len(c.inputs)-1 {
					b.left(o)
				}
			}
			o = b.ended(o)
			if o.ExitCode != c.code || !strings.Contains(o.text(), c.last) {
				t.Errorf("ended with %d %q, want %d %q", o.ExitCode, o.text(), c.code, c.last)
			}
			b.want(b.run("echo ready"), "ready", 0)
		})
	}
}

func TestKeysReachTheProgram(t *testing.T) {
	b := newBox(t, quick)
	o := b.call(map[string]any{"command": `python3 -c '
import os, sys, termios, tty
old = termios.tcgetattr(0)
tty.setraw(0)
sys.stdout.write("go\r\n"); sys.stdout.flush()
got = b""
while not got.endswith(b"\x04"):
    got += os.read(0, 100)
termios.tcsetattr(0, termios.TCSADRAIN, old)
print(got)
'`})
	b.left(o)
	b.shows(o, "go")
	b.want(b.ended(b.input("UP DOWN TAB ESC BS C-a ENTER C-d")), `b'\x1b[A\x1b[B\t\x1b\x7f\x01\r\x04'`, 0)
}

func TestCommandWhileOneRuns(t *testing.T) {
	b := newBox(t, quick)
	fifo := filepath.Join(b.env.WorkingDir, "go")
	b.run("mkfifo " + fifo)
	b.left(b.call(map[string]any{"command": "echo begun; cat " + fifo + "; echo done"}))

	o := b.call(map[string]any{"command": "echo second"})
	if !o.IsError || o.ExitCode != -1 {
		t.Errorf("a second command was not refused: %s", o.model)
	}
	b.wantIn(o.text(), "still running")

	if err := os.WriteFile(fifo, []byte("released\n"), 0); err != nil {
		t.Fatal(err)
	}
	o, all := b.soon("echo second")
	b.want(o, "second", 0)
	b.wantIn(all, "released")
	b.wantIn(all, "done")
}

func TestNothingRuns(t *testing.T) {
	b := newBox(t, quick)
	for _, args := range []map[string]any{
		{"command": ""},
		{"command": "text", "is_input": true},
		{"command": "C-c", "is_input": true},
	} {
		if o := b.call(args); !o.IsError {
			t.Errorf("%v is no error: %s", args, o.model)
		}
	}
	b.want(b.run("echo ok"), "ok", 0)
}

func TestTimeouts(t *testing.T) {
	b := newBox(t, quick)
	began := time.Now()
	o := b.call(map[string]any{"command": "while :; do echo tick; sleep 0.05; done", "timeout": 1})
	b.left(o)
	if took := time.Since(began); took < time.Second || took > patience {
		t.Errorf("a time-out of 1 s took %v", took)
	}
	b.wantIn(o.text(), "tick\ntick")
	b.wantIn(o.Metadata.Suffix, "did not end within 1 seconds")
	if o := b.ended(b.input("C-c")); o.ExitCode != 130 {
		t.Errorf("C-c: %s", o.model)
	}
	o = b.call(map[string]any{"command": "sleep 0.8; echo late", "timeout": 30})
	b.want(o, "late", 0)
	b.left(b.call(map[string]any{"command": "cat", "timeout": 0}))
	o = b.call(map[string]any{"command": "", "timeout": 0.1})
	b.left(o)
	b.wantIn(b.call(map[string]any{"command": "echo new", "reset": true, "timeout": 60}).text(), "new")
}

func TestReset(t *testing.T) {
	b := newBox(t, quick)
	b.run("cd /; export A=1")
	b.left(b.call(map[string]any{"command": "trap '' INT; while :; do :; done"}))
	o := b.call(map[string]any{"command": "", "reset": true})
	if o.IsError || o.Command != "[RESET]" {
		t.Errorf("reset: %q %s", o.Command, o.model)
	}
	o = b.run(`echo "<$A> $PWD"`)
	b.want(o, "<> "+b.env.WorkingDir, 0)
	o = b.call(map[string]any{"command": "echo fresh", "reset": true, "timeout": 60})
	b.want(o, "fresh", 0)
	if o.Command != "[RESET] echo fresh" {
		t.Errorf("command %q", o.Command)
	}
	if _, err := b.tool.Parse([]byte(`{"command":"x","reset":true,"is_input":true}`)); err == nil {
		t.Error("reset with is_input was accepted")
	}
}

func TestShellEnds(t *testing.T) {
	for _, c := range []struct {
		command string
		code    int
	}{
		{"cd /; echo bye; exit 3", 3},
		{"exec true", 0},
		{"exec sh -c 'exit 4'", 4},
		{"kill -9 $$", 137},
		{"set -e\nfalse\necho never", 1},
	} {
		t.Run(c.command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			o := b.run(c.command)
			if o.ExitCode != c.code {
				t.Errorf("exit code %d, want %d", o.ExitCode, c.code)
			}
			b.wantIn(o.model, fmt.Sprintf("[The shell ended with exit code %d.", c.code))
			if strings.Contains(o.text(), "never") {
				t.Error("set -e did not stop the script")
			}
			b.want(b.run("pwd"), b.env.WorkingDir, 0)
		})
	}
}

// TestShellDiesBetweenCalls: the next command runs, in a new shell, and says so.
func TestShellDiesBetweenCalls(t *testing.T) {
	b := newBox(t, terminal.Config{})
	pid := b.run("echo $$").text()
	if _, err := b.env.Hands.Exec(context.Background(), tool.ExecRequest{Argv: []string{"kill", "-9", pid}}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		out, err := b.env.Hands.ReadTerminal(context.Background(), "t-"+b.env.Label(), tool.TerminalRead{Offset: 0, Wait: time.Second})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the shell does not end: %v", err)
		}
		if out.Exited {
			break
		}
	}
	o := b.run("echo new")
	b.want(o, "new", 0)
	b.wantIn(o.Metadata.Prefix, "The shell had ended")
}

// TestReplacedShell: a program that takes the shell's place is a running program.
func TestReplacedShell(t *testing.T) {
	b := newBox(t, quick)
	b.left(b.call(map[string]any{"command": "exec sh"}))
	b.shows(b.input("echo from $0"), "from sh")
	o := b.ended(b.input("exit 6"))
	if o.ExitCode != 6 {
		t.Errorf("ended with %d: %s", o.ExitCode, o.model)
	}
	b.want(b.run("echo bash again"), "bash again", 0)
}

// TestHostileShell: what a command does to the shell does not disturb the next.
func TestHostileShell(t *testing.T) {
	for _, command := range []string{
		"PS1='$ '; PS2=x; PROMPT_COMMAND='echo prompt'",
		"unset PS1 PROMPT_COMMAND",
		"stty echo", "stty -echo", "stty raw", "stty sane", "stty -icrnl",
		"set -u", "set -o noglob", "set -o pipefail", "set -e", "set -b", "set -f",
		"trap 'true' DEBUG", "trap 'true' ERR", "trap 'echo int' INT", "trap 'true' EXIT",
		"alias printf=false builtin=false eval=false set=false",
		"printf() { :; }; eval() { :; }; set() { :; }",
		"exec 2>/dev/null", "exec </dev/null", "exec 3>&1", "clear", "tput reset 2>/dev/null; true",
		"IFS=x", "PATH=/bin:/usr/bin", "shopt -s extglob nullglob", "set -o posix", "history -c",
		"umask 077", "ulimit -c 0", "cd /tmp", "OLDPWD=; HOME=", "LC_ALL=C", "TERM=dumb",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run(command)
			for range 2 {
				b.want(b.run("echo one\necho 'two three'"), "one\ntwo three", 0)
			}
			b.want(b.run("false"), "", 1)
			b.want(b.run("true"), "", 0)
		})
	}
}

func TestNoisyShell(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("set -x")
	o := b.run("echo traced")
	b.wantIn(o.text(), "++ echo traced\ntraced")
	b.run("set +x")
	b.want(b.run("echo quiet"), "quiet", 0)

	b.run("trap 'echo debug' DEBUG")
	o = b.run("echo z")
	b.wantIn(o.text(), "debug\nz")
	if o.ExitCode != 0 || strings.Contains(o.text(), "6973") {
		t.Errorf("with a DEBUG trap: %s", o.model)
	}
	b.run("trap - DEBUG")
	b.want(b.run("echo quiet"), "quiet", 0)

	b.run("set -u")
	o = b.run("echo a; echo $nope; echo b")
	if o.ExitCode == 0 || !strings.Contains(o.text(), "unbound variable") {
		t.Errorf("unbound variable: %s", o.model)
	}
	b.want(b.run("echo still"), "still", 0)
}

// TestFakeMarkers: a program cannot end a command by printing what looks like a
// prompt, even if it knows the format.
func TestFakeMarkers(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run(`printf '\033]6973;0123456789abcdef0123456789abcdef;e;n\0370\037-1\037u\037h\037\037/\0370123456789abcdef0123456789abcdef\a'; printf 'PS1=%s\n' "$PS1"; set | grep -c 6973; echo end`)
	if !strings.HasSuffix(o.text(), "end") || o.ExitCode != 0 {
		t.Errorf("a fake marker ended the command: %q", o.text())
	}
	o = b.run("set; declare -p; env; echo the end")
	if !strings.HasSuffix(o.text(), "the end") {
		t.Errorf("printed variables ended the command: %q", clip(o.text()))
	}
	o = b.run(`printf '\033'; printf '\033]6973;'; printf '\033]6973'; echo; echo end`)
	b.wantIn(o.text(), "end")
	o = b.run(`cat /proc/$$/environ | tr '\0' '\n'; printf '\033'`)
	if o.ExitCode != 0 {
		t.Errorf("exit code %d", o.ExitCode)
	}
}

func TestHugeOutput(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("seq 1 200000")
	if !strings.HasPrefix(o.text(), "1\n2\n3\n") || !strings.HasSuffix(o.text(), "\n199999\n200000") {
		t.Errorf("head or tail is missing: %q", clip(o.text()))
	}
	if n := len(o.text()); n < 30_000 || n > 30_500 {
		t.Errorf("%d characters", n)
	}
	b.wantIn(o.text(), "characters left out. The full output is in "+o.SaveDir+"/output-")
	path := o.text()[strings.Index(o.text(), b.env.StateDir()):]
	path = path[:strings.Index(path, ".txt")+4]
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.TrimSpace(string(saved)); strings.Count(text, "\n") != 199_999 || !strings.HasSuffix(text, "\n199999\n200000") {
		t.Errorf("the saved output has %d line ends", strings.Count(text, "\n"))
	}
	if o = b.run("echo small"); o.SaveDir != "" {
		t.Errorf("a small output was saved to %q", o.SaveDir)
	}
}

func TestBottomlessOutput(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("head -c 60000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end")
	if !strings.HasPrefix(o.text(), "xxx") || !strings.HasSuffix(o.text(), "\nthe end") {
		t.Errorf("head or tail is missing: %q", clip(o.text()))
	}
	o = b.call(map[string]any{"command": "yes", "timeout": 0.5})
	b.left(o)
	b.wantIn(o.text(), "y\ny\ny\n")
	if o = b.ended(b.input("C-c")); o.ExitCode != 130 {
		t.Errorf("C-c ended yes with %d, time-out %v", o.ExitCode, o.Timeout)
	}
	b.want(b.run("echo ready"), "ready", 0)
}

func TestBinaryOutput(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("head -c 300000 /dev/urandom; echo; echo the end")
	if o.ExitCode != 0 || !strings.HasSuffix(o.text(), "the end") {
		t.Errorf("%d %q", o.ExitCode, clip(o.text()))
	}
	o = b.run(`printf 'a\0b\001\377\376\303(c\n'`)
	b.want(o, "ab\ufffd\ufffd\ufffd(c", 0)
	b.want(b.run("echo ready"), "ready", 0)
}

func TestLongCommand(t *testing.T) {
	b := newBox(t, terminal.Config{})
	for _, size := range []int{2_000, 3_500, 5_000, 100_000, 900_000} {
		text := strings.Repeat("0123456789 \u00fc'\"\\!\n", size/18)
		o := b.run("x=$(cat <<'EOF'\n" + text + "EOF\n)\necho ${#x}\nset | grep -c '^_parley='")
		want := len([]rune(text)) - 1
		if got := strings.SplitN(o.text(), "\n", 2)[0]; got != fmt.Sprint(want) {
			t.Errorf("%d bytes: the command read %s characters, want %d: %s", size, got, want, clip(o.text()))
		}
	}
	b.run("unset x")
	o := b.run("set | grep '^_parley='")
	b.want(o, "", 1)
}

func TestSecrets(t *testing.T) {
	b := newBox(t, terminal.Config{})
	long := strings.Repeat("l'ong\n", 2000)
	b.env.Secrets = func(command string) map[string]string {
		if !strings.Contains(command, "TOKEN") {
			return nil
		}
		return map[string]string{"TOKEN": "s3'cr$et\nline \\n", "BIG": long, "bad name": "x", "NUL": "a\x00b", "UID": "7"}
	}
	o := b.run(`python3 -c 'import os; print(repr(os.environ["TOKEN"]), len(os.environ["BIG"]))'; echo TOKEN >/dev/null`)
	b.want(o, `"s3'cr$et\nline \\n" 12000`, 0)
	b.env.Secrets = nil
	o = b.run("history; echo ${#TOKEN}; echo \"[$HISTFILE]\"")
	b.want(o, "16\n[]", 0)
	b.run("stty echo")
	b.env.Secrets = func(string) map[string]string { return map[string]string{"TOKEN2": "visible"} }
	for range 2 {
		o = b.run("echo ${#TOKEN2}")
		b.want(o, "7", 0)
		if strings.Contains(o.model, "visible") {
			t.Errorf("the echo of a typed secret is shown: %q", o.model)
		}
	}
}

func TestBackgroundJobs(t *testing.T) {
	b := newBox(t, quick)
	fifo := filepath.Join(b.env.WorkingDir, "go")
	o := b.run("mkfifo " + fifo + "; { cat " + fifo + "; echo job done; } &")
	b.wantIn(o.text(), "[1] ")
	if o.Metadata.PID <= 0 {
		t.Errorf("pid %d of a background job", o.Metadata.PID)
	}
	b.want(b.run("echo front"), "front", 0)
	if err := os.WriteFile(fifo, []byte("released\n"), 0); err != nil {
		t.Fatal(err)
	}
	all := b.run("wait").model + b.run("jobs; echo next").model + b.run("echo last").model
	if strings.Count(all, "released\n") != 1 || !strings.Contains(all, "\njob done\n") {
		t.Errorf("the output of a job is not there exactly once: %q", all)
	}
}

func TestScreenPrograms(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run(`printf 'before\n\033[?1049h\033[2J\033[1;1Hframe one\033[5;3Hrow five\033[?1049lafter\n'`)
	b.want(o, "before\nafter", 0)
	o = b.run(`for i in 1 50 100; do printf '\r%3d%%' $i; done; echo; echo end`)
	b.want(o, "100%\nend", 0)
	o = b.run(`printf '\033[31mred\033[0m \033]0;title\a\033(Bplain\n'`)
	b.want(o, "red plain", 0)
	b.want(b.run("clear; echo seen"), "seen", 0)
}

// TestInterrupt: a cancelled run returns at once with the cause, and the shell
// goes on.
func TestInterrupt(t *testing.T) {
	stop := errors.New("the user stopped it")
	for _, command := range []string{
		"echo begun; sleep 1000",
		"echo begun; while :; do sleep 0.01; done",
		"echo begun; while :; do :; done",
		"echo begun; read x",
		"echo begun; cat",
		"echo begun; bash -c 'trap \"\" INT; while :; do sleep 0.1; done'",
		"echo begun; bash -c 'trap \"\" INT TERM; while :; do sleep 0.1; done'",
		"echo begun; sleep 1000 | cat",
		"echo begun; python3 -c 'import time; time.sleep(1000)'",
		"echo begun; python3 -c 'import tty, time; tty.setraw(0); time.sleep(1000)'",
		"echo begun; yes",
		"echo begun; vi </dev/tty >/dev/tty 2>&1",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run("cd /; A=kept")
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() {
				_, err := b.start(ctx, map[string]any{"command": command})
				done <- err
			}()
			b.awaitOutput("begun")
			began := time.Now()
			cancel(stop)
			if err := <-done; !errors.Is(err, stop) {
				t.Errorf("error %v, want the cause", err)
			}
			if took := time.Since(began); took > 5*time.Second { // one, if the machine is idle
				t.Errorf("took %v", took)
			}
			o, _ := b.soon("echo $A $PWD")
			b.want(o, "kept /", 0)
			b.want(b.run("echo once more"), "once more", 0)
		})
	}
}

// awaitOutput waits until the terminal printed text at the beginning of a line.
func (b *box) awaitOutput(text string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		out, err := b.env.Hands.ReadTerminal(ctx, "t-"+b.env.Label(), tool.TerminalRead{Wait: 10 * time.Second, Until: "\a" + text})
		if err == nil && strings.Contains(string(out.Data), "\a"+text) {
			return
		}
	}
	b.Fatalf("%q does not appear", text)
}

// TestInterruptBeforeStart: a context that is over runs nothing.
func TestInterruptBeforeStart(t *testing.T) {
	b := newBox(t, terminal.Config{})
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if _, err := b.start(ctx, map[string]any{"command": "touch ran"}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	b.want(b.run("ls"), "", 0)
}

// TestInterruptAnyTime: wherever an interrupt strikes, the next command runs.
func TestInterruptAnyTime(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("true")
	for i := range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*50*time.Microsecond)
		_, _ = b.start(ctx, map[string]any{"command": "echo interrupted; sleep 0.001"})
		cancel()
		text := fmt.Sprintf("run %d", i)
		o, _ := b.soon("echo " + text)
		b.want(o, text, 0)
	}
}

// lossy loses what is typed, once.
type lossy struct {
	tool.Hands
	lose bool
}

func (l *lossy) WriteTerminal(ctx context.Context, id string, data []byte) error {
	if l.lose {
		l.lose = false
		return nil
	}
	return l.Hands.WriteTerminal(ctx, id, data)
}

// TestLostCommand: a late interrupt makes the shell drop what was typed.
func TestLostCommand(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("echo first > log")
	b.env.Hands = &lossy{Hands: b.env.Hands, lose: true}
	b.want(b.run("echo once >> log; cat log"), "first\nonce", 0)
	b.env.Hands = &lossy{Hands: b.env.Hands, lose: true}
	o := b.call(map[string]any{"command": "echo twice >> log; cat log", "timeout": 0.01})
	b.want(b.ended(o), "first\nonce\ntwice", 0)
}

func TestServerRestart(t *testing.T) {
	b := newBox(t, quick)
	fifo := filepath.Join(b.env.WorkingDir, "go")
	b.run("mkfifo " + fifo + "; cd /; A=1; (exit 5)")

	b.connect(quick) // at the prompt
	b.want(b.run("echo $? $A $PWD"), "5 1 /", 0)

	b.left(b.call(map[string]any{"command": "echo begun; cat " + fifo + "; echo ended"}))
	b.connect(quick) // with a command running
	if o := b.call(map[string]any{"command": "echo no"}); !o.IsError {
		t.Errorf("a running command was not recognised: %s", o.model)
	}
	if err := os.WriteFile(fifo, []byte("released\n"), 0); err != nil {
		t.Fatal(err)
	}
	o := b.ended(b.call(map[string]any{"command": ""}))
	b.wantIn(o.text(), "released\nended")
	if o.ExitCode != 0 {
		t.Errorf("exit code %d", o.ExitCode)
	}

	b.left(b.call(map[string]any{"command": "cat " + fifo + "; exit 8"}))
	if err := os.WriteFile(fifo, []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	b.connect(quick) // while the shell ends
	o, _ = b.soon("echo $A new")
	b.want(o, "new", 0)
}

// TestRestartAfterHugeOutput: the begin marker has left the terminal's buffer.
func TestRestartAfterHugeOutput(t *testing.T) {
	b := newBox(t, quick)
	b.left(b.call(map[string]any{"command": "head -c 9000000 /dev/zero | tr '\\0' 'x'; cat", "timeout": 3}))
	b.connect(quick)
	if o := b.call(map[string]any{"command": "echo no"}); !o.IsError {
		t.Errorf("a running command was not recognised: %s", o.model)
	}
	if o := b.ended(b.input("C-d")); o.ExitCode != 0 {
		t.Errorf("C-d: %s", clip(o.model))
	}
	b.want(b.run("echo ready"), "ready", 0)
}

func TestWorkingDirectoryGone(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("rmdir " + b.env.WorkingDir)
	o := b.call(map[string]any{"command": "pwd", "reset": true})
	b.want(o, "/", 0)
}

func TestRefusedCommands(t *testing.T) {
	b := newBox(t, terminal.Config{})
	for _, args := range []string{
		`{"command":"a\u0000b"}`,
		`{"command":"` + strings.Repeat("x", terminal.MaxCommand+1) + `"}`,
		`{"command":"` + strings.Repeat("x", terminal.MaxInput+1) + `","is_input":true}`,
		`{"command":"x","timeout":-1}`,
		`{}`,
	} {
		if _, err := b.tool.Parse([]byte(args)); err == nil {
			t.Errorf("%s was accepted", clip(args))
		}
	}
}

// A sandbox that was started again has no terminal any more, also if a command ran
// in it: the first call afterwards must work.
func TestTerminalGoneWithARunningCommand(t *testing.T) {
	b := newBox(t, quick)
	for _, args := range []map[string]any{{"command": "echo after"}, {"command": ""}, {"command": "x", "is_input": true}} {
		b.left(b.call(map[string]any{"command": "echo before; sleep 300"}))
		if err := b.env.Hands.CloseTerminal(t.Context(), "t-"+b.env.Label()); err != nil {
			t.Fatal(err)
		}
		o := b.call(args)
		if args["command"] == "echo after" {
			b.want(o, "after", 0)
			continue
		}
		if !o.IsError {
			t.Errorf("%v: %s", args, o.model)
		}
		b.want(b.run("echo fine"), "fine", 0)
	}
}

// Legacy clients choose ids that are no names of anything.
func TestConversationWithAnOddID(t *testing.T) {
	b := newBox(t, quick)
	for _, id := range []string{"my conv", `it's "odd"`, "ünïcode", strings.Repeat("x", 100), "a:b", "."} {
		b.env.ConversationID = id
		b.want(b.run("echo "+fmt.Sprint(len(id))), fmt.Sprint(len(id)), 0)
		if err := b.env.Hands.CloseTerminal(t.Context(), "t-"+b.env.Label()); err != nil {
			t.Fatal(err)
		}
	}
}
