package terminal_test

import (
	"strings"
	"testing"

	"parley/internal/tool/terminal"
)

func TestCommands(t *testing.T) {
	b := newBox(t, terminal.Config{})
	work := b.env.WorkingDir
	for _, c := range []struct {
		command, output string
		code            int
	}{
		{"true", "", 0},
		{"false", "", 1},
		{"echo $?", "1", 0},
		{"(exit 42)", "", 42},
		{"echo $?; echo $?", "42\n0", 0},
		{"pwd", work, 0},
		{"mkdir d; cd d; export A='1 2'", "", 0},
		{`echo "$A" "$PWD"`, "1 2 " + work + "/d", 0},
		{"cd ..", "", 0},
		{"echo out; echo err >&2", "out\nerr", 0},
		{"f() {\n  local x=$1\n  echo \"<$x>\"\n  return 7\n}\nf 'a  b'", "<a  b>", 7},
		{"f again", "<again>", 7},
		{"declare -A m; m[k]=v", "", 0},
		{"echo ${m[k]}", "v", 0},
		{"alias hi='echo hi there'", "", 0},
		{"hi", "hi there", 0},
		{"cat <<'E'\na $b `c`\n\tTab\nE\necho after", "a $b `c`\n\tTab\nafter", 0},
		{"cat <<E | tr a-z A-Z\n$A\nx\nE", "1 2\nX", 0},
		{"echo one\n\n# a comment\necho two # more\n", "one\ntwo", 0},
		{"for i in 1 2 3; do\n  echo $i\ndone", "1\n2\n3", 0},
		{`echo 'it'"'"'s' "a \"b\" \\ !x" $'t\tn' '!!' $((1+2))`, "it's a \"b\" \\ !x t\tn !! 3", 0},
		{"echo \u00fc \u4e2d\u6587 \U0001F600", "\u00fc \u4e2d\u6587 \U0001F600", 0},
		{"echo a\\\nb", "ab", 0},
		{"printf 'no newline'", "no newline", 0},
		{"printf 'x\\n\\n\\n'", "x", 0},
		{"printf '\\n\\n  lead\\n'", "\n\n  lead", 0},
		{"echo 'tab\there' \"ctrl\x01\x02char\" | tr -d '\\001\\002'", "tab\there ctrlchar", 0},
		{"nosuchprogram", "bash: nosuchprogram: command not found", 127},
		{"echo 'unclosed", "bash: unexpected EOF while looking for matching `''", 2},
		{"if true; then", "bash: syntax error: unexpected end of file", 2},
		{"echo still here", "still here", 0},
		{"sh -c 'kill -TERM $$'", "Terminated", 143},
		{"sh -c 'kill -INT $$'", "", 130},
		{"echo alive", "alive", 0},
		{"{ sleep 0.01; echo bg; } & wait", "", 0},
		{"cd /nowhere || cd " + work, "bash: cd: /nowhere: No such file or directory", 0},
		{"read x <<<value; echo $x", "value", 0},
		{"echo piped | while read l; do echo got $l; done", "got piped", 0},
		{"return 5", "bash: return: can only `return' from a function or sourced script", 2},
		{"-x", "bash: -x: command not found", 127},
	} {
		o := b.run(c.command)
		if strings.Contains(c.command, "& wait") { // job numbers vary
			b.wantIn(o.text(), "bg")
			continue
		}
		if c.output == "Terminated" {
			b.wantIn(o.text(), "Terminated")
			b.want(o, o.text(), c.code)
			continue
		}
		b.want(o, c.output, c.code)
		if o.Metadata.WorkingDir == "" || o.Metadata.ExitCode != c.code || o.Metadata.Username == "" {
			t.Errorf("%q: metadata %+v", c.command, o.Metadata)
		}
	}
}

func TestModelText(t *testing.T) {
	b := newBox(t, terminal.Config{})
	o := b.run("echo hi; false")
	want := "hi\n[The command completed with exit code 1.]\n[Current working directory: " + b.env.WorkingDir + "]"
	if o.model != want {
		t.Errorf("the model reads %q, want %q", o.model, want)
	}
	o = b.run("true")
	want = "[The command completed with exit code 0.]\n[Current working directory: " + b.env.WorkingDir + "]"
	if o.model != want {
		t.Errorf("the model reads %q, want %q", o.model, want)
	}
}
