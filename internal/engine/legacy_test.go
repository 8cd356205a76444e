package engine_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/test/testkit/boxtest"
)

// imageBackend says that it runs images.
type imageBackend struct{ *boxtest.Backend }

func (imageBackend) Caps() sandbox.Caps { return sandbox.Caps{Images: true} }

// The image of the settings is run by the first template that can; with none the start
// is refused.
func TestImagesOfTheSettingsChooseATemplate(t *testing.T) {
	dir := must(os.MkdirTemp("", "img-"))
	plain, images := boxtest.NewNamed(dir+"/p", "plain"), imageBackend{boxtest.NewNamed(dir+"/i", "images")}
	specs := []fleet.Spec{{ID: "first", Backend: "plain"}, {ID: "second", Backend: "images"}}
	var f *fleet.Fleet
	t.Cleanup(func() { // after the world's
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, b := range []sandbox.Backend{plain, images} {
			for _, h := range must(b.List(context.Background())) {
				_ = b.Destroy(context.Background(), h)
			}
		}
		_ = os.RemoveAll(dir)
	})
	w := newWorldWith(t, func(o *engine.Options) {
		f = must(fleet.New(fleet.Options{Store: o.Store.Sandboxes(), Backends: []sandbox.Backend{plain, images}, Specs: specs,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Busy: func(string) bool { return false }}))
		o.Fleet = f
	})
	w.settings(func(s *account.Settings) { s.SandboxBaseContainerImage = ptr("example.com/image") })
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV0})
	c := must(w.store.Conversations().Get(t.Context(), owner, id))
	if c.Options.SpecID != "second" || c.Options.Sandbox.Image != "example.com/image" {
		t.Errorf("%+v", c.Options)
	}
	_, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginV0, SpecID: "first"})
	if err != nil {
		t.Errorf("a template that was asked for goes first: %v", err)
	}
	for _, spec := range []string{"first", "second"} { // the settings' own choice goes before their image
		w.settings(func(s *account.Settings) { s.DefaultSandboxSpec = spec })
		id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV0})
		if c := must(w.store.Conversations().Get(t.Context(), owner, id)); c.Options.SpecID != spec || c.Options.Sandbox.Image != "" {
			t.Errorf("%s: %+v", spec, c.Options)
		}
	}
	specs = specs[:1]
	w.stop()
	first := f
	w.start()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	w.settings(func(s *account.Settings) { s.DefaultSandboxSpec = "" })
	_, err = w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Origin: conversation.OriginV0})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("%v", err)
	}
}
