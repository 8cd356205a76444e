package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

// reply is what an action gives.
type reply struct {
	text    string
	isError bool
	image   *image
	saveDir string // of the whole of what text is a part of
}

// image is a screenshot.
type image struct {
	mime string
	data []byte
}

// members are the observation's own.
type members struct {
	Screenshot        string `json:"screenshot_data,omitempty"` // base64
	FullOutputSaveDir string `json:"full_output_save_dir,omitempty"`
}

// action does something with a connected browser. What the model did wrong is an
// error made by tool.Wrong; any other error is a failure of the browser.
type action[In any] func(ctx context.Context, b *browser, in In) (reply, error)

// run makes a tool's function from an action.
func run[In any](s *Browsers, do action[In]) func(context.Context, *tool.Env, In) (tool.Result, error) {
	return func(ctx context.Context, env *tool.Env, in In) (tool.Result, error) {
		b, release, err := s.of(ctx, env)
		if err != nil {
			return tool.Result{}, err
		}
		defer release()
		r, err := b.attempt(ctx, func(ctx context.Context) (reply, error) { return do(ctx, b, in) })
		if err != nil {
			return tool.Result{}, err
		}
		return r.result()
	}
}

// attempt runs an action on a browser that is there, and says what failed in words
// for the model. An error means that the sandbox failed, or that the context ended.
func (b *browser) attempt(ctx context.Context, do func(context.Context) (reply, error)) (reply, error) {
	limited, cancel := within(ctx, b.times.Action, "The action did not end")
	defer cancel()
	fresh, err := b.connect(limited)
	r := reply{}
	if err == nil {
		r, err = do(limited)
	}
	if ctx.Err() != nil {
		b.interrupted(ctx)
		return reply{}, context.Cause(ctx)
	}
	if err != nil {
		if r, err = b.failed(ctx, err); err != nil {
			return reply{}, err
		}
	} else {
		b.failures = 0
	}
	if fresh && !r.isError && b.starts > 0 {
		r.text = "[The browser had ended and was started again: open tabs are gone.]\n" + r.text
	}
	if fresh {
		b.starts++
	}
	if b.tabs != nil {
		for _, note := range b.tabs.takeNotes() {
			r.text += "\n[" + note + "]"
		}
	}
	r.text = strings.TrimPrefix(r.text, "\n")
	return r, nil
}

// interrupted leaves the browser as it is, but for a page that is on its way: that is
// stopped, unless it is only this server that leaves.
func (b *browser) interrupted(ctx context.Context) {
	if b.tabs == nil || errors.Is(context.Cause(ctx), tool.ErrDetach) {
		return
	}
	if now, ok := b.tabs.current(); ok {
		b.conn.Send(now.session, "Page.stopLoading", nil)
	}
}

// failed turns an error into a reply. After several in a row the browser is killed,
// so that the next call starts a new one.
func (b *browser) failed(ctx context.Context, err error) (reply, error) {
	if text, ok := tool.ForModel(err); ok {
		if b.conn != nil {
			b.failures = 0 // the browser did its part
		}
		return reply{text: text, isError: true}, nil
	}
	text, ok := b.reason(err)
	if !ok {
		return reply{}, err
	}
	b.failures++
	if errors.Is(err, cdp.ErrClosed) {
		b.disconnect()
		text += " The next call starts it again, or finds it."
	}
	if b.failures >= maxFailures {
		if err := b.kill(ctx); err != nil {
			return reply{}, err
		}
		text += fmt.Sprintf(" That was the failure number %d in a row, so that the browser was ended. The next call starts a new one, without the open tabs.", maxFailures)
	}
	return reply{text: text, isError: true}, nil
}

// reason says what an error of the browser means. ok is false for one that is not the
// browser's.
func (b *browser) reason(err error) (text string, ok bool) {
	var slow errSlow
	var refused *cdp.Error
	switch {
	case errors.As(err, &slow):
		return slow.Error(), true
	case errors.Is(err, cdp.ErrClosed):
		return "The browser ended, or the connection to it broke.", true
	case errors.Is(err, cdp.ErrCrashed), errors.Is(err, cdp.ErrDetached):
		text := "While this ran, " + errors.Unwrap(err).Error() + "."
		return text, true
	case errors.As(err, &refused):
		return "The browser refuses: " + oneLine(refused.Error()) + ".", true
	}
	var f *fault.Error
	if errors.As(err, &f) && f.Code != "browser_unreachable" {
		return "", false
	}
	return "The browser failed: " + clip(oneLine(err.Error()), 1000), true
}

// result encodes a reply.
func (r reply) result() (tool.Result, error) {
	o := tool.TextObservation(ObservationKind, strings.ToValidUTF8(r.text, "\ufffd"))
	o.IsError = r.isError
	m := members{FullOutputSaveDir: r.saveDir}
	if r.image != nil {
		m.Screenshot = base64.StdEncoding.EncodeToString(r.image.data)
		o.Content = append(o.Content, content.Image("data:"+r.image.mime+";base64,"+m.Screenshot))
	}
	o.Members = m
	return o.Result()
}
