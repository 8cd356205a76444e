package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/internal/tool/terminal"
)

func TestDefaults(t *testing.T) {
	if terminal.DefaultSoftTimeout != 30*time.Second {
		t.Errorf("the soft time-out is %v", terminal.DefaultSoftTimeout)
	}
	b := newBox(t, terminal.Config{})
	b.want(b.run(`echo "$PAGER $GIT_PAGER $MANPAGER"; stty size`), "cat cat cat\n50 200", 0)
}

// TestPromptsAreNotShown: what a command makes the shell print before and after
// others is no output of theirs.
func TestPromptsAreNotShown(t *testing.T) {
	for _, command := range []string{
		"PS0='zero '", "PS1='$ '", "PROMPT_COMMAND=('echo one' 'echo two')", "shopt -u promptvars",
		"readonly PS1", "readonly PS1 PS2 PROMPT_COMMAND", "set -o history", "stty raw",
		"enable -n printf", "enable -n eval hash unset",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run(command)
			for _, text := range []string{"one", "two"} {
				o := b.run("echo " + text)
				b.want(o, text, 0)
				if o.Metadata.Prefix != "" || o.Metadata.WorkingDir != b.env.WorkingDir {
					t.Errorf("prefix %q, working directory %q", o.Metadata.Prefix, o.Metadata.WorkingDir)
				}
			}
			b.want(b.run("false"), "", 1)
		})
	}
}

// TestLongFirstCommand: the echo of what is typed into a new shell is not shown.
func TestLongFirstCommand(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("echo '" + strings.Repeat("\u4e2d", 100_000) + "' | wc -c")
	b.want(o, "300001", 0)
	if o.Metadata.Prefix != "" {
		t.Errorf("something was printed before: %q", clip(o.Metadata.Prefix))
	}
}

// TestDeafShell: a shell that cannot run commands any more is replaced, and the
// command runs once, in the new one.
func TestDeafShell(t *testing.T) {
	for _, command := range []string{
		"shopt -s extdebug; trap false DEBUG",
		"builtin() { :; }; printf() { :; }",
		"enable -n builtin",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run(command)
			o := b.run("/bin/echo ran >>log; /bin/cat log")
			b.want(o, "ran", 0)
			b.wantIn(o.Metadata.Prefix, "did not run commands any more")
			b.want(b.run("echo fine"), "fine", 0)
		})
	}
}

// TestDeafShellBetweenCalls: who asks for more output of a command that was never
// begun hears so, and nothing else is run in its place.
func TestDeafShellBetweenCalls(t *testing.T) {
	for _, args := range []map[string]any{{"command": ""}, {"command": "touch typed", "is_input": true}} {
		b := newBox(t, terminal.Config{})
		b.run("shopt -s extdebug; trap false DEBUG")
		b.left(b.call(map[string]any{"command": "touch ran", "timeout": 0.1}))
		o := b.call(args)
		if !o.IsError {
			t.Errorf("%v: %s", args, o.model)
		}
		b.wantIn(o.text(), "The earlier command was not run.")
		b.want(b.run("ls"), "", 0)
	}
}

// TestLastCode: a command sees the exit code of the one before and nothing of how it
// got there.
func TestLastCode(t *testing.T) {
	for _, mode := range []string{"true", "set -u", "trap 'echo trapped' ERR", "trap 'true' DEBUG", "set -o posix", "set -T", "shopt -s extdebug"} {
		b := newBox(t, terminal.Config{})
		b.run(mode)
		for _, code := range []int{0, 1, 2, 42, 127, 130, 255} {
			b.run(fmt.Sprintf("(exit %d)", code))
			o := b.run("echo $? $(declare -F _parley)\nset -e; true")
			b.want(o, fmt.Sprint(code), 0)
		}
	}
}

