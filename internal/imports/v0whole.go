package imports

import (
	"encoding/json"
	"maps"

	"parley/internal/content"
	"parley/internal/legacy"
)

// Members that clients of the legacy API want in events, with their defaults (legacy
// API 9.1-9.3).
var (
	argsOf = map[string]string{
		"message":            `{"file_urls":null,"image_urls":null,"wait_for_response":false,"security_risk":-1}`,
		"run":                `{"is_input":false,"thought":"","blocking":false,"is_static":false,"cwd":null,"hidden":false,"confirmation_state":"confirmed","security_risk":-1}`,
		"run_ipython":        `{"thought":"","include_extra":true,"confirmation_state":"confirmed","security_risk":-1,"kernel_init_code":""}`,
		"read":               `{"start":0,"end":-1,"thought":"","security_risk":-1,"impl_source":"default","view_range":null}`,
		"write":              `{"start":0,"end":-1,"thought":"","security_risk":-1}`,
		"edit":               `{"command":"","file_text":null,"old_str":null,"new_str":null,"insert_line":null,"content":"","start":1,"end":-1,"thought":"","security_risk":-1,"impl_source":"oh_aci"}`,
		"browse":             `{"thought":"","security_risk":-1,"return_axtree":false}`,
		"browse_interactive": `{"thought":"","browsergym_send_msg_to_user":"","security_risk":-1,"return_axtree":false}`,
		"call_tool_mcp":      `{"arguments":{},"thought":"","security_risk":-1}`,
		"finish":             `{"final_thought":"","outputs":{},"thought":""}`,
		"reject":             `{"outputs":{},"thought":""}`,
		"recall":             `{"thought":""}`,
		"change_agent_state": `{"thought":""}`,
		"task_tracking":      `{"thought":""}`,
	}
	extrasOf = map[string]string{
		"agent_state_changed": `{"reason":""}`,
		"error":               `{"error_id":""}`,
		"run":                 `{"hidden":false}`,
	}
)

// complete adds members that are missing. An event without source is the
// environment's, one without a message says nothing.
func complete(m map[string]json.RawMessage, e *legacy.Event) {
	with(m, "message", `""`)
	with(m, "source", `"environment"`)
	if e.Action != "" {
		nested(m, "args", argsOf[e.Action])
		return
	}
	with(m, "content", `""`)
	nested(m, "extras", extrasOf[e.Observation])
}

func with(m map[string]json.RawMessage, name, value string) {
	if v, ok := m[name]; !ok || string(v) == "null" {
		m[name] = json.RawMessage(value)
	}
}

// nested adds members to an object of the event.
func nested(m map[string]json.RawMessage, name, defaults string) {
	members := map[string]json.RawMessage{}
	if defaults != "" && json.Unmarshal([]byte(defaults), &members) != nil {
		return
	}
	own := map[string]json.RawMessage{}
	_ = json.Unmarshal(m[name], &own) // absent: none
	maps.Copy(members, own)
	if raw, err := content.Marshal(members); err == nil {
		m[name] = raw
	}
}
