// Package task is the tool with which an agent gives work to a sub-agent (agent
// protocol 4.8). Which kinds of agents there are, where they work and what they may
// spend is up to tool.Agents.
package task

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

// Name is what a model calls; SetName is what agents name among their tools.
const (
	Name    = "task"
	SetName = "task_tool_set"
)

// Bounds, in characters.
const (
	maxPrompt      = 100_000
	maxDescription = 200
	maxName        = 200
	maxAnswer      = 30_000
)

// What became of a task.
const (
	statusCompleted = "completed"
	statusError     = "error"
)

//go:embed description.md
var description string

// Action is the input of the tool.
type Action struct {
	Prompt       string `json:"prompt" desc:"The whole task. The sub-agent knows nothing else of this conversation."`
	Description  string `json:"description,omitempty" desc:"The task in three to five words."`
	SubagentType string `json:"subagent_type" default:"general-purpose" desc:"Kind of agent."`
	Resume       string `json:"resume,omitempty" desc:"Id of an earlier task to go on with, like task_00000001."`
}

// members are the observation's own.
type members struct {
	TaskID   string `json:"task_id"` // "" where no task was made
	Subagent string `json:"subagent"`
	Status   string `json:"status"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{Name: Name, Description: description, OpenWorld: true, NoHands: true}
	// What a sub-agent does claims for itself: tasks run side by side.
	return tool.New(spec, run, tool.WithCheck(check), tool.WithClaims(func(Action) []tool.Claim { return nil }))
}

func check(a *Action) error {
	a.SubagentType, a.Resume = strings.TrimSpace(a.SubagentType), strings.TrimSpace(a.Resume)
	a.Description = strings.Join(strings.Fields(a.Description), " ")
	if strings.TrimSpace(a.Prompt) == "" {
		return errors.New("prompt is empty")
	}
	for _, m := range []struct {
		name, value string
		limit       int
	}{
		{"prompt", a.Prompt, maxPrompt}, {"description", a.Description, maxDescription},
		{"subagent_type", a.SubagentType, maxName}, {"resume", a.Resume, maxName},
	} {
		if utf8.RuneCountInString(m.value) > m.limit {
			return fmt.Errorf("%s is longer than %d characters", m.name, m.limit)
		}
	}
	return nil
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	if env.Agents == nil {
		return tool.Result{}, fault.New(fault.Unsupported, "no_agents", "This conversation cannot give tasks to sub-agents.").
			WithHint("Do the work yourself.")
	}
	done, err := env.Agents.Delegate(ctx, tool.Delegation{CallID: env.CallID, Prompt: a.Prompt, Description: a.Description,
		Agent: a.SubagentType, Resume: a.Resume})
	m := members{TaskID: done.TaskID, Subagent: cmp.Or(done.Agent, a.SubagentType), Status: statusError}
	if text, ok := tool.ForModel(err); ok {
		m.TaskID = cmp.Or(m.TaskID, a.Resume)
		return observe(text, m)
	}
	if err != nil {
		return tool.Result{}, err
	}
	if done.Failed {
		return observe(failure(env, done), m)
	}
	m.Status = statusCompleted
	answer := shorten(env, done.Answer)
	if strings.TrimSpace(answer) == "" {
		answer = fmt.Sprintf("The sub-agent ended without a word. Ask it with resume=%q, or look at what it changed.", done.TaskID)
	}
	return observe(answer, m)
}

// failure says why a task failed and how it can go on.
func failure(env *tool.Env, d tool.Delegated) string {
	reason := cmp.Or(strings.TrimSpace(shorten(env, d.Answer)), "No reason is known.")
	return fmt.Sprintf("The task failed: %s\n\nWhat it did until then is done. To go on with it: resume=%q.", reason, d.TaskID)
}

// shorten bounds an answer: the whole of it is in the sub-agent's conversation.
func shorten(env *tool.Env, answer string) string {
	if utf8.RuneCountInString(answer) <= maxAnswer {
		return answer
	}
	if env.Mask != nil { // a secret at the cut would not be found any more
		answer = env.Mask(answer)
	}
	r := []rune(answer)
	return string(r[:min(len(r), maxAnswer)]) + "\n[The answer goes on. Resume the task and ask for the rest if you need it.]"
}

func observe(text string, m members) (tool.Result, error) {
	return tool.Observation{Kind: "TaskObservation", Content: []content.Part{content.Text(text)}, IsError: m.Status == statusError, Members: m}.Result()
}
