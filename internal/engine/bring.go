package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/skill"
	"parley/internal/tool"
)

//go:embed plugin.sh
var pluginScript string

// Bounds of what a request brings.
const (
	maxPlugins   = 32
	pluginTime   = 2 * time.Minute // to fetch one
	maxFilter    = 1000            // bytes
	skillTime    = 10 * time.Second
	skillOutput  = 50 << 10 // bytes of a command in a skill
	skillCommand = "/bin/sh"
)

// checkBrought refuses extensions that cannot be used.
func checkBrought(req *StartRequest) error {
	if len(req.Plugins) > maxPlugins {
		return fault.New(fault.Invalid, "too_many_plugins", "A conversation takes at most %d plugins, not %d.", maxPlugins, len(req.Plugins))
	}
	for _, p := range req.Plugins {
		if err := checkPlugin(p); err != nil {
			return err
		}
	}
	if len(req.ToolFilter) > maxFilter {
		return fault.New(fault.Invalid, "bad_tool_filter", "The filter of tools is longer than %d bytes.", maxFilter)
	}
	if _, err := regexp.Compile(req.ToolFilter); err != nil {
		return fault.Wrap(err, fault.Invalid, "bad_tool_filter", "The filter of tools is no regular expression that the server understands (RE2, without look-ahead).")
	}
	return nil
}

// refName are branches, tags and commits; gitPath is a directory of a repository.
var (
	refName = lazyre.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./+@#-]*$`)
	gitPath = lazyre.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
)

func checkPlugin(p conversation.Plugin) error {
	bad := func(what string) error {
		return fault.New(fault.Invalid, "bad_plugin", "The plugin %.200q has %s.", p.Source, what).
			WithHint("source is github:owner/repo, an https:// address of a git repository, or an absolute path inside the sandbox.")
	}
	_, git, err := pluginURL(p.Source)
	switch {
	case err != nil:
		return bad("a source that is none")
	case git && p.Ref != "" && !refName.MatchString(p.Ref):
		return bad("a ref that is no branch, tag or commit")
	case p.Path != "" && (!gitPath.MatchString(p.Path) || slices.Contains(strings.Split(p.Path, "/"), "..")):
		return bad("a repo_path that is no directory of it")
	}
	return nil
}

// pluginURL returns where a plugin is fetched from; git is false for a directory
// inside the sandbox.
func pluginURL(source string) (address string, git bool, err error) {
	if short, ok := strings.CutPrefix(source, "github:"); ok {
		source = "https://github.com/" + strings.TrimSuffix(short, ".git") + ".git"
	}
	if path.IsAbs(source) && !strings.ContainsRune(source, 0) {
		return path.Clean(source), false, nil
	}
	o, err := originOf(&account.Settings{}, "", source)
	if err != nil || !strings.Contains(source, "://") {
		return "", false, errors.New("no source")
	}
	return o.url.String(), true, nil
}

// bring finds what is added to a conversation's agent and keeps it: what the request
// brings, what the working directory has, and plugins. A sub-conversation has what its
// parent has.
func (e *Engine) bring(ctx context.Context, task *conversation.StartTask, conv *conversation.Conversation, hands tool.Hands, dir string) error {
	from, err := e.sharer(ctx, conv)
	if err != nil {
		return err
	}
	if done, err := e.brought(ctx, conv, from); err != nil || done {
		return err
	}
	bundles, err := e.found(ctx, conv, from, hands, dir)
	if err != nil {
		return err
	}
	if len(bundles) > 0 {
		if err := e.opt.Store.Extensions().SaveBundles(ctx, conv.ID, bundles); err != nil {
			return err
		}
	}
	if from != "" {
		return nil
	}
	var repositories []extension.Bundle
	if slices.ContainsFunc(bundles, func(b extension.Bundle) bool { return len(b.Scripts) > 0 }) {
		repositories, err = e.setUps(ctx, conv)
	}
	for _, b := range repositories {
		err = errors.Join(err, e.setUp(ctx, conv, hands, b, func(s conversation.TaskStatus) { e.progress(task, s) }))
	}
	e.progress(task, conversation.TaskSkills)
	return err
}

