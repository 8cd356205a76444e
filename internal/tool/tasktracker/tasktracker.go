// Package tasktracker is the tool with which an agent keeps a list of its tasks.
//
// The list is a file in the conversation's own directory of the sandbox, so that it
// survives restarts of the server. A file that cannot be read is an empty list, and
// the model is told. plan replaces the whole list at once.
package tasktracker

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

// Name of the tool.
const Name = "task_tracker"

//go:embed description.md
var description string

// Bounds: the list is read by a model at every use.
const (
	maxTasks = 200
	maxBytes = 64 << 10 // of all titles and notes
	maxFile  = 1 << 20
)

const commandPlan = "plan"

// Action is the input of the tool.
type Action struct {
	Command  string `json:"command" enum:"view,plan" default:"view" desc:"view shows the list, plan replaces it."`
	TaskList []Task `json:"task_list,omitempty" desc:"plan: the whole new list, in order. Tasks that are left out are forgotten."`
}

// Task is one item of the list.
type Task struct {
	Title  string `json:"title" desc:"What to do, in a few words."`
	Notes  string `json:"notes" default:"" desc:"Details, decisions, results."`
	Status string `json:"status" enum:"todo,in_progress,done" default:"todo" desc:"How far it is."`
}

// members are the observation's own.
type members struct {
	Command  string `json:"command"`
	TaskList []Task `json:"task_list"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{Name: Name, Description: description, Idempotent: true}
	return tool.New(spec, run, tool.WithCheck(check), tool.WithClaims(func(Action) []tool.Claim { return []tool.Claim{{Name: Name, Write: true}} }))
}

func check(a *Action) error {
	size := 0
	for i, t := range a.TaskList {
		if strings.TrimSpace(t.Title) == "" {
			return fmt.Errorf("task_list[%d].title is empty", i)
		}
		size += len(t.Title) + len(t.Notes)
	}
	switch {
	case len(a.TaskList) > maxTasks:
		return fmt.Errorf("task_list has %d tasks, more than the %d allowed: merge some", len(a.TaskList), maxTasks)
	case size > maxBytes:
		return fmt.Errorf("task_list has %d bytes of text, more than the %d allowed: shorten the notes", size, maxBytes)
	}
	return nil
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	tasks, text, err := a.TaskList, "", error(nil)
	if a.Command == commandPlan {
		text, err = "The list is saved.\n", save(ctx, env, a.TaskList)
	} else {
		tasks, text, err = load(ctx, env)
	}
	if problem, ok := tool.ForModel(err); ok {
		return observe(a.Command, nil, problem, true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return observe(a.Command, tasks, text+render(tasks), false)
}

func observe(command string, tasks []Task, text string, isError bool) (tool.Result, error) {
	if tasks == nil {
		tasks = []Task{}
	}
	return tool.Observation{
		Kind: "TaskTrackerObservation", Content: []content.Part{content.Text(text)}, IsError: isError,
		Members: members{Command: command, TaskList: tasks},
	}.Result()
}

func file(env *tool.Env) string { return path.Join(env.StateDir(), "TASKS.json") }

func save(ctx context.Context, env *tool.Env, tasks []Task) error {
	if tasks == nil {
		tasks = []Task{}
	}
	data, err := json.MarshalIndent(tasks, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the tasks: %w", err)
	}
	return env.Hands.WriteFile(ctx, file(env), append(data, '\n'), tool.WriteOptions{Parents: true, Mode: 0o600})
}

// load reads the list; note tells the model of one that was lost.
func load(ctx context.Context, env *tool.Env) (tasks []Task, note string, err error) {
	data, err := env.Hands.ReadFile(ctx, file(env), maxFile)
	if fault.Is(err, fault.NotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if tasks, ok := decode(data); ok {
		return tasks, "", nil
	}
	return nil, "The saved list cannot be read and is treated as empty: make it anew with plan.\n", nil
}

// decode reads what is, for the programs in the sandbox, a file like any other.
func decode(data []byte) (tasks []Task, ok bool) {
	if json.Unmarshal(data, &tasks) != nil {
		return nil, false
	}
	for i := range tasks {
		switch tasks[i].Status {
		case "todo", "in_progress", "done":
		default:
			tasks[i].Status = "todo"
		}
	}
	return tasks, check(&Action{TaskList: tasks}) == nil
}

// render shows the list as a model reads it.
func render(tasks []Task) string {
	if len(tasks) == 0 {
		return "There are no tasks. Use plan to make a list."
	}
	var b strings.Builder
	done := 0
	for i, t := range tasks {
		mark := " "
		switch t.Status {
		case "in_progress":
			mark = ">"
		case "done":
			mark = "x"
			done++
		}
		fmt.Fprintf(&b, "%d. [%s] %s\n", i+1, mark, t.Title)
		if t.Notes != "" {
			b.WriteString("   " + strings.ReplaceAll(strings.TrimRight(t.Notes, "\n"), "\n", "\n   ") + "\n")
		}
	}
	return fmt.Sprintf("%d of %d tasks are done.\n%s", done, len(tasks), b.String())
}