func TestOddCommands(t *testing.T) {
	b := newBox(t, terminal.Config{})
	for _, c := range []struct {
		command, output string
		code            int
	}{
		{"if true; then\r\n  echo x\r\nfi\r\n", "x", 0},
		{"cat <<E\r\na\r\nE", "a", 0},
		{"printf 'a\r\n'\necho b", "a\nb", 0}, // only one line ends so: it is meant
		{"echo '!!' !ls", "!! !ls", 0},
		{"!!", "bash: !!: command not found", 127},
		{"^a^b", "bash: ^a^b: command not found", 127},
		{"! true", "", 1},
		{"# only a comment", "", 0},
		{"echo a \\", `a \`, 0},
		{"&", "bash: syntax error near unexpected token `&'", 2},
		{"$(exit 4)", "", 4},
		{"mkdir gone && cd gone && rmdir ../gone; echo in", "in", 0},
		{"echo still in ${PWD##*/}", "still in gone", 0},
		{"cd " + b.env.WorkingDir, "", 0},
		{"unset PATH; ls", "bash: ls: No such file or directory", 127},
		{"PATH=/bin:/usr/bin; ls", "", 0},
		{"printf '\\033]0;no end'; printf '\\033P'; printf '\\033[?1049h'", "", 0},
		{"echo after", "after", 0},
	} {
		o := b.run(c.command)
		if c.output == "" {
			c.output = o.text()
		}
		b.want(o, c.output, c.code)
	}
	b.wantIn(b.run("cat <<EOF\nno end").text(), "no end")
	b.want(b.run("echo ok"), "ok", 0)
}

// TestNoisyBackground: a job that keeps the terminal and prints on and on is only
// heard, whatever runs meanwhile.
func TestNoisyBackground(t *testing.T) {
	b := newBox(t, terminal.Config{})
	b.run("sh -c 'while :; do echo noise; sleep 0.001; done' & disown; echo $! >job")
	for i := range 20 {
		o := b.run(fmt.Sprintf("sleep 0.01; echo front; (exit %d)", i))
		if text := strings.TrimSpace(strings.ReplaceAll(o.text(), "noise", "")); text != "front" || o.ExitCode != i {
			t.Fatalf("run %d: exit code %d, %q", i, o.ExitCode, clip(o.text()))
		}
	}
	o := b.run("exit 3") // the job loses its terminal, and nothing waits for it
	if o.ExitCode != 3 {
		t.Errorf("exit code %d", o.ExitCode)
	}
	b.want(b.run("echo new; kill $(cat job) 2>/dev/null; true"), "new", 0)
}

// TestOrphanKeepsTerminal: a shell ends although somebody else has its terminal.
func TestOrphanKeepsTerminal(t *testing.T) {
	b := newBox(t, terminal.Config{})
	began := time.Now()
	o := b.run("setsid sh -c 'trap \"\" HUP; echo $$ >pid; exec sleep 300' & until [ -s pid ]; do sleep 0.01; done; exit 7")
	if o.ExitCode != 7 || time.Since(began) > patience {
		t.Errorf("exit code %d after %v", o.ExitCode, time.Since(began))
	}
	b.want(b.run("kill -9 $(cat pid); echo new"), "new", 0)
}

func TestPagers(t *testing.T) {
	for _, c := range []struct{ program, command, shows string }{
		{"less", "seq 1 500 | less", "49"},
		{"more", "seq 1 500 | more", "40"},
		{"man", "man -P 'less -X' man", "man"},
	} {
		t.Run(c.program, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip(err)
			}
			b := newBox(t, quick)
			o := b.call(map[string]any{"command": c.command})
			if o.ExitCode == 16 {
				t.Skip("no manual pages here")
			}
			b.left(o)
			b.shows(o, c.shows)
			o = b.ended(b.input("q"))
			if o.IsError || o.ExitCode != 0 {
				t.Errorf("q: %s", clip(o.model))
			}
			b.want(b.run("echo ready"), "ready", 0)
		})
	}
}

// TestDrawing: of a full-screen program, each call shows the whole screen.
func TestDrawing(t *testing.T) {
	b := newBox(t, quick)
	o := b.call(map[string]any{"command": `printf '\033[?1049h\033[2J\033[1;1Htop left\033[9;3Hbottom'; read -s x; printf '\033[1;5HLEFT\033[4;1H'; read -s x; printf '\033[?1049l'; echo bye`})
	b.left(o)
	b.want(o, "top left\n  bottom", -1)
	o = b.input("x")
	b.left(o)
	b.want(o, "top LEFT\n  bottom", -1)
	b.want(b.ended(b.input("x")), "bye", 0)
	b.want(b.run("echo ready"), "ready", 0)
}

