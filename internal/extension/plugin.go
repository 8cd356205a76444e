package extension

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/lazyre"
	"parley/internal/skill"
)

const maxPlugins = 100

// manifests are where a plugin says what it is, the first that is there.
var manifests = []string{".plugin/plugin.json", ".claude-plugin/plugin.json", "plugin.json"}

var (
	pluginName = lazyre.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	plainRoot  = lazyre.MustCompile(`^/[A-Za-z0-9/._@+-]*$`)
)

// manifest is what of a plugin.json is used. The members beside the name are paths
// that are loaded beside the usual ones, or what a file there would hold.
type manifest struct {
	Name     json.RawMessage `json:"name"`
	Skills   json.RawMessage `json:"skills"`
	Commands json.RawMessage `json:"commands"`
	Agents   json.RawMessage `json:"agents"`
	Hooks    json.RawMessage `json:"hooks"`
	Servers  json.RawMessage `json:"mcpServers"`
}

// plugin loads one plugin.
type plugin struct {
	*loader
	name string
	man  manifest
	file string // of the manifest
}

// LoadPlugin loads a plugin: its manifest, skills/, commands/, agents/,
// hooks/hooks.json and .mcp.json. In all of them ${CLAUDE_PLUGIN_ROOT} and
// ${PLUGIN_ROOT} become Root; the user's parameters take the place of ${name} in
// commands of hooks and in servers; any other ${NAME} stays. Root must be a path
// without characters that mean something to a shell: Invalid. A file that cannot be
// used is a Problem; any other error means that the place could not be read.
func LoadPlugin(ctx context.Context, t Tree, opt Options) (Bundle, error) {
	if !plainRoot.MatchString(opt.Root) {
		return Bundle{}, fault.New(fault.Invalid, "plugin_root", "The directory of a plugin has letters, digits and /._@+- in its path, no other characters.")
	}
	return newLoader(ctx, t, opt).plugin()
}

// plugin loads the place as a plugin. Where it is nowhere, the names for its directory
// stay in its texts.
func (l *loader) plugin() (Bundle, error) {
	p := &plugin{loader: l, name: path.Base(l.at(""))}
	p.edit = func(data []byte) []byte { return []byte(p.fillRoot(string(data))) }
	p.manifest()
	p.b.Name = cmp.Or(p.opt.Name, "plugin "+p.name)
	p.hooks() // first: bounds must not take them away
	p.servers()
	for _, dir := range p.paths("skills", p.man.Skills) {
		p.skillDir(dir)
	}
	// A plugin may be a skill itself.
	p.skillFile("SKILL.md", func(s *skill.Skill) { s.Resources = resources(p.list("", 3, maxListed), "") })
	for _, dir := range p.paths("commands", p.man.Commands) {
		p.commandDir(dir)
	}
	for _, dir := range p.paths("agents", p.man.Agents) {
		if path.Ext(dir) == ".md" {
			p.agentFile(dir)
		} else {
			p.agentDir(dir)
		}
	}
	p.fill()
	return p.done()
}

// ownRoot are the names that plugins have for their directory.
var ownRoot = lazyre.MustCompile(`\$\{(?:CLAUDE_)?PLUGIN_ROOT\}|\$(?:CLAUDE_)?PLUGIN_ROOT\b`)

// fillRoot puts the plugin's directory into a text.
func (p *plugin) fillRoot(text string) string {
	if p.opt.Root == "" {
		return text
	}
	return ownRoot.ReplaceAllLiteralString(text, p.opt.Root)
}

func (p *plugin) manifest() {
	for _, file := range manifests {
		data, ok := p.read(file)
		if !ok {
			continue
		}
		p.file = file
		if err := json.Unmarshal(data, &p.man); err != nil {
			p.man = manifest{}
			p.problem(file, lineOfError(data, err), "The manifest is not a JSON object with the members of a plugin.")
			return
		}
		var name string
		if err := json.Unmarshal(p.man.Name, &name); err != nil || !pluginName.MatchString(name) {
			p.problem(file, lineOf(data, []any{"name"}), "The plugin has no name of at most 64 letters, digits and ._-; it is called %s.", p.name)
			return
		}
		p.name = name
		return
	}
}

