package agentserver

import (
	"context"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/hook"
)

// infos renders views with their sub-conversations; those outside the scope are
// holes. Hooks are not shown: that takes a look at every single conversation.
func (s *Server) infos(ctx context.Context, sc scope, views []*engine.View) ([]*ConversationInfo, error) {
	var ids []conversation.ID
	for _, v := range views {
		if sc.shows(v) {
			ids = append(ids, v.ID)
		}
	}
	children, err := s.cfg.Engine.Children(ctx, sc.owner, ids)
	if err != nil {
		return nil, err
	}
	out := make([]*ConversationInfo, len(views))
	for i, v := range views {
		if !sc.shows(v) {
			continue
		}
		out[i] = Info(v)
		for _, id := range children[v.ID] {
			out[i].SubConversationIDs = append(out[i].SubConversationIDs, id.Dashed())
		}
	}
	return out, nil
}

// writeInfo answers with one conversation.
func (s *Server) writeInfo(ctx context.Context, w http.ResponseWriter, status int, sc scope, v *engine.View) error {
	info, err := s.stateOf(ctx, sc, v)
	if err != nil {
		return err
	}
	info.HookConfig = s.hooksOf(ctx, sc, v)
	return httpkit.JSON(w, status, info)
}

// stateOf renders one conversation as its live streams show it, without hooks.
func (s *Server) stateOf(ctx context.Context, sc scope, v *engine.View) (*ConversationInfo, error) {
	all, err := s.infos(ctx, sc, []*engine.View{v})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// hooksOf returns the hooks that a conversation runs, wherever they are from; nil if
// there are none. Where they cannot be read, the rest is shown all the same.
func (s *Server) hooksOf(ctx context.Context, sc scope, v *engine.View) *hook.Config {
	found, err := s.cfg.Engine.Hooks(ctx, sc.owner, v.ID)
	if err != nil {
		return nil
	}
	var all hook.Config
	for _, named := range found {
		h := named.Config
		all.PreToolUse = append(all.PreToolUse, h.PreToolUse...)
		all.PostToolUse = append(all.PostToolUse, h.PostToolUse...)
		all.UserPromptSubmit = append(all.UserPromptSubmit, h.UserPromptSubmit...)
		all.SessionStart = append(all.SessionStart, h.SessionStart...)
		all.SessionEnd = append(all.SessionEnd, h.SessionEnd...)
		all.Stop = append(all.Stop, h.Stop...)
	}
	return orNone(all)
}
