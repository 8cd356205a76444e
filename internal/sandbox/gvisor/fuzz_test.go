package gvisor

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"ociVersion":"1.1.0","id":"parley-sandbox","status":"paused","pid":1,"bundle":"/b"}`))
	f.Add([]byte(`{"status":7}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if status, err := parseState(data); (status == "") != (err != nil) {
			t.Errorf("%q, %v", status, err)
		}
	})
}

func FuzzParseInside(f *testing.F) {
	f.Add([]byte(`{"token":"t","working_dir":"/workspace/project","env":{"A":"b"},"no_set_id":true}`))
	f.Add([]byte(`{"token":"","working_dir":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := parseInside(data)
		if err == nil && (in.Token == "" || !filepath.IsAbs(in.WorkingDir)) {
			t.Errorf("%+v", in)
		}
	})
}

func FuzzParsePID(f *testing.F) {
	f.Add([]byte("123\n"))
	f.Add([]byte("-1"))
	f.Add([]byte("99999999999999999999"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if pid, err := parsePID(data); err == nil && pid <= 1 {
			t.Errorf("%q is %d", data, pid)
		}
	})
}

// FuzzStopped: whatever a process calls itself, its state is what follows the name.
func FuzzStopped(f *testing.F) {
	f.Add("runsc-sandbox", "S")
	f.Add(") T 1 (", "R")
	f.Add("", "T")
	f.Fuzz(func(t *testing.T, name, state string) {
		_ = stopped([]byte(name))
		if len(state) != 1 || strings.ContainsAny(state, ") ") {
			return
		}
		if got := stopped([]byte("7 (" + name + ") " + state + " 1 7 7 0")); got != (state == "T") {
			t.Errorf("%q in state %s: %v", name, state, got)
		}
	})
}

// FuzzHeadBuffer: it takes everything and keeps a bounded part.
func FuzzHeadBuffer(f *testing.F) {
	f.Add([]byte("error"), 700)
	f.Fuzz(func(t *testing.T, data []byte, times int) {
		b := &headBuffer{}
		for range min(max(times, 0), 1000) {
			if n, err := b.Write(data); n != len(data) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if len(b.String()) > 2<<10 {
			t.Errorf("%d bytes", len(b.String()))
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"spec":{"ID":"x"},"ground":{"program":"p","layer":"l","token":"t"},"process":{"pid":1,"start":2,"boot":"b"},"paused":true}`))
	f.Add([]byte(`{"group":{"dirs":{"x":"../.."}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec record
		d := dir(t.TempDir())
		if d.load(&rec) == nil {
			t.Error("there is none yet")
		}
		if err := d.save(json.RawMessage(data)); err != nil {
			return // no JSON
		}
		if d.load(&rec) == nil && rec.Process.PID > 0 && rec.Process.Boot == "" && rec.Process.Alive() {
			t.Error("a process of no boot is alive")
		}
	})
}
