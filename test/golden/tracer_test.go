package golden_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/test/testkit/openaitest"
)

// tracer writes a trace.
type tracer struct {
	out   strings.Builder
	words []string          // of the scenario, shown in quotes
	names map[string]string // e1, e2, ... by event id
	last  map[string][]string
	model string // that was asked last
}

// trace writes the part of one conversation: its frames in their order, with what
// happened in between.
func (tr *tracer) trace(t *talk) {
	tr.last = map[string][]string{}
	frames := t.ws.frames()
	at, events := 0, 0
	next := func() {
		if !frames[at].isFull() {
			events++
		}
		tr.frame(frames[at])
		at++
	}
	for i, m := range t.marks {
		limit := len(frames)
		for _, later := range t.marks[i:] {
			if later.ask == nil {
				limit = later.frames
				break
			}
		}
		for at < limit && (m.ask == nil || events < m.head || frames[at].isFull()) {
			next()
		}
		if tr.line("%s", m.label); m.ask != nil {
			tr.request(m.ask)
		}
	}
	for at < len(frames) {
		next()
	}
}

func (tr *tracer) line(format string, args ...any) {
	fmt.Fprintf(&tr.out, format, args...)
	tr.out.WriteByte('\n')
}

// frame writes a frame.
func (tr *tracer) frame(e event) {
	switch {
	case e.isFull():
		tr.line("# full_state %s", e.status())
		return
	case e.isState():
		tr.line("~ %s", tr.update(e))
		return
	}
	name := tr.names[e.str("id")]
	if name == "" {
		name = fmt.Sprintf("e%d", len(tr.names)+1)
		tr.names[e.str("id")] = name
	}
	rest := members(maps.Clone(e))
	line := strings.TrimRight(fmt.Sprintf("%s %s %s %s", name, rest.text("source"), rest.text("kind"), tr.event(e.kind(), rest)), " ")
	if parent := rest.text("parent_id"); parent != "" {
		line += ", parent " + tr.name(parent)
	}
	for _, known := range []string{"id", "timestamp"} {
		delete(rest, known)
	}
	if len(rest) > 0 {
		line += " AND " + compact(rest)
	}
	tr.line("%s", line)
}

// name is what the trace calls an event.
func (tr *tracer) name(id string) string {
	of, summary := strings.CutSuffix(id, "-summary") // of a condensation, in the model's view only
	n := tr.names[of]
	switch {
	case n == "":
		return id
	case summary:
		return n + "-summary"
	}
	return n
}

func (tr *tracer) update(e event) string {
	key, value := e.str("key"), e["value"]
	switch key {
	case "execution_status":
		return fmt.Sprintf("%s %v", key, value)
	case "stats":
		return key
	case "leaf_event_id":
		id, _ := value.(string)
		if id == "" {
			return key + " null"
		}
		return key + " " + tr.name(id)
	}
	return key + " " + compact(tr.plain(value))
}

// plain puts words of our own that are somewhere in a value into the trace's form.
func (tr *tracer) plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if out[k] = tr.plain(x); k == "wait_seconds" || k == "conversation_id" { // they differ each time
				out[k] = "<..>"
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = tr.plain(v[i])
		}
		return out
	case string:
		if strings.Contains(v, " ") && !slices.Contains(tr.words, v) {
			return tr.say(v)
		}
	}
	return v
}

// members are those of an object that the trace has not shown yet.
type members map[string]any

func (m members) take(key string) any {
	v := m[key]
	delete(m, key)
	return v
}

func (m members) text(key string) string { s, _ := m.take(key).(string); return s }
func (m members) object(key string) members {
	o, _ := m.take(key).(map[string]any)
	return maps.Clone(o)
}

// empty drops members that may be there without saying anything.
func (m members) empty(keys ...string) {
	for _, key := range keys {
		if list, ok := m[key].([]any); ok && len(list) == 0 {
			delete(m, key)
		}
	}
}

// texts renders the text parts of a list, and names the others.
func (tr *tracer) texts(list any) string {
	parts, _ := list.([]any)
	var out []string
	for _, p := range parts {
		o, _ := p.(map[string]any)
		if s, ok := o["text"].(string); ok {
			out = append(out, tr.say(s))
		} else {
			out = append(out, fmt.Sprint(o["type"]))
		}
	}
	return strings.Join(out, " + ")
}