// sharer is the conversation whose sandbox and directory a sub-conversation shares, and
// with them what was found there; "" if there is none.
func (e *Engine) sharer(ctx context.Context, conv *conversation.Conversation) (conversation.ID, error) {
	if conv.ParentID == "" {
		return "", nil
	}
	parent, err := e.opt.Store.Conversations().Get(ctx, conv.Owner, conv.ParentID)
	if err != nil || parent.SandboxID != conv.SandboxID {
		return "", err
	}
	return parent.ID, nil
}

// brought reports whether an earlier life of the server did all that bring does.
func (e *Engine) brought(ctx context.Context, conv *conversation.Conversation, from conversation.ID) (bool, error) {
	if conv.Options.WorkingDir == "" {
		return false, nil
	}
	if from == "" {
		return true, nil
	}
	stored, err := e.opt.Store.Extensions().Bundles(ctx, conv.ID)
	return len(stored) > 0, err
}

// found are the bundles of a conversation. from is the one that it shares with.
func (e *Engine) found(ctx context.Context, conv *conversation.Conversation, from conversation.ID, hands tool.Hands, dir string) ([]extension.Bundle, error) {
	var all []extension.Bundle
	if from != "" {
		inherited, err := e.opt.Store.Extensions().Bundles(ctx, from)
		if err != nil {
			return nil, err
		}
		all = inherited
	}
	for _, p := range conv.Options.Plugins {
		b, err := e.plugin(ctx, conv, hands, p)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	brought := conv.Options.Brought
	if from == "" && (conv.Repository != "" || conv.Options.HostDir != "" || conv.Options.AskedDir != "") {
		repo, err := extension.LoadRepository(ctx, treeOf(hands, dir), extension.Options{Name: "repository", Level: skill.LevelProject,
			Subject: subjectOf(conv, dir), Root: dir})
		if err != nil {
			return nil, err
		}
		if conv.Options.NoProject {
			repo.Skills = nil
		}
		if conv.Repository == "" { // set-up is for clones, not for directories that are in use
			repo.Scripts = nil
		}
		repo.Hash = extension.Hash(repo)
		all = append(all, repo)
	}
	if brought != nil {
		all = append(all, *withoutCopies(brought, all))
	}
	return all, nil
}

// withoutCopies leaves out of what a request brings the hooks that a place has which
// asks for trust: clients read them there and send them along, in parts or beside
// others, and that is not the user's trust.
func withoutCopies(brought *extension.Bundle, found []extension.Bundle) *extension.Bundle {
	next := *brought
	for _, b := range found {
		if b.Subject != "" {
			next.Hooks = next.Hooks.Without(b.Hooks)
		}
	}
	return &next
}

// subjectOf names what a user is asked to trust.
func subjectOf(conv *conversation.Conversation, dir string) string {
	switch {
	case conv.Repository != "":
		if o, err := originOf(&account.Settings{}, conv.GitProvider, conv.Repository); err == nil {
			return "repository " + strings.TrimSuffix(o.url.String(), ".git")
		}
		return "repository " + conv.Repository
	case conv.Options.HostDir != "":
		return "directory " + conv.Options.HostDir
	}
	return "directory " + dir + " of the sandbox " + conv.SandboxID
}

// setUps are the repositories of a conversation whose set-up scripts the owner trusts.
func (e *Engine) setUps(ctx context.Context, conv *conversation.Conversation) ([]extension.Bundle, error) {
	settings, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return nil, err
	}
	x, err := e.extras(ctx, conv, settings)
	if err != nil {
		return nil, err
	}
	return x.setUps, nil
}

