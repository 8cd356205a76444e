package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
)

// chooseSandbox decides what a new sandbox is made from: the request's template,
// else the user's, else the image of the settings in the first template.
func (e *Engine) chooseSandbox(ctx context.Context, req *StartRequest, opt *conversation.Options) error {
	settings, err := e.settings(ctx, req.Owner)
	if err != nil {
		return err
	}
	opt.SpecID = req.SpecID
	if opt.SpecID == "" && hasSpec(e.opt.Fleet.Specs(), settings.DefaultSandboxSpec) {
		opt.SpecID = settings.DefaultSandboxSpec
	}
	if opt.SpecID == "" {
		opt.Sandbox.Image = imageOf(settings)
		opt.SpecID = e.specFor(opt.Sandbox.Image)
	}
	if f := settings.RemoteRuntimeResourceFactor; f != nil && *f > 0 {
		opt.Sandbox.Factor = float64(*f)
	}
	opt.Sandbox.Network = req.Network
	if err := e.opt.Fleet.Check(fleet.StartRequest{SpecID: opt.SpecID, Changes: changesOf(opt.Sandbox)}); err != nil {
		return err
	}
	return e.joinGroup(ctx, settings, req, opt)
}

// specFor is the first template that runs an image of the user's, "" for none: the
// check of the start says then what is wrong.
func (e *Engine) specFor(image string) string {
	if image == "" {
		return ""
	}
	for _, s := range e.opt.Fleet.Specs() {
		if e.opt.Fleet.Check(fleet.StartRequest{SpecID: s.ID, Changes: fleet.Changes{Image: image}}) == nil {
			return s.ID
		}
	}
	return ""
}

func hasSpec(specs []fleet.Spec, id string) bool {
	for _, s := range specs {
		if s.ID == id {
			return true
		}
	}
	return false
}

// imageOf is the container image of the settings. The runtime image is the one that
// is ready to run.
func imageOf(s *account.Settings) string {
	if image := deref(s.SandboxRuntimeContainerImage); image != "" {
		return image
	}
	return deref(s.SandboxBaseContainerImage)
}

// changesOf is a conversation's wish as the fleet reads it.
func changesOf(w conversation.SandboxWish) fleet.Changes {
	c := fleet.Changes{Image: w.Image, Factor: w.Factor}
	if w.Network != nil {
		c.Network = &sandbox.Network{Mode: sandbox.NetworkMode(w.Network.Mode), Allow: w.Network.Allow}
	}
	return c
}

// copySandbox gives a fork a sandbox of its own, made from what its source's is
// now. The returned function ends the copying; with true it takes it back.
func (e *Engine) copySandbox(ctx context.Context, conv *conversation.Conversation) (func(failed bool), error) {
	source, err := e.opt.Fleet.Get(ctx, conv.Owner, conv.SandboxID)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.Gone, "sandbox_missing", "The conversation's sandbox was deleted, so there is nothing to copy.").
			WithHint("Start a new conversation; this one stays readable.")
	}
	if err != nil {
		return nil, err
	}
	made, err := e.opt.Fleet.Fork(ctx, conv.Owner, conv.SandboxID, "")
	if err != nil {
		return nil, err
	}
	undo := func(failed bool) {
		if !failed {
			return
		}
		if err := e.deleteSandbox(context.WithoutCancel(ctx), conv.Owner, made.ID); err != nil {
			e.opt.Logger.Warn("the sandbox of a failed fork was not removed", "sandbox", made.ID, "error", err)
		}
	}
	conv.SandboxID = made.ID
	if err := e.moveDir(ctx, conv, source.WorkingDir); err != nil {
		undo(true)
		return nil, err
	}
	return undo, nil
}

// moveDir corrects the working directory where a sandbox's paths are the machine's
// own and so differ from its source's.
func (e *Engine) moveDir(ctx context.Context, conv *conversation.Conversation, from string) error {
	s, err := e.opt.Fleet.Get(ctx, conv.Owner, conv.SandboxID)
	if err != nil {
		return err
	}
	caps, err := e.opt.Fleet.CapsOf(s)
	if err != nil || caps.Isolated {
		return err
	}
	if _, err := e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, true); err != nil {
		return err
	}
	if s, err = e.opt.Fleet.Get(ctx, conv.Owner, conv.SandboxID); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(conv.Options.WorkingDir, from); ok {
		conv.Options.WorkingDir = s.WorkingDir + rest
	}
	return nil
}

const (
	// maxIncidents is how many incidents a conversation's notes hold: of each kind the
	// last.
	maxIncidents = 5
	// sameIncident is how soon the same kind of incident is not told again.
	sameIncident = 30 * time.Second
)

// SandboxIncident tells the conversations of a sandbox of a limit it ran into.
func (e *Engine) SandboxIncident(sandboxID string, i fleet.Incident) {
	e.mu.Lock()
	var told []*live
	for _, l := range e.live {
		if l.sandbox.Load() == sandboxID {
			told = append(told, l)
		}
	}
	e.mu.Unlock()
	for _, l := range told {
		e.job(func() { l.post(func(l *live) { l.noteIncident(i) }) })
	}
}

func (l *live) noteIncident(i fleet.Incident) {
	if l.stalled != nil || l.quit != nil {
		return
	}
	notes := l.state.Notes
	told := slices.Clone(notes.Incidents)
	if at := slices.IndexFunc(told, func(old conversation.SandboxIncident) bool { return old.Kind == i.Kind }); at >= 0 {
		if last, err := time.Parse(time.RFC3339, told[at].Time); err == nil && i.Time.Sub(last) < sameIncident {
			return
		}
		told = slices.Delete(told, at, at+1)
	}
	told = append(told, conversation.SandboxIncident{Time: i.Time.Format(time.RFC3339), Kind: i.Kind, Text: i.Text})
	notes.Incidents = told[max(0, len(told)-maxIncidents):]
	l.note(notes)
}

// incidentTimeout bounds how long an answer waits for the sandbox's figures.
const incidentTimeout = time.Second

// incidentsSince tells the model of the limits that the sandbox ran into while a
// call ran: a program that was killed does not say why.
func (e *Engine) incidentsSince(ctx context.Context, conv *conversation.Conversation, began time.Time) []content.Part {
	if conv.SandboxID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, incidentTimeout)
	defer cancel()
	var parts []content.Part
	for _, i := range e.opt.Fleet.Incidents(ctx, conv.SandboxID, began) {
		parts = append(parts, content.Text("["+i.Text+"]"))
	}
	return parts
}

// NetworkLogOf returns the sandbox whose network log is the conversation's.
func (e *Engine) NetworkLogOf(ctx context.Context, owner string, id conversation.ID) (string, error) {
	c, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return "", err
	}
	if c.SandboxID == "" {
		return "", fault.New(fault.Conflict, "sandbox_not_ready", "The conversation has no sandbox yet.")
	}
	return c.SandboxID, nil
}
