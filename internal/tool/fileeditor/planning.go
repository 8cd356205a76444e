package fileeditor

import (
	"context"
	_ "embed"
	"path"

	"parley/internal/fault"
	"parley/internal/tool"
)

// NamePlanning is the name of the editor that edits the plan only.
const NamePlanning = "planning_file_editor"

//go:embed planning.md
var planningDescription string

// planFile is the plan, below the working directory.
const planFile = ".agents_tmp/PLAN.md"

// NewPlanning makes the editor of agents that plan: it views everything and edits
// the plan alone.
func NewPlanning() tool.Tool {
	return newTool(NamePlanning, planningDescription, "PlanningFileEditorObservation", true)
}

// checkPlan refuses edits of anything but the plan, also through links.
func (e *editor) checkPlan(ctx context.Context) error {
	if !e.planning || e.action.Command == commandView {
		return nil
	}
	plan := path.Join(e.env.WorkingDir, planFile)
	if e.action.Path != plan {
		return wrong("This tool edits only the plan, %s. %s can be viewed, not changed.", plan, e.action.Path)
	}
	for _, p := range []string{path.Dir(plan), plan} {
		info, err := e.files.Stat(ctx, p)
		if err == nil && info.Link != "" {
			return wrong("%s is a symbolic link; the plan must be a file of its own.", p)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
