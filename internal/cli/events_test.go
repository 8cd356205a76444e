package cli_test

import (
	"encoding/json"
	"fmt"
)

// event builds an event of the wire format: kind and source, then members.
func event(kind, source, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf(`{"kind":%q,"id":"e","timestamp":"2026-11-20T12:00:00.000001","source":%q%s}`, kind, source, members)
}

func str(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func status(s string) string {
	return event("ConversationStateUpdateEvent", "environment", `"key":"execution_status","value":"`+s+`"`)
}

func says(source, text string) string {
	role := "assistant"
	if source == "user" {
		role = "user"
	}
	return event("MessageEvent", source, `"llm_message":{"role":"`+role+`","content":[{"cache_prompt":false,"type":"text","text":`+
		str(text)+`}],"thinking_blocks":[]},"activated_skills":[],"extended_content":[]`)
}

func acts(tool, call, thought, action string) string {
	return event("ActionEvent", "agent", `"thought":[{"type":"text","text":`+str(thought)+`}],"thinking_blocks":[],"action":`+action+
		`,"tool_name":"`+tool+`","tool_call_id":"`+call+`","tool_call":{"id":"`+call+`","name":"`+tool+`","arguments":"{}","origin":"completion"},`+
		`"llm_response_id":"r1","security_risk":"UNKNOWN"`)
}

func terminal(call, command string) string {
	return acts("terminal", call, "", `{"kind":"TerminalAction","command":`+str(command)+`,"is_input":false,"reset":false}`)
}

func output(call, text string, exit int) string {
	return observes("terminal", call, fmt.Sprintf(`{"kind":"TerminalObservation","content":[{"type":"text","text":%s}],"is_error":false,"command":"x","exit_code":%d,"timeout":false,"metadata":{}}`, str(text), exit))
}

func observes(tool, call, observation string) string {
	return event("ObservationEvent", "environment", `"tool_name":"`+tool+`","tool_call_id":"`+call+`","action_id":"e","observation":`+observation+`,"extended_content":[]`)
}

func edits(call, command, path, before, after string) []string {
	return []string{
		acts("file_editor", call, "", `{"kind":"FileEditorAction","command":"`+command+`","path":"`+path+`"}`),
		observes("file_editor", call, `{"kind":"FileEditorObservation","content":[{"type":"text","text":"done"}],"is_error":false,"command":"`+command+
			`","path":"`+path+`","prev_exist":true,"old_content":`+str(before)+`,"new_content":`+str(after)+`}`),
	}
}

func delta(text string) entry {
	return live(event("StreamingDeltaEvent", "agent", `"content":`+str(text)))
}

// simpleRun is the log of a run that answers.
func simpleRun(question, answer string) []string {
	return []string{says("user", question), status("running"), says("agent", answer), status("finished")}
}
