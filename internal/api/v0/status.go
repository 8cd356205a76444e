package v0

import (
	"context"

	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// Conversation statuses. The reference also knows ERROR and ARCHIVED; legacy
// clients do not, so they are never sent.
const (
	statusStarting = "STARTING"
	statusRunning  = "RUNNING"
	statusStopped  = "STOPPED"
)

// Runtime statuses. Clients open their socket only if it is there and not
// STOPPED while the conversation is RUNNING.
const (
	runtimeStarting = "STATUS$STARTING_RUNTIME"
	runtimeStarted  = "STATUS$RUNTIME_STARTED"
	runtimeReady    = "STATUS$READY"
)

// condition is a conversation's status with what lies behind it.
type condition struct {
	status  string
	runtime *string // nil when stopped
}

// conditionOf derives the status: an unfinished start and a starting sandbox are
// STARTING, a running sandbox is RUNNING, whatever the agent does.
func (h *handlers) conditionOf(ctx context.Context, v *engine.View) (condition, error) {
	task, err := h.engine.LatestTask(ctx, v.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		task = nil
	case err != nil:
		return condition{}, err
	}
	switch {
	case task != nil && !task.Status.Done():
		return condition{statusStarting, ref(startingRuntime(task.Status))}, nil
	case v.SandboxStatus == store.SandboxStarting:
		return condition{statusStarting, ref(runtimeStarting)}, nil
	case v.SandboxStatus == store.SandboxRunning:
		return condition{statusRunning, ref(runtimeReady)}, nil
	}
	return condition{status: statusStopped}, nil
}

func startingRuntime(s conversation.TaskStatus) string {
	if s == conversation.TaskWorking || s == conversation.TaskSandbox {
		return runtimeStarting
	}
	return runtimeStarted
}

func ref[T any](v T) *T { return &v }

// view returns a conversation with its condition. An unknown id is NotFound.
func (h *handlers) view(ctx context.Context, owner string, id conversation.ID) (*engine.View, condition, error) {
	v, err := h.engine.View(ctx, owner, id)
	if fault.Is(err, fault.NotFound) {
		return nil, condition{}, notFound(id)
	}
	if err != nil {
		return nil, condition{}, err
	}
	c, err := h.conditionOf(ctx, v)
	return v, c, err
}

// attached returns a running conversation; to operations that need one, a
// stopped one does not exist.
func (h *handlers) attached(ctx context.Context, owner string, id conversation.ID) (*engine.View, error) {
	v, c, err := h.view(ctx, owner, id)
	if err == nil && c.status != statusRunning {
		err = notFound(id)
	}
	return v, err
}
