package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// tree writes files below a new directory.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *extension.Dir {
	t.Helper()
	d, err := extension.DirTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

var asRepository = extension.Options{Level: skill.LevelProject, Subject: "repository x", Root: "/workspace/project"}

func repository(t testing.TB, dir string) extension.Bundle {
	t.Helper()
	b, err := extension.LoadRepository(t.Context(), open(t, dir), asRepository)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plugin(t testing.TB, dir string, parameters map[string]any) extension.Bundle {
	t.Helper()
	b, err := extension.LoadPlugin(t.Context(), open(t, dir), extension.Options{Level: skill.LevelPlugin, Subject: "plugin x",
		Root: "/plugins/dirname", Parameters: parameters})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func skillNames(b extension.Bundle) []string {
	var names []string
	for _, s := range b.Skills {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func find(t *testing.T, b extension.Bundle, name string) skill.Skill {
	t.Helper()
	for _, s := range b.Skills {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no skill %q among %v; problems %v", name, skillNames(b), b.Problems)
	return skill.Skill{}
}

const (
	agentSkill = "---\nname: pdf\ndescription: Reads PDFs.\n---\nRead it."
	hooksJSON  = `{"hooks": {"PreToolUse": [{"matcher": "terminal", "hooks": [{"command": "bash .openhands/guard.sh --strict"}]}]}}`
)

func project() map[string]string {
	return map[string]string{
		"AGENTS.md": "Use tabs.", "agent.md": "Not read: AGENTS.md is.", "CLAUDE.md": "For Claude.", "GEMINI.md": "For Gemini.", ".cursorrules": "Rules.",
		".openhands_instructions": "Old notes.", "web/AGENTS.md": "Use React.", "a/b/c/d/e/f/g/AGENTS.md": "Too deep.", "node_modules/x/AGENTS.md": "No.",
		".hidden/AGENTS.md": "No.", "README.md": "No skill.",
		".agents/skills/pdf/SKILL.md": agentSkill, ".agents/skills/pdf/references/a.md": "Details.", ".agents/skills/pdf/scripts/run.py": "print()",
		".agents/skills/pdf/notes.md": "Of the skill.", ".agents/skills/README.md": "No skill.", ".agents/skills/deploy.md": "From agents.",
		".openhands/skills/deploy.md": "From skills.", ".openhands/microagents/deploy.md": "---\ntriggers: [deploy]\n---\nFrom microagents.",
		".openhands/microagents/lang/go.md": "---\ntriggers: [golang]\n---\nGo.", ".openhands/microagents/tool.md": "---\nmcp_tools:\n  stdio_servers:\n    - {name: fetch, command: uvx, args: [x]}\n---\nT.",
		".agents/agents/reviewer.md": "---\nname: reviewer\ndescription: Old.\n---\nReview.", ".openhands/agents/rev.md": "---\nname: Reviewer\ndescription: New.\n---\nReview.",
		".openhands/agents/README.md": "No agent.", ".openhands/hooks.json": hooksJSON, ".openhands/guard.sh": "exit 0\n", ".openhands/setup.sh": "make deps\n",
		".openhands/memory/MEMORY.md": "Tests need a database.\n", ".mcp.json": `{"mcpServers":{"evil":{"command":"x"}}}`,
	}
}

func TestRepository(t *testing.T) {
	b := repository(t, tree(t, project()))
	if len(b.Problems) > 0 {
		t.Errorf("problems %+v", b.Problems)
	}
	want := []string{"agents", "claude", "cursorrules", "deploy", "gemini", "lang/go", "pdf", "repo_legacy", "tool", "web/agents"}
	if got := skillNames(b); !slices.Equal(got, want) {
		t.Errorf("skills %v\n  want %v", got, want)
	}
	if s := find(t, b, "agents"); s.Content != "Use tabs." || s.Source != "/workspace/project/AGENTS.md" || s.Level != skill.LevelProject {
		t.Errorf("%+v", s)
	}
	if s := find(t, b, "deploy"); s.Content != "From microagents." || !slices.Equal(s.Triggers, []string{"deploy"}) {
		t.Errorf("the last directory does not count: %+v", s)
	}
	if s := find(t, b, "pdf"); s.Root != "/workspace/project/.agents/skills/pdf" || !slices.Equal(s.Resources, []string{"references/a.md", "scripts/run.py"}) || s.Trusted {
		t.Errorf("%+v", s)
	}
	if s := find(t, b, "tool"); s.MCP == nil || len(s.MCP.Stdio) != 1 {
		t.Errorf("%+v", s)
	}
	if len(b.Agents) != 1 || b.Agents[0].Description != "New." || b.Agents[0].Level != subagent.LevelProject || b.Agents[0].Source != "/workspace/project/.openhands/agents/rev.md" {
		t.Errorf("agents %+v", b.Agents)
	}
	if b.Servers != nil || b.Memory != "" || b.Name != "repository" || !slices.Equal(b.Scripts, []string{".openhands/setup.sh"}) || len(b.Hooks.PreToolUse) != 1 {
		t.Errorf("%+v", b)
	}
	var pinned []string
	for _, p := range b.Pins {
		pinned = append(pinned, p.Path)
	}
	if !slices.Equal(pinned, []string{"/workspace/project/.openhands/setup.sh", "/workspace/project/.openhands/guard.sh"}) {
		t.Errorf("pins %v", b.Pins)
	}
	if want := []string{"script .openhands/setup.sh", "hook PreToolUse terminal: bash .openhands/guard.sh --strict", "skill tool: server fetch: uvx x"}; !slices.Equal(b.Runs(), want) {
		t.Errorf("runs %q", b.Runs())
	}
	if b.Hash == "" || b.Hash != extension.Hash(b) {
		t.Errorf("hash %q", b.Hash)
	}
}

func TestMemoryOnlyWhereItIsAskedFor(t *testing.T) {
	opt := asRepository
	opt.Memory = true
	dir := tree(t, project())
	b, err := extension.LoadRepository(t.Context(), open(t, dir), opt)
	if err != nil || b.Memory != "Tests need a database." {
		t.Errorf("%q %v", b.Memory, err)
	}
	write(t, dir, ".openhands/memory/MEMORY.md", strings.Repeat("\u00e9", 60_000))
	if b, err = extension.LoadRepository(t.Context(), open(t, dir), opt); err != nil || len(b.Memory) != 64<<10 || len(b.Problems) != 1 {
		t.Errorf("%d bytes, %+v %v", len(b.Memory), b.Problems, err)
	}
}

func TestEmptyRepositoryHasNothingToAsk(t *testing.T) {
	b := repository(t, tree(t, nil))
	if b.Hash != "" || len(b.Skills)+len(b.Problems)+len(b.Runs()) > 0 {
		t.Errorf("%+v", b)
	}
	if approved, ask := extension.Approve(b, nil); !approved || ask {
		t.Errorf("approved %v, ask %v", approved, ask)
	}
}

func TestBrokenFilesAreProblemsWithTheirLine(t *testing.T) {
	files := map[string]string{
		"AGENTS.md":                   "Good.",
		".agents/skills/bad/SKILL.md": "---\nname: other\n---\nx", ".agents/skills/worse.md": "---\na: [\n",
		".agents/agents/bad.md": "---\nname: x\npermission_mode: yolo\n---\nx",
		".openhands/hooks.json": "{\n  \"hooks\": {\n    \"stop\": [\n      {\"hooks\": [{\"timeout\": -1, \"command\": \"x\"}]}\n    ]\n  }\n}",
	}
	b := repository(t, tree(t, files))
	got := map[string]int{}
	for _, p := range b.Problems {
		got[p.File] = p.Line
		if p.Text == "" {
			t.Errorf("%+v", p)
		}
	}
	want := map[string]int{".agents/skills/bad/SKILL.md": 2, ".agents/skills/worse.md": 1, ".agents/agents/bad.md": 3, ".openhands/hooks.json": 4}
	if !maps.Equal(got, want) || !slices.Equal(skillNames(b), []string{"agents"}) {
		t.Errorf("problems %v\n  want %v", b.Problems, want)
	}
	b = repository(t, tree(t, map[string]string{".openhands/hooks.json": "{\n\"stop\": [}\n"}))
	if len(b.Problems) != 1 || b.Problems[0].Line != 2 {
		t.Errorf("%+v", b.Problems)
	}
}

func TestPlugin(t *testing.T) {
	b := plugin(t, tree(t, map[string]string{
		".claude-plugin/plugin.json":      `{"name":"city-weather","version":"1.0.0","commands":["./extra/later.md","../../etc"],"author":{"name":"x"}}`,
		"skills/pdf/SKILL.md":             strings.Replace(agentSkill, "Read it.", "See ${CLAUDE_PLUGIN_ROOT}/a.txt", 1),
		"commands/now.md":                 "---\ndescription: Weather now.\nargument-hint: [city]\n---\nWeather of $ARGUMENTS.",
		"commands/deep/other.md":          "Other.",
		"commands/README.md":              "No command.",
		"extra/later.md":                  "Later.",
		"agents/forecaster.md":            "---\nname: forecaster\nhooks: {Stop: [{hooks: [{command: '${CLAUDE_PLUGIN_ROOT}/stop.sh ${city}'}]}]}\n---\nForecast.",
		"stop.sh":                         "exit 0",
		"hooks/hooks.json":                "{\"description\": \"d\", \"hooks\": {\n \"Notification\": [],\n \"PostToolUse\": [{\"matcher\": \"edit\", \"hooks\": [{\"type\": \"command\", \"command\": \"\\\"$CLAUDE_PLUGIN_ROOT\\\"/fmt.sh ${mode} ${unsafe} ${OTHER}\"}]}]}}",
		"fmt.sh":                          "gofmt",
		".mcp.json":                       `{"mcpServers":{"weather":{"command":"node","args":["${PLUGIN_ROOT}/server.js","--key=${unsafe}"],"env":{"KEY":"${API_KEY}","CITY":"${city:-Rome}"}},"web":{"type":"http","url":"https://${city}.example.com/mcp","headers":{"X-Key":"${city}"}},"bad":{"command":"a b"}}}`,
		"server.js":                       "listen()",
		".claude-plugin/marketplace.json": `{}`,
	}), map[string]any{"mode": "fast", "city": "Oslo", "unsafe": "a; rm -rf /", "CLAUDE_PLUGIN_ROOT": "/elsewhere", "list": []any{1}})
	if b.Name != "plugin city-weather" {
		t.Errorf("name %q", b.Name)
	}
	if got, want := skillNames(b), []string{"city-weather:later", "city-weather:now", "city-weather:other", "pdf"}; !slices.Equal(got, want) {
		t.Errorf("skills %v", got)
	}
	now := find(t, b, "city-weather:now")
	if !slices.Equal(now.Triggers, []string{"/city-weather:now", "/now"}) || now.Description != "Weather now." || now.Content != "Weather of $ARGUMENTS." {
		t.Errorf("%+v", now)
	}
	if s := find(t, b, "pdf"); !strings.Contains(s.Content, "/plugins/dirname/a.txt") {
		t.Errorf("%+v", s)
	}
	if got := b.Hooks.PostToolUse[0].Hooks[0].Command; got != `"/plugins/dirname"/fmt.sh fast ${unsafe} ${OTHER}` {
		t.Errorf("command %q", got)
	}
	if len(b.Agents) != 1 || b.Agents[0].Hooks.Stop[0].Hooks[0].Command != "/plugins/dirname/stop.sh Oslo" {
		t.Errorf("agents %+v", b.Agents)
	}
	s := b.Servers.Stdio[0]
	if !slices.Equal(s.Args, []string{"/plugins/dirname/server.js", "--key=a; rm -rf /"}) || s.Env["KEY"].Reveal() != "${API_KEY}" || s.Env["CITY"].Reveal() != "Oslo" {
		t.Errorf("%+v %q", s.Args, s.Env["CITY"].Reveal())
	}
	if w := b.Servers.SHTTP[0]; w.URL != "https://Oslo.example.com/mcp" || w.Headers["X-Key"].Reveal() != "Oslo" {
		t.Errorf("%+v", w)
	}
	var pinned []string
	for _, p := range b.Pins {
		pinned = append(pinned, p.Path)
	}
	slices.Sort(pinned)
	if !slices.Equal(pinned, []string{"/plugins/dirname/fmt.sh", "/plugins/dirname/server.js", "/plugins/dirname/stop.sh"}) {
		t.Errorf("pins %v", pinned)
	}
	var problems []string
	for _, p := range b.Problems {
		problems = append(problems, p.File+" "+p.Text)
	}
	all := strings.Join(problems, "\n")
	for _, part := range []string{"../../etc", "Notification", "mcpServers.bad.command", `"unsafe" is not put`, `"list"`} {
		if !strings.Contains(all, part) {
			t.Errorf("no problem about %s in\n%s", part, all)
		}
	}
	if len(problems) != 5 {
		t.Errorf("problems\n%s", all)
	}
}

func TestPluginManifests(t *testing.T) {
	for _, c := range []struct {
		name     string
		files    map[string]string
		want     string
		problems int
	}{
		{"none", nil, "plugin dirname", 0},
		{"at the top", map[string]string{"plugin.json": `{"name":"a"}`}, "plugin a", 0},
		{"the first", map[string]string{".plugin/plugin.json": `{"name":"b"}`, ".claude-plugin/plugin.json": `{"name":"c"}`}, "plugin b", 0},
		{"no JSON", map[string]string{"plugin.json": "{\n!"}, "plugin dirname", 1},
		{"a bad name", map[string]string{"plugin.json": `{"name":"../x"}`}, "plugin dirname", 1},
		{"no name", map[string]string{"plugin.json": `{}`}, "plugin dirname", 1},
		{"wrong paths", map[string]string{"plugin.json": `{"name":"a","skills":7}`}, "plugin a", 1},
	} {
		if b := plugin(t, tree(t, c.files), nil); b.Name != c.want || len(b.Problems) != c.problems {
			t.Errorf("%s: %q %v", c.name, b.Name, b.Problems)
		}
	}
	b := plugin(t, tree(t, map[string]string{"plugin.json": `{"name":"a","hooks":{"Stop":[{"hooks":[{"command":"./x"}]}]},"mcpServers":{"s":{"command":"y"}},"skills":"./more","agents":"./one.md"}`,
		"more/z.md": "Z.", "one.md": "One."}), nil)
	if len(b.Hooks.Stop) != 1 || b.Servers == nil || len(b.Skills) != 1 || len(b.Agents) != 1 {
		t.Errorf("inline members: %+v", b)
	}
	for _, root := range []string{"", "relative", "/a b", "/a$(x)", "/a'"} {
		_, err := extension.LoadPlugin(t.Context(), open(t, t.TempDir()), extension.Options{Root: root})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("the root %q: %v", root, err)
		}
	}
}

func TestCollection(t *testing.T) {
	files := map[string]string{
		"skills/pdf/SKILL.md": agentSkill, "microagents/a.md": "A.", "agents/x.md": "X.", ".openhands/hooks.json": hooksJSON,
		"plugins/one/plugin.json": `{"name":"one"}`, "plugins/one/hooks/hooks.json": hooksJSON, "plugins/two/.claude-plugin/plugin.json": `{"name":"two"}`,
		"plugins/two/commands/go.md": "Go.", "plugins/none/a.md": "",
	}
	opt := extension.Options{Name: "collection acme", Level: skill.LevelUser, Subject: "collection acme", Root: "/collections/acme"}
	load := func(opt extension.Options) []extension.Bundle {
		t.Helper()
		bundles, err := extension.LoadCollection(t.Context(), open(t, tree(t, files)), opt)
		if err != nil {
			t.Fatal(err)
		}
		return bundles
	}
	bundles := load(opt)
	if len(bundles) != 3 {
		t.Fatalf("%+v", bundles)
	}
	own := bundles[0]
	if !slices.Equal(skillNames(own), []string{"a", "pdf"}) || len(own.Agents) != 1 || own.Hash != "" || own.Agents[0].Level != subagent.LevelUser {
		t.Errorf("%+v", own)
	}
	if one := bundles[1]; one.Name != "plugin one" || one.Subject != "collection acme plugins/one" || one.Root != "/collections/acme/plugins/one" || one.Hash == "" {
		t.Errorf("%+v", one)
	}
	if two := bundles[2]; !slices.Equal(skillNames(two), []string{"two:go"}) || find(t, two, "two:go").Source != "/collections/acme/plugins/two/commands/go.md" {
		t.Errorf("%+v", two)
	}
	files["marketplaces/default.json"] = `{"name":"m","plugins":[{"name":"two","source":"./plugins/two"},{"name":"far","source":{"source":"github","repo":"a/b"}},
		{"name":"web","source":"github:a/b"},{"name":"out","source":"../.."}]}`
	bundles = load(opt)
	if len(bundles) != 2 || bundles[1].Name != "plugin two" || len(bundles[0].Problems) != 1 {
		t.Errorf("marketplace: %+v", bundles)
	}
	// Marketplaces name skills, too; and a plugin may use those of the collection.
	files["marketplaces/default.json"] = `{"metadata":{"pluginRoot":"./skills"},"plugins":[{"name":"pdf","source":"./pdf"},{"name":"word","source":"./word"}]}`
	files["skills/word/SKILL.md"], files["skills/word/scripts/a.py"] = strings.Replace(agentSkill, "pdf", "word", 1), ""
	files["skills/word/.plugin/plugin.json"], files["skills/word/commands/write.md"] = `{"name":"word"}`, "Write."
	bundles = load(opt)
	if len(bundles) != 2 || !slices.Equal(skillNames(bundles[1]), []string{"word", "word:write"}) || len(bundles[0].Problems)+len(bundles[1].Problems) > 0 {
		t.Fatalf("a marketplace of skills: %+v", bundles)
	}
	if s := find(t, bundles[1], "word"); s.Root != "/collections/acme/skills/word" || !slices.Equal(s.Resources, []string{"scripts/a.py"}) {
		t.Errorf("%+v", s)
	}
	opt.Root = "/a b"
	if bundles = load(opt); len(bundles) != 1 || len(bundles[0].Problems) != 1 {
		t.Errorf("where no plugin can run: %+v", bundles)
	}
	opt.Root = ""
	files["skills/word/commands/write.md"] = "Run ${CLAUDE_PLUGIN_ROOT}/a."
	if bundles = load(opt); len(bundles) != 2 || len(bundles[0].Problems)+len(bundles[1].Problems) > 0 || bundles[1].Name != "plugin word" || bundles[1].Root != "" {
		t.Fatalf("nowhere: %+v", bundles)
	}
	if s := find(t, bundles[1], "word:write"); s.Source != "skills/word/commands/write.md" || s.Content != "Run ${CLAUDE_PLUGIN_ROOT}/a." {
		t.Errorf("%+v", s)
	}
}

func TestPins(t *testing.T) {
	for command, want := range map[string][]string{
		"hooks/a.sh": {"hooks/a.sh"}, "./hooks/a.sh x": {"hooks/a.sh"}, "bash hooks/a.sh": {"hooks/a.sh"}, "true": nil,
		`"$OPENHANDS_PROJECT_DIR"/hooks/a.sh`: {"hooks/a.sh"}, `${OPENHANDS_PROJECT_DIR}/hooks/a.sh`: {"hooks/a.sh"}, `$CLAUDE_PROJECT_DIR/hooks/b\ c.py`: {"hooks/b c.py"},
		`'hooks/b c.py'`: {"hooks/b c.py"}, "/workspace/project/hooks/a.sh": {"hooks/a.sh"}, "/elsewhere/hooks/a.sh": nil, "../hooks/a.sh": nil,
		"x --file=hooks/a.sh": {"hooks/a.sh"}, "if true; then echo | python 'hooks/b c.py' > out; fi": {"hooks/b c.py"}, `bash -c "cd . && hooks/a.sh"`: {"hooks/a.sh"},
		"echo $(cat hooks/a.sh)": {"hooks/a.sh"}, "$UNKNOWN/hooks/a.sh": nil, "hooks": nil, "hooks/a.sh \"": {"hooks/a.sh"}, "hooks/link": {"hooks/link"},
		`sh "$PARLEY_PROJECT_DIR/hooks/a.sh"`: {"hooks/a.sh"}, "cd hooks && sh a.sh": {"hooks/a.sh"}, "cd hooks; ./a.sh": {"hooks/a.sh"},
	} {
		raw, err := json.Marshal(map[string]any{"stop": []any{map[string]any{"hooks": []any{map[string]any{"command": command}}}}})
		if err != nil {
			t.Fatal(err)
		}
		dir := tree(t, map[string]string{"hooks/a.sh": "a", "hooks/b c.py": "b", ".openhands/hooks.json": string(raw)})
		if err := os.Symlink("a.sh", filepath.Join(dir, "hooks/link")); err != nil {
			t.Fatal(err)
		}
		b := repository(t, dir)
		var got []string
		for _, p := range b.Pins {
			got = append(got, strings.TrimPrefix(p.Path, "/workspace/project/"))
			if len(p.SHA256) != 64 {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s pins %v, not %v (%v)", command, got, want, b.Problems)
		}
	}
}

// Servers name files in many ways: another content of each is another question.
func TestPinsOfServers(t *testing.T) {
	for server, want := range map[string]bool{
		`{"command":"tools/run.sh"}`: true, `{"command":"sh","args":["tools/run.sh"]}`: true, `{"command":"sh","args":["-c","exec sh tools/run.sh"]}`: true,
		`{"command":"./run.sh","cwd":"tools"}`: true, `{"command":"sh","args":["run.sh"],"cwd":"tools"}`: true,
		`{"command":"bash","env":{"BASH_ENV":"tools/run.sh"}}`: true, `{"command":"sh","args":["-c","cd tools && ./run.sh"]}`: true, `{"command":"true"}`: false,
	} {
		b := plugin(t, tree(t, map[string]string{"plugin.json": `{"name":"p"}`, ".mcp.json": `{"s":` + server + `}`, "tools/run.sh": "x"}), nil)
		if pinned := len(b.Pins) == 1; pinned != want || b.Hash == "" {
			t.Errorf("%s: pins %v, problems %v", server, b.Pins, b.Problems)
		}
	}
	lines := plugin(t, tree(t, map[string]string{"plugin.json": `{"name":"p"}`, ".mcp.json": `{"s":{"command":"x","cwd":"tools","env":{"BASH_ENV":"evil","KEY":"hush"}}}`}), nil)
	remote := plugin(t, tree(t, map[string]string{"plugin.json": `{"name":"p"}`,
		".mcp.json": `{"w":{"url":"https://a.example/mcp","headers":{"Authorization":"Bearer ${GITHUB_TOKEN}"}},"x":{"command":"y","env":{"K":"${A}-${B}"}}}`}), nil)
	if text := strings.Join(remote.Runs(), "\n"); !strings.Contains(text, "https://a.example/mcp (with the secrets GITHUB_TOKEN)") || !strings.Contains(text, "(with the secrets A, B)") {
		t.Error(text)
	}
	if text := strings.Join(lines.Runs(), "\n"); !strings.Contains(text, "BASH_ENV=evil KEY=... x (in ") {
		t.Error(text)
	}
}

func TestSecretsOfABundleAreKept(t *testing.T) {
	b := plugin(t, tree(t, map[string]string{".mcp.json": `{"a":{"command":"x","env":{"K":"one"}}}`,
		"agents/a.md": "---\nmcp_servers: {b: {command: y, env: {K: two}}}\n---\nA.", "agents/b.md": "---\nmcp_servers: {b: {command: y, env: {K: three}}}\n---\nB."}), nil)
	raw, err := account.EncodePrivate(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again extension.Bundle
	if err := account.DecodePrivate(raw, &again); err != nil {
		t.Fatal(err)
	}
	if extension.Hash(again) != b.Hash || b.Hash == "" || again.Agents[1].MCP.Stdio[0].Env["K"].Reveal() != "three" {
		t.Errorf("%s", raw)
	}
	for _, line := range b.Runs() {
		if strings.Contains(line, "one") || strings.Contains(line, "two") {
			t.Errorf("a value is shown: %q", line)
		}
	}
}

// files of the server's machine as those of a sandbox.
func remote() extension.Remote {
	gone := func(err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return fault.New(fault.NotFound, "x", "Not there.")
		}
		return err
	}
	return extension.Remote{
		Real: func(_ context.Context, name string) (string, bool, error) {
			real, err := filepath.EvalSymlinks(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) { // a loop
				return "", false, fault.New(fault.Invalid, "x", "No path.")
			}
			if err != nil {
				return "", false, gone(err)
			}
			info, err := os.Stat(real)
			return real, err == nil && info.Mode().IsRegular(), gone(err)
		},
		List: func(_ context.Context, name string, depth, max int) ([]extension.Entry, error) {
			var out []extension.Entry
			err := filepath.WalkDir(name, func(p string, d os.DirEntry, err error) error {
				rel, _ := filepath.Rel(name, p)
				switch {
				case err != nil || rel == ".":
					return err
				case len(out) < max:
					out = append(out, extension.Entry{Name: rel, Regular: d.Type().IsRegular(), Link: d.Type()&os.ModeSymlink != 0})
				}
				if d.IsDir() && strings.Count(rel, "/") == depth-1 {
					return filepath.SkipDir
				}
				return nil
			})
			return out, gone(err)
		},
		Find: func(ctx context.Context, name, pattern string, max int) ([]string, error) {
			d, err := extension.DirTree(name)
			if err != nil {
				return nil, err
			}
			defer func() { _ = d.Close() }()
			found, err := d.Find(ctx, pattern, max)
			for i := range found {
				found[i] = filepath.Join(name, found[i])
			}
			return found, err
		},
		Read: func(_ context.Context, name string, max int64) ([]byte, error) {
			data, err := os.ReadFile(name)
			if int64(len(data)) > max {
				return nil, fault.New(fault.TooLarge, "x", "Too large.")
			}
			return data, gone(err)
		},
	}
}

func TestASandboxIsReadLikeADirectory(t *testing.T) {
	files := project()
	files["shared/word/SKILL.md"], files["shared/word/assets/a"] = strings.Replace(agentSkill, "pdf", "word", 1), "x"
	dir := tree(t, files)
	if err := os.Symlink(".", filepath.Join(dir, "shared/again")); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"docs.md": "AGENTS.md", ".openhands/skills/linked.md": "../../web/AGENTS.md",
		".openhands/skills/out.md": "/etc/passwd", ".openhands/skills/loop.md": "loop.md", ".openhands/skills/dir": "../../shared", ".openhands/skills/gone.md": "nothing"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	want := repository(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, link} {
		got, err := extension.LoadRepository(t.Context(), extension.RemoteTree(root, remote()), asRepository)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v\n\n%+v", got, err, want)
		}
	}
	if s := find(t, want, "word"); s.Root != "/workspace/project/.openhands/skills/dir/word" || !slices.Equal(s.Resources, []string{"assets/a"}) {
		t.Errorf("a directory behind a link: %+v", s)
	}
	if s := find(t, want, "linked"); s.Content != "Use React." {
		t.Errorf("%+v", s)
	}
}
