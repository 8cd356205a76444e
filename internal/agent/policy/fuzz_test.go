package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"parley/internal/agent/policy"
	"parley/internal/conversation"
)

// fuzzLimit is how long judging anything may take.
const fuzzLimit = 10 * time.Second

// checkCall judges a call with every analyzer and checks what must always hold.
func checkCall(t *testing.T, c policy.Call) {
	start := time.Now()
	pattern, rails := judge(kind(conversation.AnalyzerPattern), c), judge(kind(conversation.AnalyzerRails), c)
	if took := time.Since(start); took > fuzzLimit {
		t.Fatalf("took %s", took)
	}
	for _, v := range []policy.Verdict{pattern, rails} {
		if !slices.Contains(risks, v.Risk) || v.Confirm != (v.Risk == high || v.Risk == unknown) {
			t.Fatalf("%+v", v)
		}
		if v.Failed && json.Valid(c.Action) && len(c.Action) > 0 && c.Action[0] == '{' {
			t.Fatalf("an analyzer failed: %+v", v)
		}
	}
	if rails.Risk == high && pattern.Risk != high {
		t.Fatalf("the rails say %+v, the patterns %+v", rails, pattern)
	}
	if again := judge(kind(conversation.AnalyzerPattern), c); again != pattern {
		t.Fatalf("%+v, then %+v", pattern, again)
	}
}

func FuzzShell(f *testing.F) {
	for _, command := range everyday {
		f.Add(command)
	}
	for _, rule := range slices.Sorted(maps.Keys(dangerous)) {
		for _, command := range dangerous[rule] {
			f.Add(command)
		}
	}
	f.Fuzz(func(t *testing.T, command string) {
		raw, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Skip()
		}
		checkCall(t, policy.Call{Tool: "terminal", Action: raw})
	})
}

func FuzzAction(f *testing.F) {
	for _, seed := range []string{`{}`, `{"command":"ls"}`, `{"command":["rm","-rf","/"],"args":["x"]}`, `{"path":"/etc/passwd","content":"#!/bin/sh\nrm -rf /"}`, `{"patch":"*** Add File: a.sh\n+rm -rf /"}`,
		`{"data":{"code":"os.system('rm -rf /')","query":"drop database x","url":"file:///etc/shadow"}}`, `{"a":[[["x"]]],"b":null,"c":1.5}`, `[]`, `null`, `{"command":"\ud800"}`, `{"command":"`} {
		f.Add("terminal", []byte(seed))
		f.Add("other", []byte(seed))
		f.Add("file_editor", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name string, action []byte) {
		checkCall(t, policy.Call{Tool: name, Action: action, Destructive: len(name)%2 == 0})
	})
}
