package app

import (
	"os/exec"
	"slices"

	"parley/internal/agent/policy"
	"parley/internal/config"
	"parley/internal/conversation"
	"parley/internal/tool"
	"parley/internal/tool/basic"
	"parley/internal/tool/browser"
	"parley/internal/tool/fileeditor"
	"parley/internal/tool/files"
	"parley/internal/tool/invokeskill"
	"parley/internal/tool/patch"
	"parley/internal/tool/search"
	"parley/internal/tool/switchllm"
	"parley/internal/tool/task"
	"parley/internal/tool/tasktracker"
	"parley/internal/tool/terminal"
	"parley/internal/tool/vision"
	"parley/internal/tool/websearch"
	"parley/internal/vault"
)

// tools is what agents can do.
func tools(keys *vault.Vault, cfg *config.Config, browsers *browser.Browsers) *tool.Set {
	all := []tool.Tool{terminal.New(terminal.Config{Secret: keys.Derive("terminal markers")}),
		fileeditor.New(), tasktracker.New(), search.Glob(), search.Grep(), patch.New(), fileeditor.NewPlanning(),
		files.Edit(), files.Read(), files.Write(), files.List(), switchllm.New(), vision.New(),
		websearch.New(websearch.Config{BaseURL: cfg.WebSearchURL}), invokeskill.New(), task.New()}
	all = append(all, browsers.Tools()...)
	set, err := tool.NewSet(append(all, basic.Finish(), basic.Think())...)
	if err != nil { // names are fixed
		panic(err)
	}
	return set
}

// toolSets are the names that stand for several tools.
func toolSets(browsers *browser.Browsers) map[string][]string {
	var names []string
	for _, t := range browsers.Tools() {
		names = append(names, t.Spec().Name)
	}
	return map[string][]string{browser.SetName: names, task.SetName: {task.Name}}
}

// defaultTools are those of conversations that do not choose. The browser is one of
// them where sandboxes have one: they share the programs of this machine.
func (a *App) defaultTools() []string {
	names := []string{tool.NameTerminal, tool.NameFileEditor, tasktracker.Name, search.NameGlob, search.NameGrep}
	if a.cfg.Browser == config.BrowserAuto && browser.Installed(exec.LookPath) {
		names = append(names, browser.SetName)
	}
	return names
}

// usableTools are the names of the tools that work here: all, but for the browser
// where sandboxes have none.
func (a *App) usableTools() []string {
	return slices.DeleteFunc(a.engine.ToolNames(), func(name string) bool {
		return name == browser.SetName && !browser.Installed(exec.LookPath)
	})
}

// planTools are those of agents that only plan.
func planTools() []string {
	return []string{search.NameGlob, search.NameGrep, files.NameRead, files.NameList, fileeditor.NamePlanning, tasktracker.Name}
}

// floor is what waits for the user at least.
func floor(least string) *policy.Rule {
	switch least {
	case config.ConfirmAll:
		return &policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}}
	case config.ConfirmRisky:
		return &policy.Rule{Policy: conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}}
	}
	return nil
}

// searchKeys is what keys of the web search begin with: keys of others are not sent to
// Tavily.
func searchKeys(url string) string {
	if url == "" {
		return "tvly-"
	}
	return ""
}