// TestRestlessPrograms: a program that draws for ever, or that answers a key with
// endless output, does not keep the caller.
func TestRestlessPrograms(t *testing.T) {
	b := newBox(t, quick)
	began := time.Now()
	o := b.call(map[string]any{"command": `i=0; while :; do printf '\033[Hframe %d\n' $((i++)); sleep 0.02; done`})
	b.left(o)
	o = b.call(map[string]any{"command": ""})
	b.left(o)
	b.wantIn(o.text(), "frame ")
	if took := time.Since(began); took > patience {
		t.Errorf("took %v", took)
	}
	if o = b.ended(b.input("C-c")); o.ExitCode != 130 {
		t.Errorf("C-c: %s", o.model)
	}
	b.left(b.call(map[string]any{"command": "read x; while :; do echo tick; sleep 0.02; done", "timeout": 0.3}))
	began = time.Now()
	b.left(b.input("go"))
	if took := time.Since(began); took > patience {
		t.Errorf("an input took %v", took)
	}
	b.ended(b.input("C-c"))
}

// TestKeyEndsLoop: an interrupt key that hits a short program between two others
// still ends the loop that they are in.
func TestKeyEndsLoop(t *testing.T) {
	b := newBox(t, terminal.Config{})
	for range 10 {
		b.left(b.call(map[string]any{"command": "while :; do /bin/true; done", "timeout": 0.05}))
		o := b.call(map[string]any{"command": "C-c", "is_input": true, "timeout": 30})
		if o.ExitCode != 130 || o.Timeout {
			t.Fatalf("C-c: %s", o.model)
		}
	}
	b.want(b.run("echo ready"), "ready", 0)
}

// TestKeyIsForTheProgram: what a program does with the key is its own business, and
// the list that it is in goes on.
func TestKeyIsForTheProgram(t *testing.T) {
	b := newBox(t, quick)
	o := b.call(map[string]any{"command": `python3 -uc '
import signal
signal.signal(signal.SIGINT, lambda *a: print("caught"))
print("go")
while input() != "end": pass
'; /bin/echo next; /bin/echo last`})
	b.left(o)
	b.shows(o, "go")
	b.shows(b.input("C-c"), "caught")
	b.shows(b.input("C-c"), "caught")
	b.want(b.ended(b.input("end")), "next\nlast", 0)
}

// TestInterruptTakesTheShell: where nothing else stops a command, its shell goes
// with it, and the next call says so.
func TestInterruptTakesTheShell(t *testing.T) {
	stop := errors.New("the user stopped it")
	for _, command := range []string{
		"trap '' INT; echo begun; while :; do :; done",
		"trap '' INT TERM HUP; echo begun; while :; do sleep 0.01; done",
		"exec bash -c 'trap \"\" INT TERM; echo begun; while :; do sleep 0.01; done'",
		"echo begun; kill -STOP $$",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run("echo $$ >shell; cd /")
			b.cancel(stop, command)
			o, _ := b.soon("pwd")
			b.want(o, b.env.WorkingDir, 0)
			b.wantIn(o.Metadata.Prefix, "could not be interrupted")
			b.want(b.run("kill -0 $(cat shell) 2>/dev/null || echo gone"), "gone", 0)
		})
	}
}

// TestInterruptKeepsTheShell: loops and lists end as a whole, and nothing of them
// comes later.
func TestInterruptKeepsTheShell(t *testing.T) {
	stop := errors.New("the user stopped it")
	for _, command := range []string{
		"echo begun; while :; do /bin/true; done",
		"echo begun; sleep 1000; echo later >later",
		"echo begun; bash -c 'trap \"\" INT; sleep 1000'; echo later >later",
		"echo begun; for i in 1 2 3 4 5 6 7 8 9; do bash -c 'trap \"\" INT TERM; sleep 1000'; echo later >later; done",
		"trap '' INT; echo begun; sleep 1000",
		"echo begun; (trap '' INT; sleep 1000) | cat",
	} {
		t.Run(command, func(t *testing.T) {
			b := newBox(t, terminal.Config{})
			b.run("A=kept")
			b.cancel(stop, command)
			o, _ := b.soon("echo $A; ls")
			b.want(o, "kept", 0)
		})
	}
}

// cancel runs a command that prints "begun", stops it then, and checks that the run
// ends at once.
func (b *box) cancel(cause error, command string) {
	b.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		_, err := b.start(ctx, map[string]any{"command": command})
		done <- err
	}()
	b.awaitOutput("begun")
	began := time.Now()
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		b.Errorf("error %v, want the cause", err)
	}
	if took := time.Since(began); took > 5*time.Second { // one, if the machine is idle
		b.Errorf("took %v", took)
	} else {
		b.Logf("%v: %s", took.Round(time.Millisecond), command)
	}
}