// plugin fetches a plugin into the sandbox and reads it. One that cannot be had is a
// problem that the user sees, and no reason not to start.
func (e *Engine) plugin(ctx context.Context, conv *conversation.Conversation, hands tool.Hands, p conversation.Plugin) (extension.Bundle, error) {
	failed := func(text string) (extension.Bundle, error) {
		return extension.Bundle{Name: "plugin " + p.Source, Level: skill.LevelPlugin,
			Problems: []extension.Problem{{File: cmp.Or(p.Path, "."), Text: text}}}, nil
	}
	address, git, err := pluginURL(p.Source)
	if err != nil {
		return failed("this is no source of a plugin")
	}
	root, commit := address, ""
	if git {
		root, commit, err = e.fetchPlugin(ctx, conv, hands, address, p.Ref)
		switch {
		case err != nil && (fault.CodeOf(err) != codePlugin || ctx.Err() != nil):
			return extension.Bundle{}, err
		case err != nil:
			return failed(fault.PublicText(err))
		}
	}
	b, err := extension.LoadPlugin(ctx, treeOf(hands, root), extension.Options{Name: "plugin " + p.Source, Level: skill.LevelPlugin,
		Subject: strings.TrimSpace("plugin " + p.Source + " " + p.Path), Dir: p.Path, Root: path.Join(root, p.Path), Parameters: p.Parameters})
	switch {
	case fault.Is(err, fault.Invalid):
		return failed(fault.PublicText(err))
	case err == nil && b.Hash == "" && len(b.Skills)+len(b.Agents)+len(b.Problems) == 0:
		return failed("there is nothing of a plugin in it")
	}
	b.Commit = commit
	return b, err
}

// codePlugin is the code of a plugin that cannot be fetched.
const codePlugin = "plugin_not_fetched"

// fetchPlugin clones a plugin inside the sandbox and returns where it is, and its
// commit. A ref that is no commit is that of the moment: the commit is kept.
func (e *Engine) fetchPlugin(ctx context.Context, conv *conversation.Conversation, hands tool.Hands, address, ref string) (dir, commit string, err error) {
	env := &tool.Env{ConversationID: string(conv.ID)}
	sum := sha256.Sum256([]byte(address + "#" + ref))
	dir = path.Join(env.StateDir(), "plugins", hex.EncodeToString(sum[:8]))
	vars := map[string]string{"PARLEY_CLONE": address, "PARLEY_CLONE_DIR": dir, "PARLEY_REF": ref, "GIT_TERMINAL_PROMPT": "0"}
	if err := e.gitAccess(ctx, conv, address, vars); err != nil {
		return "", "", err
	}
	res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", pluginScript, "plugin"}, Dir: "/", Env: vars,
		Timeout: pluginTime, MaxOutput: 1 << 14})
	if err != nil {
		return "", "", err
	}
	if res.ExitCode != 0 {
		masker, err := e.maskerFor(ctx, conv)
		if err != nil {
			return "", "", err
		}
		said := masker.Mask(strings.TrimSpace(string(res.Stderr)))
		return "", "", fault.New(fault.Unavailable, codePlugin, "it cannot be fetched: %s", strings.ToValidUTF8(said[max(0, len(said)-500):], "?"))
	}
	return dir, strings.TrimSpace(string(res.Stdout)), nil
}

// treeOf shows a directory of a sandbox to the loader of extensions.
func treeOf(hands tool.Hands, root string) extension.Tree {
	return extension.RemoteTree(root, extension.Remote{
		Real: func(ctx context.Context, name string) (string, bool, error) {
			info, err := hands.Stat(ctx, name)
			if err == nil && info.Link != "" && info.Real == "" {
				err = fault.New(fault.Forbidden, "file_forbidden", "The link %s leads nowhere.", name)
			}
			return cmp.Or(info.Real, name), info.Mode.IsRegular(), err
		},
		List: func(ctx context.Context, name string, depth, most int) ([]extension.Entry, error) {
			infos, err := hands.ListDir(ctx, name, depth, most)
			entries := make([]extension.Entry, len(infos))
			for i, f := range infos {
				entries[i] = extension.Entry{Name: f.Path, Regular: f.Mode.IsRegular(), Link: f.Link != ""}
			}
			return entries, err
		},
		Find: func(ctx context.Context, name, pattern string, most int) ([]string, error) {
			found, err := hands.Search(ctx, tool.SearchRequest{Root: name, Names: pattern, Max: most})
			paths := make([]string, len(found.Files))
			for i, f := range found.Files {
				paths[i] = f.Path
			}
			return paths, err
		},
		Read: hands.ReadFile})
}

