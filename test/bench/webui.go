package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"parley/internal/conversation"
	"parley/test/testkit/longlog"
)

// webuiEvents is how long the conversation is that the browser opens.
const webuiEvents = 20_000

// webui measures the web UI in Chromium with a long conversation. Where something for
// it is missing, a row says so.
func (b *bench) webui() error {
	const what = "web UI"
	browser, err := exec.LookPath("chromium")
	if err != nil {
		b.rows = append(b.rows, row{what, "not measured: chromium is not installed", "", ""})
		return nil
	}
	if _, err := os.Stat(filepath.Join("web", "node_modules", "playwright-core")); err != nil {
		b.rows = append(b.rows, row{what, "not measured: scripts/web check installs what drives the browser", "", ""})
		return nil
	}
	b.data = "webui"
	defer func() { b.data = "" }()
	id, err := b.longConversation()
	if err != nil {
		return err
	}
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("web", "e2e", "speed.mjs"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "WEBUI_URL=" + b.url, "WEBUI_KEY=" + key, "WEBUI_BROWSER=" + browser, "WEBUI_ID=" + id}
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("web/e2e/speed.mjs: %w", err)
	}
	return b.webuiRows(raw)
}

// longConversation starts one and makes it long while the server is stopped.
func (b *bench) longConversation() (string, error) {
	if _, err := b.start(); err != nil {
		return "", err
	}
	defer b.stop()
	id, _, err := b.conversation(map[string]any{"title": "long", "initial_message": message("finish: begun")})
	if err != nil {
		return "", err
	}
	if err := b.waitFinished(id); err != nil {
		return "", err
	}
	b.stop()
	_, _, err = longlog.Grow(context.Background(), filepath.Join(b.dir, b.data), conversation.ID(id), longlog.Usual, webuiEvents)
	return id, err
}

// webuiRows reads what the browser measured: times in milliseconds, memory in MiB.
func (b *bench) webuiRows(raw []byte) error {
	var got struct {
		Cold     []float64 `json:"cold"`
		Warm     []float64 `json:"warm"`
		Jump     []float64 `json:"jump"`
		Live     []float64 `json:"live"`
		Frames   []float64 `json:"frames"`
		Requests int       `json:"requests"`
		Heap     float64   `json:"heapScrolled"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	for _, r := range []struct {
		what, goal string
		samples    []float64
	}{
		{fmt.Sprintf("web UI, 20,000 events: opened in a new browser (%d requests)", got.Requests), "≤ 1 s", got.Cold},
		{"web UI: opened from the list", "≤ 1 s", got.Warm},
		{"web UI: opened at an event in the middle", "", got.Jump},
		{"web UI: a frame while scrolling up from the end", "≤ 50 ms", got.Frames},
		{"web UI: a message sent, shown at the end of all of it", "", got.Live},
	} {
		if len(r.samples) == 0 {
			return fmt.Errorf("the browser measured nothing of %q", r.what)
		}
		samples := make([]time.Duration, len(r.samples))
		for i, ms := range r.samples {
			samples[i] = time.Duration(ms * float64(time.Millisecond))
		}
		slices.Sort(samples)
		b.add(r.what, r.goal, samples)
	}
	b.rows = append(b.rows, row{"web UI: the page's memory after scrolling", fmt.Sprintf("%.1f MiB", got.Heap), "", ""})
	return nil
}