// event renders what is particular to a kind, and takes the members it shows.
func (tr *tracer) event(kind string, m members) string {
	var w words
	switch kind {
	case "SystemPromptEvent":
		m.take("system_prompt")
		w.add("tools")
		for _, tool := range m.take("tools").([]any) {
			w.add(tool.(map[string]any)["title"])
		}
	case "MessageEvent":
		tr.message(&w, m)
	case "ActionEvent":
		tr.action(&w, m)
	case "ObservationEvent":
		o := m.object("observation")
		w.add(m.take("tool_call_id"), m.take("tool_name"), "of", tr.name(m.text("action_id")), o.take("kind"))
		w.when(o.take("is_error") == true, "failed")
		w.given("exit", o.take("exit_code"))
		w.add(tr.texts(o.take("content")))
		for _, own := range []string{"skill_name", "subagent", "task_id", "status"} {
			w.given(own, o.take(own))
		}
		tr.extended(&w, m)
	case "UserRejectObservation":
		w.add(m.take("tool_call_id"), m.take("tool_name"), "of", tr.name(m.text("action_id")), "by", m.take("rejection_source"),
			tr.say(m.text("rejection_reason")))
	case "AgentErrorEvent":
		w.add(m.take("tool_call_id"), m.take("tool_name"), classification(m), tr.say(m.text("error")))
	case "ConversationErrorEvent":
		w.add(m.take("code"), classification(m), tr.say(m.text("detail")))
	case "Condensation":
		tr.condensation(&w, m)
	case "HookExecutionEvent":
		tr.hook(&w, m)
	}
	return w.String()
}

// words are joined by spaces.
type words []string

func (w *words) add(values ...any) {
	for _, v := range values {
		if s := fmt.Sprint(v); s != "" {
			*w = append(*w, s)
		}
	}
}

func (w *words) when(ok bool, values ...any) {
	if ok {
		w.add(values...)
	}
}

func (w *words) given(name string, value any) { w.when(value != nil, name, value) }

func (w *words) String() string { return strings.Join(*w, " ") }

func (tr *tracer) message(w *words, m members) {
	said := m.object("llm_message")
	w.add(said.take("role"), tr.texts(said.take("content")))
	if reasoning := said.text("reasoning_content"); reasoning != "" {
		w.add("reasoning", tr.say(reasoning))
	}
	said.empty("thinking_blocks")
	m.empty("activated_skills")
	if skills := m.take("activated_skills"); skills != nil {
		w.add("activates", compact(skills))
	}
	tr.extended(w, m)
	if id := m.text("llm_response_id"); id != "" {
		w.add("(" + id + ")")
	}
	w.when(len(said) > 0, "AND", said)
	tr.critic(w, m)
}

// extended renders what skills and hooks put beside an event.
func (tr *tracer) extended(w *words, m members) {
	m.empty("extended_content")
	if more := m.take("extended_content"); more != nil {
		w.add("with", tr.texts(more))
	}
}

// hook renders the run of a hook. What it read is shown by its event and what it is
// about: where it works and in which conversation, differs.
func (tr *tracer) hook(w *words, m members) {
	in := m.object("hook_input")
	w.add(m.take("hook_event_type"), m.text("tool_name"))
	if id := m.text("action_id"); id != "" {
		w.add("of", tr.name(id))
	}
	m.take("message_id") // of an event that comes behind it
	w.add(fmt.Sprintf("exit %v", m.take("exit_code")))
	w.when(m.take("success") == true, "ok")
	w.when(m.take("blocked") == true, "blocks")
	for _, name := range []string{"reason", "additional_context", "error", "stdout", "stderr"} {
		if s := m.text(name); s != "" {
			w.add(name, tr.say(strings.TrimSpace(s)))
		}
	}
	m.take("hook_command")
	for _, known := range []string{"working_dir", "session_id", "event_type", "tool_name", "metadata"} {
		in.take(known)
	}
	if o := in.object("tool_response"); o != nil { // the machine is in it
		in["tool_response"] = o["kind"]
	}
	for name, v := range in {
		if v == nil {
			delete(in, name)
		}
	}
	w.add("read", compact(in))
}

func (tr *tracer) critic(w *words, m members) {
	if c := m.object("critic_result"); c != nil {
		w.add("score", c.take("score"))
		if s := c.text("message"); s != "" {
			w.add(tr.say(s))
		}
		delete(c, "metadata")
		w.when(len(c) > 0, "AND", c)
	}
}

