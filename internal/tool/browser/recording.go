package browser

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

// Bounds of a recording. What comes after them is not recorded.
const (
	maxFrameCount = 3000
	maxFrameBytes = 100 << 20
	frameDistance = 100 * time.Millisecond
)

// player shows a recording: a page with the pictures' names in place of __FRAMES__.
//
//go:embed player.html
var player string

// recording is a series of pictures of the active tab, one whenever it changes.
type recording struct {
	dir     string
	hands   tool.Hands
	started time.Time
	last    time.Time
	frames  []frame
	bytes   int
	full    bool
}

// frame is one picture.
type frame struct {
	File string `json:"file"`
	At   int64  `json:"at"` // milliseconds since the start
	URL  string `json:"url"`
}

var screencast = map[string]any{"format": "jpeg", "quality": 60, "maxWidth": viewWidth, "maxHeight": viewHeight}

func startRecording(_ context.Context, b *browser, _ Empty) (reply, error) {
	now := time.Now()
	rec := &recording{dir: path.Join(b.env.WorkingDir, "recordings", now.UTC().Format("20060102-150405")), hands: b.env.Hands, started: now}
	running := ""
	b.tabs.update(func() {
		if b.tabs.record != nil {
			running = b.tabs.record.dir
			return
		}
		b.tabs.record = rec
		for _, x := range b.tabs.list {
			b.conn.Send(x.session, "Page.startScreencast", screencast)
		}
	})
	if running != "" {
		return reply{}, tool.Wrong("A recording runs already, to %s. End it with browser_stop_recording.", running)
	}
	return reply{text: "The recording has begun. Its pictures go to " + rec.dir + ".", saveDir: rec.dir}, nil
}

func stopRecording(ctx context.Context, b *browser, _ Empty) (reply, error) {
	var rec *recording
	var frames []frame
	full := false
	b.tabs.update(func() {
		if rec, b.tabs.record = b.tabs.record, nil; rec != nil {
			full = rec.full
			frames = slices.Clone(rec.frames) // one more may just be on its way
		}
		for _, x := range b.tabs.list {
			b.conn.Send(x.session, "Page.stopScreencast", nil)
		}
	})
	if rec == nil {
		return reply{}, tool.Wrong("No recording runs.")
	}
	if len(frames) == 0 {
		return reply{text: "The recording has ended. It has no pictures, because nothing was shown."}, nil
	}
	list, err := json.Marshal(frames)
	if err != nil {
		return reply{}, err
	}
	page := strings.Replace(player, "__FRAMES__", string(list), 1)
	if err := rec.hands.WriteFile(ctx, path.Join(rec.dir, "index.html"), []byte(page), tool.WriteOptions{Parents: true}); err != nil {
		return reply{}, err
	}
	text := fmt.Sprintf("The recording has ended: %d pictures in %v, in %s. Its index.html plays them.",
		len(frames), time.Since(rec.started).Round(time.Second), rec.dir)
	if full {
		text += " It reached the most that is recorded, and ends before its time."
	}
	return reply{text: text, saveDir: rec.dir}, nil
}

// frame stores a picture. The browser sends no other one before this is confirmed,
// so that a slow sandbox slows the pictures and nothing piles up.
func (t *tabs) frame(conn sender, e cdp.Event) {
	var p struct {
		Data string `json:"data"`
		ID   int    `json:"sessionId"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	defer conn.Send(e.Session, "Page.screencastFrameAck", map[string]any{"sessionId": p.ID})
	rec, next, ok := t.nextFrame(e.Session, time.Now())
	if !ok {
		return
	}
	data, err := base64.StdEncoding.DecodeString(p.Data)
	if err != nil {
		return
	}
	if err := rec.hands.WriteFile(conn.Context(), path.Join(rec.dir, next.File), data, tool.WriteOptions{Parents: true}); err != nil {
		return
	}
	t.update(func() {
		rec.frames = append(rec.frames, next)
		rec.bytes += len(data)
	})
}

// nextFrame names the picture that is due, if one is.
func (t *tabs) nextFrame(session string, now time.Time) (*recording, frame, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, x := t.record, t.bySessionLocked(session)
	if rec == nil || x == nil || x.target != t.active || now.Sub(rec.last) < frameDistance {
		return nil, frame{}, false
	}
	if len(rec.frames) >= maxFrameCount || rec.bytes >= maxFrameBytes {
		rec.full = true
		return nil, frame{}, false
	}
	rec.last = now
	return rec, frame{File: fmt.Sprintf("%05d.jpg", len(rec.frames)+1), At: now.Sub(rec.started).Milliseconds(), URL: x.url}, true
}
