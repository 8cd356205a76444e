package legacy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/legacy"
)

// shown renders a recording in short.
func shown(r *legacy.Replay) string {
	lines := []string{"first: " + content.JoinText(r.First)}
	for _, i := range r.Items {
		line := i.Source + ": " + content.JoinText(i.Parts)
		if i.Call != nil {
			line += " -> " + i.Call.Name + " " + i.Call.Arguments
		}
		if i.Waits {
			line += " (waits)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

const hi = `{"source":"user","action":"message","args":{"content":"hi"}}`

// The rules of legacy API 16, and what an export of this server and of others has in it.
func TestParseReplay(t *testing.T) {
	for name, c := range map[string]struct{ events, want string }{
		"what is no action of somebody's is left out": {`
			{"id":0,"source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"loading"}},
			{"id":1,"source":"agent","action":"system","args":{"content":"s"}}, ` + hi + `,
			{"source":"environment","action":"change_agent_state","args":{"agent_state":"running"}},
			{"source":"user","action":"recall","args":{"recall_type":"knowledge","query":"hi"}},
			{"source":"environment","action":"run","args":{"command":"setup"}},
			{"source":"agent","action":"null","args":{}}, {"source":"agent","observation":"null","content":"","extras":{}},
			{"source":"agent","action":"condensation","args":{"forgotten_event_ids":[1]}}`, "first: hi"},
		"calls are those of tools": {hi + `,
			{"source":"agent","action":"run","args":{"command":"ls","thought":"look","security_risk":2},"timeout":120.0},
			{"source":"agent","observation":"run","content":"x","cause":1,"extras":{"command":"ls"}},
			{"source":"agent","action":"read","args":{"path":"/a"}}, {"source":"agent","action":"read","args":{"path":"/a","start":2,"end":5}},
			{"source":"agent","action":"edit","args":{"path":"/a","command":"str_replace","old_str":"a","new_str":""}},
			{"source":"agent","action":"call_tool_mcp","args":{"name":"fetch","arguments":{"u":1}}},
			{"source":"agent","action":"task_tracking","args":{"command":"plan","task_list":[{"id":"1","title":"t","status":"todo"}]}},
			{"source":"agent","action":"browse","args":{"url":"http://x"}},
			{"source":"agent","action":"browse_interactive","args":{"browser_actions":"goto(\"http://y\")"}},
			{"source":"agent","action":"write","args":{"path":"/d/f","content":"it's"}},
			{"source":"agent","action":"think","args":{"thought":"hm"}},
			{"source":"agent","action":"finish","args":{"final_thought":"done","thought":"t"}}`, `first: hi
agent: look -> terminal {"command":"ls","is_input":false,"security_risk":"HIGH","timeout":120}
agent:  -> file_editor {"command":"view","path":"/a"}
agent:  -> file_editor {"command":"view","path":"/a","view_range":[3,5]}
agent:  -> file_editor {"command":"str_replace","new_str":"","old_str":"a","path":"/a"}
agent:  -> fetch {"u":1}
agent:  -> task_tracker {"command":"plan","task_list":[{"status":"todo","title":"t"}]}
agent:  -> browser_navigate {"url":"http://x"}
agent:  -> browser_navigate {"url":"http://y"}
agent:  -> terminal {"command":"mkdir -p -- '/d' && printf %s 'it'\\''s' > '/d/f'","is_input":false}
agent:  -> think {"thought":"hm"}
agent: t -> finish {"message":"done"}`},
		"messages keep their source and images": {hi + `,
			{"source":"agent","action":"message","args":{"content":"well?","wait_for_response":true}},
			{"source":"agent","action":"message","args":{"content":"  "}},
			{"source":"user","action":"message","args":{"content":"yes","images_urls":["data:x"],"timestamp":"t"}}`,
			"first: hi\nagent: well? (waits)\nuser: yes"},
		"an edit of an old version is in the model's own call": {hi + `,
			{"source":"agent","action":"edit","args":{"path":"/a","content":"","translated_ipython_code":"x"},"tool_call_metadata":{
			"tool_call_id":"c","model_response":{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"arguments":"{\"command\":\"create\",\"path\":\"/a\",\"file_text\":\"t\"}"}}]}}]}}}`,
			"first: hi\nagent:  -> file_editor {\"command\":\"create\",\"file_text\":\"t\",\"path\":\"/a\"}"},
		"a command of the user's is the user's": {hi + `,{"source":"user","action":"run","args":{"command":"ls","hidden":false}},
			{"kind":"MessageEvent","id":"1","timestamp":"t","source":"environment","sender":"user_terminal","llm_message":{"role":"user","content":[{"type":"text","text":"l"},{"type":"text","text":"$ pwd"}]}}`,
			"first: hi\nuser:  -> terminal {\"command\":\"ls\"}\nuser:  -> terminal {\"command\":\"pwd\"}"},
		"what was confirmed runs once": {hi + `,
			{"source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"awaiting_user_confirmation"}},
			{"source":"agent","action":"edit","args":{"path":"/a","command":"undo_edit"}},
			{"source":"user","action":"change_agent_state","args":{"agent_state":"user_confirmed"}},
			{"source":"agent","action":"edit","args":{"path":"/a","command":"undo_edit"}},
			{"source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"user_confirmed"}},
			{"source":"agent","action":"run","args":{"command":"x","confirmation_state":"awaiting_confirmation"}}`,
			"first: hi\nagent:  -> file_editor {\"command\":\"undo_edit\",\"path\":\"/a\"}"},
		"what was rejected does not run": {hi + `,
			{"source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"awaiting_user_confirmation"}},
			{"source":"agent","action":"edit","args":{"path":"/a","command":"undo_edit"}},
			{"source":"user","action":"change_agent_state","args":{"agent_state":"user_rejected"}},
			{"source":"agent","action":"edit","args":{"path":"/a","command":"undo_edit"}},
			{"source":"environment","observation":"agent_state_changed","content":"","extras":{"agent_state":"user_rejected"}},
			{"source":"agent","action":"run","args":{"command":"y","confirmation_state":"rejected"}}`, "first: hi"},
		"events of a log": {`
			{"kind":"ConversationStateUpdateEvent","id":"0","timestamp":"t","source":"environment","key":"execution_status","value":"running"},
			{"kind":"MessageEvent","id":"1","timestamp":"t","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"go"}]}},
			{"kind":"ActionEvent","id":"2","timestamp":"t","source":"agent","thought":[],"action":{"kind":"X"},"tool_name":"terminal","tool_call_id":"c","tool_call":{"id":"c","name":"terminal","arguments":"{}"}},
			{"kind":"ActionEvent","id":"3","timestamp":"t","source":"agent","thought":[],"action":{"kind":"X"},"tool_name":"no","tool_call_id":"d","tool_call":{"id":"d","name":"no","arguments":"{}"}},
			{"kind":"UserRejectObservation","id":"4","timestamp":"t","source":"environment","action_id":"3"},
			{"kind":"ActionEvent","id":"5","timestamp":"t","source":"agent","thought":[],"tool_name":"bad","tool_call_id":"e","tool_call":{"id":"e","name":"bad","arguments":"{}"}},
			{"kind":"MessageEvent","id":"6","timestamp":"t","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}`,
			"first: go\nagent:  -> terminal {}\nagent: done (waits)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{`[%s]`, ` {"trajectory":[%s]}`} {
				r, err := legacy.ParseReplay(fmt.Appendf(nil, form, c.events))
				if err != nil {
					t.Fatal(err)
				}
				if got := shown(r); got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
			}
		})
	}
}

func TestReplayIsRefusedWithTheReason(t *testing.T) {
	for raw, want := range map[string]string{
		``: "no JSON list", `{`: "no JSON list", `null`: "no JSON list", `7`: "no JSON list", `{}`: "no JSON list", `{"trajectory":null}`: "no JSON list",
		`[]`: "no message of the user's", `[7]`: "event 0, counted from 0: it is no JSON object", `[null]`: "neither",
		`[{"action":"fly"}]`:                      `there is no action "fly"`,
		`[{"action":3}]`:                          "there is no action of that kind",
		`[{"observation":"x"}]`:                   "there is no observation",
		`[{"action":"message","source":"devil"}]`: "there is no source",
		`[{"action":"message","args":{}}]`:        "the message is empty",
		`[{"action":"message","args":[]}]`:        "no JSON object of the form",
		`[{"source":"agent","action":"run","args":{"command":"ls"}},` + hi + `]`:                                 "event 0 (run), counted from 0: the first event",
		`[{"source":"agent","action":"message","args":{"content":"ls"}}]`:                                        "the first event",
		`[` + hi + `,{"source":"agent","action":"run_ipython","args":{"code":"1"}}]`:                             "event 1 (run_ipython), counted from 0: no tool",
		`[` + hi + `,{"source":"agent","action":"delegate","args":{"agent":"A"}}]`:                               "no tool",
		`[` + hi + `,{"source":"agent","action":"run","args":{}}]`:                                               `no "command"`,
		`[` + hi + `,{"source":"agent","action":"read","args":{}}]`:                                              `no "path"`,
		`[` + hi + `,{"source":"agent","action":"edit","args":{"path":"/a","content":"x","impl_source":"llm"}}]`: "needs a model",
		`[` + hi + `,{"source":"agent","action":"browse_interactive","args":{"browser_actions":"click('12')"}}]`: "numbers of elements",
		`[` + hi + `,{"source":"agent","action":"write","args":{"path":"/a","content":"x","start":3}}]`:          "line numbers",
		`[` + strings.Repeat(hi+",", legacy.MaxReplayItems) + hi + `]`:                                           "more than 10000",
		`["` + strings.Repeat("x", legacy.MaxReplay) + `"]`:                                                      "longer than 8 MiB",
	} {
		if _, err := legacy.ParseReplay([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", raw, err, want)
		}
	}
}

// FuzzParseReplay: what is read can be stored, and begins with a message.
func FuzzParseReplay(f *testing.F) {
	for _, s := range []string{`[` + hi + `]`, `{"trajectory":[` + hi + `,{"source":"agent","action":"run","args":{"command":"\ud800"}}]}`,
		`[{"kind":"MessageEvent"}]`, `[{"action":"edit","args":{"insert_line":1e300},"tool_call_metadata":7}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := legacy.ParseReplay(raw)
		if err != nil {
			return
		}
		if len(r.First) == 0 {
			t.Error("no first message")
		}
		for _, i := range r.Items {
			if i.Call != nil && (i.Call.Name == "" || i.Call.ID == "") {
				t.Errorf("a call without a name or id: %+v", i.Call)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}
