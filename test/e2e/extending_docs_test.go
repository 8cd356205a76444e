package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parley/test/testkit/parleytest"
)

// docPart is a file of docs/extending.md with the name in the sentence before it, or
// commands.
var docPart = regexp.MustCompile("(?s)(?:\n[^\n`]*`([\\w./-]+\\.(?:md|json|js|sh))`[^\n]*:\n\n```(?:markdown|bash|json|js)\n(.*?)\n```\n)|(?:\n```sh\n(.*?)```\n)")

// docExpect are words of the commands in docs/extending.md with what must be in what
// such commands print, and what must not.
var docExpect = []struct{ commands, printed, not string }{
	{"echo the database", "report: agentskills", "failed"},
	{"echo the database", "release-notes: knowledge", ""},
	{"echo the database", "\ndatabase\n", ""},
	{"echo the database", "Change its schema only through files in migrations/.", ""},
	{"echo the database", "Pages in web/ are plain HTML, without scripts.", ""},
	{"echo the database", "commands of skills do not run here", ""},
	{"echo the database", "scripts/week.sh", ""},
	{"skills/search", `"name":"invoice"`, `"code"`},
	{"disabled_skills", "Settings stored", "detail"},
	{"run: git push", "hook PreToolUse terminal: sh .openhands/guard.sh", ""},
	{"run: git push", `{"success":true}`, ""},
	{"run: git push", "(Nothing is pushed from here: open a merge request.)", ""},
	{"HookExecutionEvent", `"blocked": true`, ""},
	{"HookExecutionEvent", `"source":"repository"`, ""},
	{"--data-urlencode", `{"success":true}`, "not_found"},
	{"read_ticket {", "Ticket 7: the login page is slow.", "did not run"},
	{"mcp/test", `"tool_result"`, ""},
	{"mcp/test", "adds \\\"127.0.0.1:9\\\" to mcp_allow", ""},
	{"reviewer", "* task ", "There is no agent"},
	{"reviewer", "ran `ls -a .agents`", "There is no task"},
	{"/changelog", "house:changelog /house:changelog /changelog", ""},
	{"/changelog", `hook PostToolUse file_editor: sh /workspace/project/house/hooks/log.sh note`, ""},
	{"TICKETS_TOKEN", "the token is <secret-hidden>", "t-0123456789"},
	{"skill-collections", "org:house=", ""},
}

// docScript writes the files and runs the commands of the document, one part after the
// other. What a part prints comes after its number.
func docScript(t *testing.T, doc string) (script string, commands []string) {
	t.Helper()
	var b strings.Builder
	files := 0
	for _, part := range docPart.FindAllStringSubmatch(doc, -1) {
		if name, text := part[1], part[2]; name != "" {
			files++
			fmt.Fprintf(&b, "mkdir -p %s\ncat > %s <<'END OF THE FILE'\n%s\nEND OF THE FILE\n", filepath.Dir(name), name, text)
			continue
		}
		fmt.Fprintf(&b, "echo '== part %d'\n%s\n", len(commands), part[3])
		commands = append(commands, part[3])
	}
	if files != 14 || len(commands) != 15 {
		t.Errorf("%d files and %d commands in the document", files, len(commands))
	}
	return b.String(), commands
}

// What docs/extending.md tells users to write and to run works as it says there.
func TestTheExamplesOfTheDocumentationOfExtensions(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq", "git", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: the examples use %s, which is not on this machine", program)
		}
	}
	doc, err := os.ReadFile("../../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	s := parleytest.Start(t, parleytest.Options{Demo: true})
	dir, bin := tracesDir(t), t.TempDir()
	if err := os.Symlink(parleytest.Binary(t), filepath.Join(bin, "parley")); err != nil {
		t.Fatal(err)
	}
	script, commands := docScript(t, strings.NewReplacer("KEY=... ", "KEY="+parleytest.Key+" ", "PARLEY=http://127.0.0.1:3000", "PARLEY="+s.URL).Replace(string(doc)))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "PARLEY_SERVER=" + s.URL, "PARLEY_API_KEY=" + parleytest.Key}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the commands: %v", err)
	}
	_, rest, _ := strings.Cut(string(out), "== part 0\n")
	printed := make([]string, len(commands))
	for i := range printed {
		printed[i], rest, _ = strings.Cut(rest, fmt.Sprintf("== part %d\n", i+1))
	}
	for _, e := range docExpect {
		known := false
		for i, text := range printed {
			if !strings.Contains(commands[i], e.commands) {
				continue
			}
			known = true
			if !strings.Contains(text, e.printed) || e.not != "" && strings.Contains(text, e.not) {
				t.Errorf("these commands did not print %q, or printed %q:\n%s\nbut:\n%s", e.printed, e.not, commands[i], text)
			}
		}
		if !known {
			t.Errorf("there are no commands with %q in the document", e.commands)
		}
	}
}