// paths returns the usual directory with those that the manifest adds.
func (p *plugin) paths(usual string, more json.RawMessage) []string {
	out := []string{usual}
	var list []string
	var one string
	switch {
	case len(more) == 0 || string(more) == "null":
	case json.Unmarshal(more, &one) == nil:
		list = []string{one}
	case json.Unmarshal(more, &list) != nil:
		p.problem(p.file, 0, "%s is neither a path nor a list of paths.", usual)
	}
	for _, name := range list[:min(len(list), maxPlugins)] {
		if clean, ok := p.inside(name); ok && !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	return out
}

// inside cleans a path of the manifest, which must not lead out of the plugin.
func (p *plugin) inside(name string) (clean string, ok bool) {
	clean = path.Clean(strings.TrimPrefix(ownRoot.ReplaceAllString(name, "."), "/"))
	if ok = fs.ValidPath(clean) && clean != "." && plainName(clean); !ok {
		p.problem(p.file, 0, "The path %q does not lead to something inside the plugin.", name)
	}
	return clean, ok
}

// commandDir loads the commands of a directory: skills that /name and /plugin:name
// bring in.
func (p *plugin) commandDir(dir string) {
	names := []string{dir}
	if path.Ext(dir) != ".md" {
		names = p.list(dir, 3, maxFiles)
	}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".md")
		if path.Ext(file) != ".md" || name == "" || strings.ContainsAny(name, " \t") {
			continue
		}
		full := p.name + ":" + name
		p.skillFile(file, func(s *skill.Skill) {
			// Called like another skill it is what its directory is, not what its name says.
			*s = skill.Skill{Name: full, Description: s.Description, Content: s.Content, Source: s.Source, Level: s.Level,
				Triggers: []string{"/" + full, "/" + name}, AllowedTools: s.AllowedTools, Hidden: s.Hidden, Version: s.Version}
		})
	}
}

func (p *plugin) hooks() {
	if isObject(p.man.Hooks) {
		p.addHooks(p.file, nil, p.knownEvents(p.file, p.man.Hooks))
		p.man.Hooks = nil
	}
	usual := "hooks/hooks.json"
	for _, file := range p.paths(usual, p.man.Hooks) {
		p.hookFile(file, func(data []byte) []byte { return p.knownEvents(file, data) })
	}
}

// knownEvents takes the events out that only other programs have. What cannot be
// read stays as it is, for the parser to say what is wrong.
func (p *plugin) knownEvents(file string, data []byte) []byte {
	var outer map[string]json.RawMessage
	if json.Unmarshal(data, &outer) != nil {
		return data
	}
	events, loc := outer, []any{}
	inner, wrapped := outer["hooks"]
	if wrapped {
		events, loc = nil, []any{"hooks"}
		if json.Unmarshal(inner, &events) != nil {
			return data
		}
	}
	for _, name := range slices.Sorted(maps.Keys(events)) {
		if slices.Contains(foreignEvents, name) {
			delete(events, name)
			p.problem(file, lineOf(data, append(loc, name)), "Hooks for %s are left out: there is no such event here.", name)
		}
	}
	raw, err := content.Marshal(events)
	if wrapped && err == nil {
		outer["hooks"] = raw
		raw, err = content.Marshal(outer)
	}
	if err != nil {
		return data
	}
	return raw
}

// foreignEvents are events of other programs, which plugins for several have.
var foreignEvents = []string{"Notification", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "PermissionRequest",
	"PermissionDenied", "PostToolUseFailure", "StopFailure", "TaskCompleted", "TaskCreated", "TeammateIdle", "ConfigChange", "CwdChanged",
	"FileChanged", "InstructionsLoaded", "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult", "Setup", "UserPromptExpansion", "PostToolBatch"}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

func (p *plugin) servers() {
	if isObject(p.man.Servers) {
		p.addServers(p.file, nil, p.man.Servers)
		p.man.Servers = nil
	}
	for _, file := range p.paths(".mcp.json", p.man.Servers) {
		if data, ok := p.read(file); ok {
			p.addServers(file, data, data)
		}
	}
}

// addServers adds the servers that are in order and not there yet.
func (l *loader) addServers(file string, data []byte, raw json.RawMessage) {
	found, wrong := account.ParseMCPFile(raw)
	for _, f := range wrong {
		l.problem(file, lineOf(data, f.Loc), "%s", place(f))
	}
	if found == nil {
		return
	}
	if l.b.Servers == nil {
		l.b.Servers = &account.MCPConfig{SSE: []account.MCPHTTPServer{}, Stdio: []account.MCPStdioServer{}, SHTTP: []account.MCPHTTPServer{}}
	}
	taken := serverNames(l.b.Servers)
	free := func(name string) bool {
		if slices.Contains(taken, name) {
			l.problem(file, 0, "The server %q is left out: there is another one of this name.", name)
			return false
		}
		return true
	}
	to := l.b.Servers
	for _, s := range found.Stdio {
		if free(s.Name) {
			to.Stdio = append(to.Stdio, s)
		}
	}
	for _, s := range found.SSE {
		if free(s.Name) {
			to.SSE = append(to.SSE, s)
		}
	}
	for _, s := range found.SHTTP {
		if free(s.Name) {
			to.SHTTP = append(to.SHTTP, s)
		}
	}
	if len(to.Stdio)+len(to.SSE)+len(to.SHTTP) == 0 {
		l.b.Servers = nil
	}
}

