package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/internal/extension"
	"parley/internal/fault"
)

func TestHostileTrees(t *testing.T) {
	laughs := "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]"
	secret := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(secret, []byte("TOP SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			name := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fifo := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			name := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), syscall.Mkfifo(name, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	sparse := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			name := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<30)); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { t.Helper(); write(t, dir, name, text) }
	}
	many := func(count int, size int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for i := range count {
				write(t, dir, fmt.Sprintf(".agents/skills/s%05d.md", i), strings.Repeat("x", size))
			}
		}
	}
	for _, c := range []struct {
		name     string
		make     func(*testing.T, string)
		skills   int
		problems int
		pins     int
	}{
		{"a link out of the place", link(secret, "AGENTS.md"), 0, 1, 0},
		{"a link out by dots", link("../../../../../../../../etc/passwd", "CLAUDE.md"), 0, 1, 0},
		{"a directory out of the place", link(filepath.Dir(secret), ".agents/skills"), 0, 0, 0},
		{"a directory inside itself", func(t *testing.T, dir string) {
			file(".agents/skills/a.md", "x")(t, dir)
			link(".", ".agents/skills/one")(t, dir)
			link("..", ".agents/skills/two")(t, dir)
		}, 3, 0, 0},
		{"a directory that is a file", file(".agents/skills", "x"), 0, 0, 0},
		{"a file that is a directory", file("AGENTS.md/x", "y"), 0, 1, 0},
		{"a link to itself", link("AGENTS.md", "AGENTS.md"), 0, 1, 0},
		{"a pipe where a file is expected", fifo("AGENTS.md"), 0, 1, 0},
		{"a pipe among skills", fifo(".agents/skills/a.md"), 0, 0, 0},
		{"a device", link("/dev/zero", "AGENTS.md"), 0, 1, 0},
		{"a sparse file", sparse("AGENTS.md"), 0, 1, 0},
		{"a sparse script", sparse(".openhands/setup.sh"), 0, 1, 0},
		{"a name with a line end", file(".agents/skills/a\nb.md", "x"), 0, 1, 0},
		{"a name with control characters", file(".agents/skills/\x1b[31m.md", "x"), 0, 1, 0},
		{"a name that writes from right to left", file(".agents/skills/\u202edm.md", "x"), 0, 1, 0},
		{"a name that is no UTF-8", file(".agents/skills/\xff.md", "x"), 0, 1, 0},
		{"billion laughs in a skill", file(".agents/skills/a.md", "---\n"+laughs+"\n---\n"), 0, 1, 0},
		{"billion laughs in an agent", file(".agents/agents/a.md", "---\n"+laughs+"\n---\nx"), 0, 1, 0},
		{"deep JSON", file(".openhands/hooks.json", strings.Repeat("[", 200_000)), 0, 1, 0},
		{"no text", file("AGENTS.md", "\xff\xfe\x00"), 0, 1, 0},
		{"ten thousand files", many(10_000, 1), 500, 2, 0},
		{"more bytes than may be", many(30, 250<<10), 16, 1, 0},
		{"a file that runs and is too large", func(t *testing.T, dir string) {
			file(".openhands/hooks.json", `{"stop":[{"hooks":[{"command":"./big"}]}]}`)(t, dir)
			sparse("big")(t, dir)
		}, 0, 1, 1},
		{"a hook that names a pipe and what is elsewhere", func(t *testing.T, dir string) {
			file(".openhands/hooks.json", `{"stop":[{"hooks":[{"command":"./pipe ./out ../x /etc/passwd"}]}]}`)(t, dir)
			fifo("pipe")(t, dir)
			link(secret, "out")(t, dir)
		}, 0, 0, 0},
		{"a hook of many words", file(".openhands/hooks.json", `{"stop":[{"hooks":[{"command":"`+words(1500)+`"}]}]}`), 0, 1, 0},
		{"a hook that nests", file(".openhands/hooks.json", `{"stop":[{"hooks":[{"command":"`+strings.Repeat("$(", 8000)+`"}]}]}`), 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			b := repository(t, dir)
			if len(b.Skills) != c.skills || len(b.Problems) != c.problems || len(b.Pins) != c.pins {
				t.Errorf("%d skills, pins %v, problems %v", len(b.Skills), b.Pins, b.Problems)
			}
			for _, s := range b.Skills {
				if strings.Contains(s.Content, "SECRET") {
					t.Errorf("%+v", s)
				}
			}
			for _, p := range b.Problems {
				if strings.ContainsAny(p.File+p.Text, "\n\x1b\u202e") || len(p.Text) > 1000 || strings.Contains(p.Text, dir) {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

func TestTooManyProblemsAreCounted(t *testing.T) {
	files := map[string]string{}
	for i := range 150 {
		files[fmt.Sprintf(".agents/skills/s%d.md", i)] = "---\n["
	}
	if b := repository(t, tree(t, files)); len(b.Problems) != 101 {
		t.Errorf("%d problems", len(b.Problems))
	}
}

func TestAPlaceThatGoesAwayIsAnError(t *testing.T) {
	dir := tree(t, project())
	closed, err := extension.DirTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := extension.LoadRepository(t.Context(), closed, asRepository); !fault.Is(err, fault.Unavailable) || len(b.Skills) > 0 {
		t.Errorf("a closed directory: %v", err)
	}
	stopped, stop := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	stop(cause)
	if _, err := extension.LoadRepository(stopped, open(t, dir), asRepository); !errors.Is(err, cause) {
		t.Errorf("a context that ended: %v", err)
	}
	if _, err := extension.DirTree(filepath.Join(dir, "none")); !fault.Is(err, fault.NotFound) {
		t.Errorf("no directory: %v", err)
	}
	// The sandbox goes after so many answers, whatever is asked then.
	gone := fault.New(fault.Unavailable, "sandbox_gone", "The sandbox is gone.")
	shelf := tree(t, map[string]string{"word/SKILL.md": named("word"), "word/a": "", "skills/pdf/SKILL.md": agentSkill, "skills/pdf/scripts/a": "x",
		"plugins/p/plugin.json": `{"name":"p"}`, "plugins/p/SKILL.md": named("own"), "plugins/p/b": ""})
	for name, load := range map[string]func(files extension.Remote) error{
		"repository": func(files extension.Remote) error {
			_, err := extension.LoadRepository(t.Context(), extension.RemoteTree(dir, files), asRepository)
			return err
		},
		"collection": func(files extension.Remote) error {
			_, err := extension.LoadCollection(t.Context(), extension.RemoteTree(shelf, files), asShelf)
			return err
		},
	} {
		for answers := 0; ; answers++ {
			left := answers
			err := load(limited(&left, gone))
			if left >= 0 && err == nil {
				break // it was never asked for more
			}
			if !errors.Is(err, gone) {
				t.Fatalf("%s after %d answers: %v", name, answers, err)
			}
		}
	}
}

// limited are files that give so many answers, and gone then.
func limited(left *int, gone error) extension.Remote {
	files := remote()
	spend := func() error {
		if *left--; *left < 0 {
			return gone
		}
		return nil
	}
	return extension.Remote{
		Real: func(ctx context.Context, p string) (string, bool, error) {
			if err := spend(); err != nil {
				return "", false, err
			}
			return files.Real(ctx, p)
		},
		List: func(ctx context.Context, p string, depth, max int) ([]extension.Entry, error) {
			if err := spend(); err != nil {
				return nil, err
			}
			return files.List(ctx, p, depth, max)
		},
		Find: func(ctx context.Context, p, pattern string, max int) ([]string, error) {
			if err := spend(); err != nil {
				return nil, err
			}
			return files.Find(ctx, p, pattern, max)
		},
		Read: func(ctx context.Context, p string, max int64) ([]byte, error) {
			if err := spend(); err != nil {
				return nil, err
			}
			return files.Read(ctx, p, max)
		},
	}
}

func TestDirectoriesAreListedInOrderAndBounded(t *testing.T) {
	d := open(t, tree(t, map[string]string{"b": "", "a/c": "", "a/d/e": "", "a/d/f/g": "", "z.md": ""}))
	for _, c := range []struct {
		dir        string
		depth, max int
		want       []string
	}{
		{"", 1, 10, []string{"b", "z.md"}},
		{"", 2, 10, []string{"a/c", "b", "z.md"}},
		{"", 9, 10, []string{"a/c", "a/d/e", "a/d/f/g", "b", "z.md"}},
		{"", 9, 2, []string{"b", "z.md"}},
		{"a", 1, 10, []string{"a/c"}},
		{"none", 1, 10, nil},
		{"../..", 1, 10, nil},
		{"b", 1, 10, nil},
		{"", 0, 10, nil},
	} {
		if got, err := d.List(t.Context(), c.dir, c.depth, c.max); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q at most %d deep and %d: %v %v", c.dir, c.depth, c.max, got, err)
		}
	}
	if _, err := d.Find(t.Context(), "", 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("a bad pattern: %v", err)
	}
	if _, err := d.Read(t.Context(), "../x", 1); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a path out: %v", err)
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := d.List(ended, "", 9, 9); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func FuzzPlugin(f *testing.F) {
	f.Add([]byte(`{"name":"a","skills":["./x"],"hooks":{"Stop":[{"hooks":[{"command":"${CLAUDE_PLUGIN_ROOT}/a"}]}]},"mcpServers":{"s":{"command":"x","args":["${p}"]}}}`))
	f.Add([]byte(`{"name":"a","hooks":"./a.json","commands":"x.md","mcpServers":["a","b"]}`))
	f.Add([]byte(`{"hooks":{"hooks":{"PreCompact":[]}}}`))
	f.Add([]byte("{\n\"plugins\":[{\"source\":\"./plugins/a\"}],\"metadata\":{\"pluginRoot\":\"..\"}}"))
	f.Add([]byte("---\nname: a\n---\n!`x`"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, dir, "SKILL.md", string(data))
		write(t, dir, "plugin.json", string(data))
		write(t, dir, "hooks/hooks.json", string(data))
		write(t, dir, ".mcp.json", string(data))
		write(t, dir, ".plugin/marketplace.json", string(data))
		opt := extension.Options{Subject: "s", Root: "/p/x", Parameters: map[string]any{"p": "v"}}
		b, err := extension.LoadPlugin(t.Context(), open(t, dir), opt)
		if err != nil {
			t.Fatal(err)
		}
		check(t, b)
		for _, opt := range []extension.Options{opt, asShelf} {
			for _, b := range collection(t, dir, opt) {
				check(t, b)
			}
		}
	})
}

// check looks at what holds for every bundle.
func check(t *testing.T, b extension.Bundle) {
	t.Helper()
	if b.Hash != extension.Hash(b) || extension.Hash(extension.Strip(b)) != "" || len(b.Problems) > 101 || len(b.Runs()) > 50 {
		t.Fatalf("%+v", b)
	}
	if (b.Hash != "") != (len(b.Runs()) > 0) {
		t.Fatalf("the hash is %q, and what runs is %q", b.Hash, b.Runs())
	}
	for _, p := range b.Problems {
		if p.Text == "" || p.Line < 0 || strings.ContainsAny(p.File+p.Text, "\n\x00\x1b") {
			t.Fatalf("%+v", p)
		}
	}
	for _, p := range b.Pins {
		if b.Root != "" && !strings.HasPrefix(p.Path, b.Root+"/") || b.Root == "" && !fs.ValidPath(p.Path) {
			t.Fatalf("%+v", p)
		}
	}
	for _, s := range b.Skills {
		for _, f := range s.Files {
			if !fs.ValidPath(f.Name) || len(f.Data) > 1<<20 || strings.ContainsAny(f.Name, "\n\x00\x1b") {
				t.Fatalf("%+v", f)
			}
		}
	}
}

func FuzzHookCommand(f *testing.F) {
	for _, command := range []string{"./a.sh", `bash -c "x 'a.sh'"`, "$(", "a <<E\nb\nE", "${OPENHANDS_PROJECT_DIR:-x}/a.sh", `"`} {
		f.Add(command)
	}
	dir := f.TempDir()
	write(f, dir, "a.sh", "x")
	f.Fuzz(func(t *testing.T, command string) {
		raw, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, ".openhands/hooks.json", `{"stop":[{"hooks":[{"command":`+string(raw)+`}]}]}`)
		check(t, repository(t, dir))
	})
}
