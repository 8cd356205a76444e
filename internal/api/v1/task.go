package v1

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/store"
)

// startTask is V1 §2.1.
type startTask struct {
	ID                string          `json:"id"`
	CreatedByUserID   *string         `json:"created_by_user_id"`
	Status            string          `json:"status"`
	Detail            *string         `json:"detail"`
	AppConversationID *string         `json:"app_conversation_id"`
	SandboxID         *string         `json:"sandbox_id"`
	AgentServerURL    *string         `json:"agent_server_url"`
	Request           json.RawMessage `json:"request"`
	CreatedAt         string          `json:"created_at"`
	UpdatedAt         string          `json:"updated_at"`
}

func renderTask(t *conversation.StartTask, base string) *startTask {
	out := &startTask{ID: t.ID, CreatedByUserID: orNull(t.Owner), Status: string(t.Status), SandboxID: orNull(t.SandboxID),
		Request: t.Request, CreatedAt: httpkit.FormatTime(t.CreatedAt), UpdatedAt: httpkit.FormatTime(t.UpdatedAt)}
	if len(out.Request) == 0 {
		out.Request = json.RawMessage("{}")
	}
	switch t.Status {
	case conversation.TaskError:
		out.Detail = orNull(t.Detail)
	case conversation.TaskReady:
		// Clients take the id's presence for readiness (V1 §2.3).
		out.AppConversationID = orNull(t.ConversationID)
		fallthrough
	case conversation.TaskConversation:
		if t.SandboxID != "" {
			url := httpkit.AgentURL(base, t.SandboxID)
			out.AgentServerURL = &url
		}
	}
	return out
}

func renderTasks(tasks []*conversation.StartTask, base string) []*startTask {
	out := make([]*startTask, len(tasks))
	for i, t := range tasks {
		if t != nil {
			out[i] = renderTask(t, base)
		}
	}
	return out
}

func (h *handlers) getTasks(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		IDs []string `json:"ids"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if err := checkBatch(q.IDs); err != nil {
		return err
	}
	for i, id := range q.IDs {
		q.IDs[i] = hexID(id)
	}
	tasks, err := h.Engine.Task(r.Context(), r.Principal.UserID, q.IDs)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, renderTasks(tasks, h.URLs.Base(r.Request)))
}

// hexID is the stored spelling of a UUID that the document has checked.
func hexID(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

type taskFilter struct {
	ConversationID *string     `json:"conversation_id__eq"`
	CreatedGE      *string     `json:"created_at__gte"`
	Order          store.Order `json:"sort_order"`
	PageID         *string     `json:"page_id"`
	Limit          int         `json:"limit"`
}

func (h *handlers) taskQuery(r *httpkit.Request) (store.TaskQuery, error) {
	var f taskFilter
	if err := r.Params(&f); err != nil {
		return store.TaskQuery{}, err
	}
	from, err := parseTime(f.CreatedGE)
	return store.TaskQuery{Owner: r.Principal.UserID, ConversationID: conversation.ID(hexID(orEmpty(f.ConversationID))),
		CreatedFrom: from, Order: f.Order, Cursor: orEmpty(f.PageID), Limit: f.Limit}, err
}

func (h *handlers) searchTasks(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := h.taskQuery(r)
	if err != nil {
		return err
	}
	found, err := h.Engine.SearchTasks(r.Context(), q)
	if err != nil {
		return err
	}
	return writePage(w, renderTasks(found.Items, h.URLs.Base(r.Request)), found.Next)
}

func (h *handlers) countTasks(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := h.taskQuery(r)
	if err != nil {
		return err
	}
	n, err := h.Engine.CountTasks(r.Context(), q)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, n)
}

// taskPoll is how often a streamed start looks for progress.
const taskPoll = 50 * time.Millisecond

// streamStart answers with one JSON array that grows with the task's progress
// (V1 §2.4). The start goes on if the client leaves.
func (h *handlers) streamStart(w http.ResponseWriter, r *httpkit.Request) error {
	task, err := h.begin(r)
	if err != nil {
		return err
	}
	ctx, leave, err := h.Streams.Join(r.Context(), r.Principal, "start", task.ID)
	if err != nil {
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Accel-Buffering", "no")
	out := &taskStream{w: w, rc: http.NewResponseController(w), base: h.URLs.Base(r.Request)}
	if err := out.put("[\n", task); err != nil {
		return nil // the client left
	}
	tick := time.NewTicker(taskPoll)
	defer tick.Stop()
	for !task.Status.Done() {
		select {
		case <-ctx.Done():
			return out.close()
		case <-tick.C:
		}
		now, err := h.Engine.Task(ctx, r.Principal.UserID, []string{task.ID})
		if err != nil || now[0] == nil {
			return out.close() // deleted, or the server is stopping
		}
		if now[0].Status == task.Status {
			continue
		}
		for _, step := range passed(task.Status, now[0].Status) {
			over := *now[0]
			over.Status = step
			if err := out.put(",\n", &over); err != nil {
				return nil
			}
		}
		task = now[0]
		if err := out.put(",\n", task); err != nil {
			return nil
		}
	}
	return out.close()
}

// passed are the steps between two looks at a task: all of them occur, in this order
// (V1 2.2), some for no time. A failed task does not say how far it came.
func passed(before, now conversation.TaskStatus) []conversation.TaskStatus {
	steps := []conversation.TaskStatus{conversation.TaskWorking, conversation.TaskSandbox, conversation.TaskRepository, conversation.TaskSetupScript,
		conversation.TaskGitHooks, conversation.TaskSkills, conversation.TaskConversation, conversation.TaskReady}
	from, to := slices.Index(steps, before), slices.Index(steps, now)
	if from < 0 || to <= from {
		return nil
	}
	return steps[from+1 : to]
}

type taskStream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	base string
}

func (s *taskStream) put(before string, t *conversation.StartTask) error {
	raw, err := json.Marshal(renderTask(t, s.base))
	if err != nil {
		return err
	}
	if _, err := s.w.Write(append([]byte(before), raw...)); err != nil {
		return err
	}
	return s.rc.Flush()
}

func (s *taskStream) close() error {
	_, _ = s.w.Write([]byte("\n]\n")) // an error means that nobody reads it
	return nil
}