func serverNames(c *account.MCPConfig) []string {
	var names []string
	for _, s := range c.Stdio {
		names = append(names, s.Name)
	}
	for _, s := range slices.Concat(c.SSE, c.SHTTP) {
		names = append(names, s.Name)
	}
	return names
}

// pluginDirs returns where the plugins of a collection are.
func (l *loader) pluginDirs() []string {
	dirs, named := l.marketplace()
	if !named {
		for _, name := range l.list("plugins", 3, maxListed) {
			for _, m := range manifests {
				if dir, ok := strings.CutSuffix(name, "/"+m); ok && path.Dir(dir) == "plugins" && !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	if len(dirs) > maxPlugins {
		l.problem("plugins", 0, "There are %d plugins; only the first %d are loaded.", len(dirs), maxPlugins)
		dirs = dirs[:maxPlugins]
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		if l.onlySkill(dir) {
			return true
		}
		bad := !plainRoot.MatchString("/" + dir)
		if bad {
			l.problem(dir, 0, "The plugin is left out: its path has characters other than letters, digits and /._@+-.")
		}
		return bad
	})
}

// onlySkill reports whether a directory that a marketplace names is a skill that was
// loaded already, and no plugin.
func (l *loader) onlySkill(dir string) bool {
	isSkill := func(s skill.Skill) bool { return s.Root == l.at(dir) }
	isManifest := func(name string) bool {
		_, ok := l.read(path.Join(dir, name))
		return ok
	}
	return slices.ContainsFunc(l.b.Skills, isSkill) && !slices.ContainsFunc(manifests, isManifest)
}

// marketplaceFile lists the plugins of a collection. A source that is an object, or
// an address, is a plugin that is somewhere else.
type marketplaceFile struct {
	Metadata struct {
		Root string `json:"pluginRoot"`
	} `json:"metadata"`
	Plugins []struct {
		Name   string          `json:"name"`
		Source json.RawMessage `json:"source"`
	} `json:"plugins"`
}

// marketplace returns the directories of the plugins that a marketplace names, and
// whether there is one.
func (l *loader) marketplace() (dirs []string, named bool) {
	for _, file := range []string{".plugin/marketplace.json", ".claude-plugin/marketplace.json", "marketplaces/default.json"} {
		data, ok := l.read(file)
		if !ok {
			continue
		}
		var m marketplaceFile
		if err := json.Unmarshal(data, &m); err != nil {
			l.problem(file, lineOfError(data, err), "The marketplace is not a JSON object with a list of plugins.")
			return nil, true
		}
		for i, p := range m.Plugins[:min(len(m.Plugins), maxFiles)] {
			var source string
			if json.Unmarshal(p.Source, &source) != nil || strings.Contains(source, ":") {
				continue
			}
			dir := path.Clean(path.Join(m.Metadata.Root, source))
			if !fs.ValidPath(dir) || dir == "." || !plainName(dir) {
				l.problem(file, lineOf(data, []any{"plugins", i}), "The source of the plugin %q does not lead to a directory inside the collection.", p.Name)
				continue
			}
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
		return dirs, true
	}
	return nil, false
}

// fill puts the user's values and the plugin's directory into what runs.
func (p *plugin) fill() {
	values := p.values()
	server := func(text string) string {
		return fillText(p.fillRoot(text), values, func(string) bool { return true })
	}
	p.fillHooks(&p.b.Hooks, values)
	if p.b.Servers != nil {
		fillServers(p.b.Servers, server)
	}
	for i := range p.b.Agents {
		if hooks := p.b.Agents[i].Hooks; hooks != nil {
			p.fillHooks(hooks, values)
		}
		if servers := p.b.Agents[i].MCP; servers != nil {
			fillServers(servers, server)
		}
	}
	for i := range p.b.Skills {
		if servers := p.b.Skills[i].MCP; servers != nil {
			fillServers(servers, server)
		}
	}
}

func (p *plugin) fillHooks(c *hook.Config, values map[string]string) {
	for _, d := range definitions(c) {
		d.Command = p.fillCommand(d.Command, values)
	}
}
