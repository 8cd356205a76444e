package ops

import (
	"encoding/json"
	"testing"
	"time"
)

// TestServerInfoTellsOfResources as the legacy API's clients read them (V0 section 14).
func TestServerInfoTellsOfResources(t *testing.T) {
	a := NewAbout(AboutConfig{Version: "0", Dir: t.TempDir()})
	for end := time.Now().Add(between + 10*time.Millisecond); time.Now().Before(end); { // takes some time of a processor
	}
	raw, err := json.Marshal(a.ServerInfo())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Uptime    *int64 `json:"uptime"`
		IdleTime  *int64 `json:"idle_time"`
		Resources map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &got); err != nil || got.Uptime == nil || got.IdleTime == nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for name, members := range map[string][]string{"memory": {"rss", "vms", "percent"}, "disk": {"total", "used", "free", "percent"}} {
		var v map[string]float64
		if err := json.Unmarshal(got.Resources[name], &v); err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if v[m] <= 0 {
				t.Errorf("%s.%s is %v", name, m, v[m])
			}
		}
	}
	var cpu float64
	if err := json.Unmarshal(got.Resources["cpu_percent"], &cpu); err != nil || cpu <= 0 {
		t.Errorf("cpu_percent %v %v", cpu, err)
	}
	var io map[string]float64
	if err := json.Unmarshal(got.Resources["io"], &io); err != nil || len(io) != 2 {
		t.Errorf("io %v %v", io, err)
	}
}

func TestWhatTheSystemDoesNotTellIsZero(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"": 0, "MemTotal:": 0, "MemTotal: x kB": 0, "MemTotal:  12 kB\n": 12, "A: 1\nMemTotal: 7": 7,
		"MemTotal: -1": 0, "MemTotal: 99999999999999999999": 0} {
		if got := member(text, "MemTotal:"); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if got := (&meter{dir: "/nowhere"}).measure(); got.Disk.Total != 0 || percent(1, 0) != 0 {
		t.Errorf("%+v", got.Disk)
	}
}
