package engine

import (
	"context"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// View returns a conversation with its sandbox, or NotFound.
func (e *Engine) View(ctx context.Context, owner string, id conversation.ID) (*View, error) {
	c, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	views, err := e.join(ctx, owner, []*conversation.Conversation{c})
	if err != nil {
		return nil, err
	}
	views[0].Calls = func() (map[string]conversation.Calls, error) { return e.Calls(ctx, owner, id) }
	return views[0], nil
}

// Views returns conversations in the order of ids, nil where there is none.
func (e *Engine) Views(ctx context.Context, owner string, ids []conversation.ID) ([]*View, error) {
	convs, err := e.opt.Store.Conversations().Batch(ctx, owner, ids)
	if err != nil {
		return nil, err
	}
	return e.join(ctx, owner, convs)
}

// Search pages through conversations.
func (e *Engine) Search(ctx context.Context, q store.ConversationQuery) (store.Page[*View], error) {
	page, err := e.opt.Store.Conversations().Search(ctx, q)
	if err != nil {
		return store.Page[*View]{}, err
	}
	views, err := e.join(ctx, q.Owner, page.Items)
	return store.Page[*View]{Items: views, Next: page.Next}, err
}

// Children returns the ids of sub-conversations by parent, oldest first.
func (e *Engine) Children(ctx context.Context, owner string, parents []conversation.ID) (map[conversation.ID][]conversation.ID, error) {
	return e.opt.Store.Conversations().Children(ctx, owner, parents)
}

// Count counts conversations.
func (e *Engine) Count(ctx context.Context, q store.ConversationQuery) (int, error) {
	return e.opt.Store.Conversations().Count(ctx, q)
}

// join adds the sandboxes, with one look-up for all.
func (e *Engine) join(ctx context.Context, owner string, convs []*conversation.Conversation) ([]*View, error) {
	var ids []string
	for _, c := range convs {
		if c != nil && c.SandboxID != "" {
			ids = append(ids, c.SandboxID)
		}
	}
	boxes := map[string]*store.Sandbox{}
	if len(ids) > 0 {
		found, err := e.opt.Fleet.Batch(ctx, owner, ids)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s != nil {
				boxes[s.ID] = s
			}
		}
	}
	budget, err := e.budget(ctx, owner)
	if err != nil {
		return nil, err
	}
	views := make([]*View, len(convs))
	for i, c := range convs {
		if c != nil {
			showBudget(c, budget)
			views[i] = e.view(c, boxes[c.SandboxID])
		}
	}
	return views, nil
}

// budget is the owner's ceiling for a conversation, in USD; nil = none.
func (e *Engine) budget(ctx context.Context, owner string) (*float64, error) {
	s, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return budgetOf(s), err
}

// showBudget shows the ceiling that holds now, not the one of the last call.
func showBudget(c *conversation.Conversation, budget *float64) {
	c.Options.MaxBudget = budget
	m := &c.Summary.Metrics
	m.MaxBudget = budget
	for use, part := range m.ByUse {
		part.MaxBudget = budget
		m.ByUse = m.ByUse.With(use, part)
	}
}

func (e *Engine) view(c *conversation.Conversation, s *store.Sandbox) *View {
	v := &View{Conversation: c, Sandbox: s, SandboxStatus: store.SandboxMissing, Tools: e.toolbox(c.Options.Tools).chosen}
	switch {
	case s != nil:
		v.SandboxStatus = s.Status
	case c.SandboxID == "" && e.starting(c.ID):
		v.SandboxStatus = store.SandboxStarting
	}
	return v
}

func (e *Engine) starting(id conversation.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tasks {
		if t.ConversationID == id && !t.Status.Done() {
			return true
		}
	}
	return false
}

// Patch changes a conversation's record. A changed title counts as the user's.
func (e *Engine) Patch(ctx context.Context, owner string, id conversation.ID, change func(*conversation.Conversation) error) (*View, error) {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return nil, err
	}
	_, err := e.opt.Store.Conversations().Update(ctx, id, time.Now().UTC(), func(c *conversation.Conversation) error {
		title := c.Title
		if err := change(c); err != nil {
			return err
		}
		if c.Title == "" {
			c.Title, c.TitleByUser = placeholderTitle(c.ID), false
		} else if c.Title != title {
			c.TitleByUser = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e.View(ctx, owner, id)
}

// Task returns start tasks in the order of ids, nil where there is none.
func (e *Engine) Task(ctx context.Context, owner string, ids []string) ([]*conversation.StartTask, error) {
	tasks, err := e.opt.Store.StartTasks().Batch(ctx, owner, ids)
	for i := range tasks {
		tasks[i] = e.fresher(tasks[i])
	}
	return tasks, err
}

// fresher returns the progress of a task that is under way, which is not stored.
func (e *Engine) fresher(t *conversation.StartTask) *conversation.StartTask {
	if t == nil || t.Status.Done() {
		return t
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now, ok := e.tasks[t.ID]; ok {
		shown := *now
		return &shown
	}
	return t
}

// SearchTasks pages through start tasks.
func (e *Engine) SearchTasks(ctx context.Context, q store.TaskQuery) (store.Page[*conversation.StartTask], error) {
	page, err := e.opt.Store.StartTasks().Search(ctx, q)
	for i := range page.Items {
		page.Items[i] = e.fresher(page.Items[i])
	}
	return page, err
}

// CountTasks counts start tasks.
func (e *Engine) CountTasks(ctx context.Context, q store.TaskQuery) (int, error) {
	return e.opt.Store.StartTasks().Count(ctx, q)
}

// LatestTask returns the newest start task of a conversation.
func (e *Engine) LatestTask(ctx context.Context, id conversation.ID) (*conversation.StartTask, error) {
	t, err := e.opt.Store.StartTasks().Latest(ctx, id)
	return e.fresher(t), err
}

// Resume makes the conversation's sandbox run. A start that came to no sandbox is done
// again. One of the legacy API takes the settings over as they are now.
func (e *Engine) Resume(ctx context.Context, owner string, id conversation.ID) error {
	c, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return err
	}
	if err := e.takeSettings(ctx, c); err != nil {
		return err
	}
	if c.SandboxID == "" { // its start makes one: it is under way, or failed and is done again
		return e.startAgain(ctx, c)
	}
	return e.opt.Fleet.Resume(ctx, owner, c.SandboxID)
}

func queryBySandbox(owner, sandboxID string) store.ConversationQuery {
	return store.ConversationQuery{Owner: owner, SandboxID: sandboxID, WithSubs: true}
}