// skillCommand runs the commands in skills, inside the sandbox.
func (l *live) skillCommand() func(ctx context.Context, sk skill.Skill, command string) (string, error) {
	owner, box, dir, secrets := l.conv.Owner, l.conv.SandboxID, l.conv.Options.WorkingDir, l.lateSecrets()
	return func(ctx context.Context, sk skill.Skill, command string) (string, error) {
		hands, err := l.e.opt.Fleet.Ensure(ctx, owner, box, true)
		if err != nil {
			return "", err
		}
		res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{skillCommand, "-c", command}, Dir: cmp.Or(sk.Root, dir),
			Env: secrets(command), Timeout: skillTime, MaxOutput: skillOutput})
		if err != nil {
			return "", err
		}
		if res.TimedOut {
			return string(res.Stdout), fault.New(fault.Timeout, "skill_command", "it ran longer than %s", skillTime)
		}
		if res.ExitCode != 0 {
			return string(res.Stdout), fault.New(fault.Unavailable, "skill_command", "it ended with code %d: %s", res.ExitCode,
				content.Head(strings.TrimSpace(string(res.Stderr)), 500))
		}
		return string(res.Stdout), nil
	}
}

// placeSkill puts the files of a skill that no sandbox has into this one. Another version
// of them gets another directory; what the agent changed in one that is there stays.
func (l *live) placeSkill(state string) func(ctx context.Context, sk skill.Skill) (skill.Skill, error) {
	owner, box := l.conv.Owner, l.conv.SandboxID
	return func(ctx context.Context, sk skill.Skill) (skill.Skill, error) {
		hands, err := l.e.opt.Fleet.Ensure(ctx, owner, box, true)
		if err != nil {
			return sk, err
		}
		root := path.Join(state, "skills", sk.Name+"-"+sk.FilesHash())
		last := sk.Files[len(sk.Files)-1] // it is there when all are
		if _, err := hands.Stat(ctx, path.Join(root, last.Name)); !fault.Is(err, fault.NotFound) {
			return sk.Placed(root), err
		}
		for _, f := range sk.Files {
			opt := tool.WriteOptions{Parents: true}
			if f.Executable {
				opt.Mode = 0o755
			}
			if err := hands.WriteFile(ctx, path.Join(root, f.Name), f.Data, opt); err != nil {
				return sk, err
			}
		}
		return sk.Placed(root), nil
	}
}

// knowledgeOf is what skills and hooks have to say about a message that is stored
// already.
func knowledgeOf(m *conversation.MessageEvent) []conversation.Payload {
	events := hint(m.ExtendedContent)
	for _, p := range events {
		if said, ok := p.(*conversation.MessageEvent); ok {
			said.ActivatedSkills = m.ActivatedSkills
		}
	}
	return events
}

// unknownSkill says which skills there are.
func unknownSkill(name string, offered []skill.Skill) error {
	names := make([]string, len(offered))
	for i, s := range offered {
		names[i] = s.Name
	}
	return fault.New(fault.NotFound, "unknown_skill", "There is no skill named %.100q.", name).
		WithHint("The skills are %s.", strings.Join(names, ", "))
}

// parseUserSkill reads a skill that a user stores.
func parseUserSkill(name, text string) (skill.Skill, error) {
	s, err := skill.Parse(name+".md", []byte(text), skill.LevelUser)
	s.Name, s.Trusted = name, true // the user's own
	return s, err
}

func problemOf(file string, err error) extension.Problem {
	p := extension.Problem{File: file, Text: err.Error()}
	var bad *skill.Problem
	if errors.As(err, &bad) {
		p.Line, p.Text = bad.Line, bad.Text
	}
	return p
}