func (tr *tracer) action(w *words, m members) {
	call := m.object("tool_call")
	id, tool, args := m.text("tool_call_id"), m.text("tool_name"), call.text("arguments")
	w.add(id, tool)
	w.when(call.take("id") != id, "WITH ANOTHER ID IN THE CALL")
	if name := call.take("name"); name != tool {
		w.add("called", name)
	}
	delete(call, "origin")
	w.when(len(call) > 0, "AND", call)
	w.add(fmt.Sprintf("(%s)", m.take("llm_response_id")))
	if thought := tr.texts(m.take("thought")); thought != "" {
		w.add("thought", thought)
	}
	if reasoning := m.text("reasoning_content"); reasoning != "" {
		w.add("reasoning", tr.say(reasoning))
	}
	m.empty("thinking_blocks")
	action, risk, summary := m.object("action"), m.take("security_risk"), m.text("summary")
	w.add(tr.does(action, args))
	w.when(risk != "UNKNOWN", "risk", risk)
	ofCall := tool + ": " + args
	if len([]rune(ofCall)) > 200 {
		ofCall = string([]rune(ofCall)[:200]) + "..."
	}
	switch {
	case action != nil && summary == "":
		w.add("WITHOUT SUMMARY")
	case summary != "" && summary != ofCall:
		w.add("summary", fmt.Sprintf("%q", summary))
	}
	tr.critic(w, m)
}

// does renders an action, and the arguments of the call where they are more than it.
func (tr *tracer) does(action members, args string) string {
	if action == nil {
		return "not executable, arguments " + args
	}
	kind := action.take("kind")
	for key, v := range action {
		if v == false || v == "" {
			delete(action, key)
		}
	}
	var given map[string]any
	_ = json.Unmarshal([]byte(args), &given)
	own := compact(action)
	if compact(given) == own {
		return fmt.Sprintf("%v %s", kind, own)
	}
	return fmt.Sprintf("%v %s, arguments %s", kind, own, args)
}

func classification(m members) string {
	c := m.object("classification")
	out := fmt.Sprint(c.take("kind"))
	if c.take("retryable") == true {
		out += ", retryable"
	}
	out += fmt.Sprintf(", the user: %v", c.take("user_action"))
	if len(c) > 0 {
		out += fmt.Sprint(" AND ", c)
	}
	return "[" + out + "]"
}

func (tr *tracer) condensation(w *words, m members) {
	var ids []string
	for _, id := range m.take("forgotten_event_ids").([]any) {
		ids = append(ids, tr.name(fmt.Sprint(id)))
	}
	w.add("forgets", strings.Join(ids, " "))
	w.given("offset", m.take("summary_offset"))
	w.add(tr.say(m.text("summary")))
	w.add(fmt.Sprintf("(%v)", m.take("llm_response_id")))
}

// request writes what the model reads. What it read the last time is left out.
func (tr *tracer) request(a *ask) {
	var lines []string
	for _, m := range a.req.Messages {
		lines = append(lines, tr.read(m))
	}
	who := a.name[:1]
	same := 0
	for before := tr.last[who]; same < min(len(before), len(lines)) && before[same] == lines[same]; same++ {
	}
	tr.last[who] = lines
	if tr.model != "" && tr.model != a.req.Model {
		tr.line("    of %s", a.req.Model)
	}
	tr.model = a.req.Model
	if same > 0 && who == "r" {
		tr.line("    (%d as before)", same)
		lines = lines[same:]
	}
	for _, l := range lines {
		tr.line("    %s", l)
	}
}

func (tr *tracer) read(m openaitest.Message) string {
	if m.Role == "system" {
		return m.Role
	}
	var w words
	w.add(m.Role, m.ToolCallID)
	var parts []any
	var whole string
	if json.Unmarshal(m.Content, &whole) == nil {
		if !bytes.Equal(m.Content, []byte("null")) {
			w.add(tr.say(whole))
		}
	} else if json.Unmarshal(m.Content, &parts) == nil {
		w.add(tr.texts(parts))
	}
	for _, c := range m.ToolCalls {
		w.add(c.ID, c.Function.Name, *c.Function.Arguments)
	}
	return w.String()
}

// say renders a text: in quotes if it is one of the scenario's, or several of them
// below each other; else as our own words with what they contain of those.
func (tr *tracer) say(s string) string {
	if s == "" || slices.Contains(tr.words, s) {
		return strconv.Quote(s)
	}
	var quoted []string
	rest, only := s, true // the scenario's
	for rest != "" {
		at, word := tr.first(rest)
		if at < 0 {
			break
		}
		quoted = append(quoted, strconv.Quote(word))
		only = only && strings.TrimSpace(rest[:at]) == ""
		rest = rest[at+len(word):]
	}
	if only && len(quoted) > 0 && strings.TrimSpace(rest) == "" {
		return strings.Join(quoted, " + ")
	}
	out := "<.."
	for _, q := range quoted {
		out += " " + q + " .."
	}
	return out + ">"
}

// first finds the first of the scenario's texts in a text, and the longest one that
// begins there.
func (tr *tracer) first(s string) (at int, word string) {
	at = -1
	for _, w := range tr.words {
		i := strings.Index(s, w)
		if w == "" || i < 0 || at >= 0 && (i > at || i == at && len(w) <= len(word)) {
			continue
		}
		at, word = i, w
	}
	return at, word
}
