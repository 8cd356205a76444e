package engine

import (
	"strings"
	"sync"

	"parley/internal/agent"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/tool"
)

// CodeUnknownTool is the code of the fault for a start that names a tool which does
// not exist.
const CodeUnknownTool = "unknown_tool"

// toolbox are the tools of a conversation.
type toolbox struct {
	set *tool.Set
	// specs are what models are told about them: the same for every call.
	specs func() ([]llm.Tool, error)
}

// ToolNames returns the names of all tools that a conversation can have.
func (e *Engine) ToolNames() []string { return e.opt.Tools.Names() }

// chosenTools are the names of a conversation's tools, but finish and think.
func (e *Engine) chosenTools(conv *conversation.Conversation) []string {
	names := []string{}
	for _, t := range e.pick(conv.Options.Tools).Tools() {
		if spec := t.Spec(); !spec.NoConfirm {
			names = append(names, spec.Name)
		}
	}
	return names
}

// toolbox returns the tools with these names; no names are the default set. A tool
// that this version does not have any more is left out: a conversation goes on
// without it.
func (e *Engine) toolbox(names []string) *toolbox {
	set := e.pick(names)
	key := strings.Join(set.Names(), " ")
	if box, ok := e.toolboxes.Load(key); ok {
		return box.(*toolbox)
	}
	box, _ := e.toolboxes.LoadOrStore(key, &toolbox{set: set,
		specs: sync.OnceValues(func() ([]llm.Tool, error) { return agent.ToolSpecs(set) })})
	return box.(*toolbox)
}

func (e *Engine) pick(names []string) *tool.Set {
	if len(names) == 0 {
		names = e.opt.DefaultTools
	}
	if names == nil {
		return e.opt.Tools
	}
	set, _ := e.opt.Tools.Pick(names)
	return set
}

// chooseTools checks the names that a start asks for.
func (e *Engine) chooseTools(names []string) ([]string, error) {
	if _, unknown := e.opt.Tools.Pick(names); len(unknown) > 0 {
		return nil, fault.New(fault.Invalid, CodeUnknownTool, "There is no tool named %s.", strings.Join(unknown, ", ")).
			WithHint("The tools are %s.", strings.Join(e.ToolNames(), ", "))
	}
	return names, nil
}
