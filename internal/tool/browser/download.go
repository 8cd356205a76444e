package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"time"

	"parley/internal/tool/browser/cdp"
)

// downloadTime is how long a call waits for a download that it began.
const downloadTime = 60 * time.Second

// maxDownloads is how many downloads are remembered.
const maxDownloads = 100

// download is a file that the browser fetches.
type download struct {
	name  string
	state string // inProgress, completed, canceled
}

// downloadDir is where downloads go: the workspace, where the agent finds them.
func (b *browser) downloadDir() string { return path.Join(b.env.WorkingDir, "downloads") }

func (t *tabs) downloadBegins(_ sender, e cdp.Event) {
	var p struct {
		GUID string `json:"guid"`
		Name string `json:"suggestedFilename"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	t.update(func() {
		if len(t.downloads) >= maxDownloads {
			clear(t.downloads)
		}
		t.downloads[p.GUID] = &download{name: p.Name, state: "inProgress"}
		t.noteLocked("A download began: %s.", clip(oneLine(p.Name), 200))
	})
}

func (t *tabs) downloadProgress(_ sender, e cdp.Event) {
	var p struct {
		GUID  string  `json:"guid"`
		State string  `json:"state"`
		Path  string  `json:"filePath"`
		Bytes float64 `json:"receivedBytes"`
	}
	if json.Unmarshal(e.Params, &p) != nil || p.State == "inProgress" {
		return
	}
	t.update(func() {
		d := t.downloads[p.GUID]
		if d == nil || d.state == p.State {
			return
		}
		d.state = p.State
		if p.State != "completed" {
			t.noteLocked("The download of %s was broken off.", clip(oneLine(d.name), 200))
			return
		}
		t.noteLocked("The download is complete: %s (%.0f bytes).", clip(cmp.Or(p.Path, d.name), 500), p.Bytes)
	})
}

// downloading tells that a download began that has not ended.
func (b *browser) downloading() bool {
	b.tabs.mu.Lock()
	defer b.tabs.mu.Unlock()
	return b.tabs.runningLocked() > 0
}

func (t *tabs) runningLocked() int {
	n := 0
	for _, d := range t.downloads {
		if d.state == "inProgress" {
			n++
		}
	}
	return n
}

// finishDownload waits for a download that a navigation turned out to be. What became
// of it is in the notes.
func (b *browser) finishDownload(ctx context.Context, target string) (reply, error) {
	begun, cancel := context.WithTimeout(ctx, 2*time.Second)
	_ = b.tabs.wait(begun, func() bool { return len(b.tabs.downloads) > 0 })
	cancel()
	limited, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	err := b.tabs.wait(limited, func() bool { return b.tabs.runningLocked() == 0 })
	if ctx.Err() != nil {
		return reply{}, context.Cause(ctx)
	}
	text := fmt.Sprintf("%s is a download, not a page. Downloads go to %s.", clip(target, 200), b.downloadDir())
	if err != nil {
		text += " It goes on; later calls tell when it is complete."
	}
	return reply{text: text}, nil
}
