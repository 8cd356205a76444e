package workertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// What the user says to the worker.
const (
	Task = "Count in count.txt, one number a line." // begins the task
	Wish = "end every further line with the word done"
	Look = "Look at the file before you go on."
)

// File is the file that the worker counts in, in the working directory.
const File = "count.txt"

// counted is how a number shows in the file, in results, and in summaries.
var counted = regexp.MustCompile(`count=(\d+)`)

// Words of tool results that the worker acts on.
const (
	stillRuns = "still running" // a command of an earlier call
)

// think decides what to do next.
func (w *Worker) think(r *http.Request, wire string, h *history) llmtest.Reply {
	last := item{}
	if n := len(h.items); n > 0 {
		last = h.items[n-1]
	}
	switch {
	case len(h.tools) == 0:
		return w.summarise(last.text)
	case strings.Contains(last.text, "<question>"):
		w.note("questions")
		return llmtest.Reply{Text: fmt.Sprintf("I am at %d.", h.at())}
	}
	if n := w.note("steps " + wire); n%37 == 30 {
		return llmtest.Reply{Fail: llm.ClassRateLimit}
	} else if n%53 == 40 {
		return llmtest.Reply{Fail: llm.ClassOverloaded}
	}
	if !h.mentions(Task, said, summary) {
		w.problem("%s: the task is not in the history any more", wire)
		return llmtest.Reply{Text: "What shall I do?"}
	}
	n, ok := h.known()
	switch {
	case h.busy():
		return w.act("stop the command", use("terminal", map[string]any{"command": "C-c", "is_input": true}))
	case !ok:
		return w.act("look", use("terminal", map[string]any{"command": "tail -n 1 " + File + " 2>/dev/null | grep . || echo count=0"}))
	case n >= w.cfg.Target:
		return w.act("finish", use("finish", map[string]any{"message": "Counted to " + strconv.Itoa(n) + "."}))
	}
	return w.count(r, n+1, h.mentions(Wish, said, summary))
}

// mentions reports whether an item of these kinds has a text.
func (h *history) mentions(text string, kinds ...kind) bool {
	for _, i := range h.items {
		for _, k := range kinds {
			if i.kind == k && strings.Contains(i.text, text) {
				return true
			}
		}
	}
	return false
}

// at is the last number that is mentioned.
func (h *history) at() int {
	last := 0
	for _, i := range h.items {
		if n, ok := lastNumber(i.text); ok && i.kind != call {
			last = n
		}
	}
	return last
}

func lastNumber(text string) (int, bool) {
	all := counted.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	return n, err == nil
}

// known is how far the count is, as far as the end of the history says. It is not
// known if the user spoke last, or if a call that was to write or to show a number
// does not tell one.
func (h *history) known() (int, bool) {
	wrote := map[string]bool{}
	for _, i := range h.items {
		if i.kind == call && (i.name == "terminal" || strings.Contains(i.text, `"insert"`)) {
			wrote[i.id] = true
		}
	}
	n, found := 0, false
	for i := len(h.items) - 1; i >= 0; i-- {
		it := h.items[i]
		switch it.kind {
		case said, answer:
			return n, found
		case summary:
			at, ok := lastNumber(it.text)
			return max(n, at), found || ok && strings.Contains(it.text, progress)
		case call:
			return n, found // the results of the last answer were all there was
		case result:
			at, ok := lastNumber(it.text)
			if wrote[it.id] && (!ok || failed(it.text)) {
				return 0, false
			}
			if wrote[it.id] {
				n, found = max(n, at), true
			}
		}
	}
	return n, found
}

func failed(text string) bool {
	return strings.Contains(text, "[An error occurred") || strings.Contains(text, "outcome is unknown") || strings.Contains(text, "interrupted")
}

// busy reports whether the terminal was found busy by the last calls.
func (h *history) busy() bool {
	for i := len(h.items) - 1; i >= 0 && h.items[i].kind == result; i-- {
		if strings.Contains(h.items[i].text, stillRuns) {
			return true
		}
	}
	return false
}

// act answers with calls.
func (w *Worker) act(what string, calls ...content.ToolCall) llmtest.Reply {
	w.note(what)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range calls {
		w.calls++
		calls[i].ID = fmt.Sprintf("call_%d", w.calls)
	}
	return llmtest.Reply{Calls: calls}
}

// use is a call of a tool.
func use(name string, args map[string]any) content.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("workertest: arguments of %s: %v", name, err)) // they are ours
	}
	return content.ToolCall{Name: name, Arguments: string(raw)}
}

// write is a call that appends a number.
func write(n int, ending, more string) content.ToolCall {
	return use("terminal", map[string]any{"security_risk": "LOW", "summary": fmt.Sprintf("write %d", n),
		"command": fmt.Sprintf("n=%d; echo \"count=$n%s\" >> %s%s; tail -n 1 %[3]s", n, ending, File, more)})
}

// insert is a call that does the same with the editor.
func insert(n int, ending string) content.ToolCall {
	return use("file_editor", map[string]any{"command": "insert", "path": dir + File, "insert_line": n - 1,
		"new_str": fmt.Sprintf("count=%d%s\n", n, ending)})
}

// dir is where the worker works.
const dir = "/workspace/project/"

// count writes the next number, in one of several ways.
func (w *Worker) count(r *http.Request, n int, wish bool) llmtest.Reply {
	ending := ""
	if wish {
		ending = " done"
	}
	if g := w.gate(n); g != nil {
		if g.command != "" {
			return w.act("blocked", write(n, ending, "; "+g.command), use("grep", map[string]any{"pattern": "count=1$", "path": dir}))
		}
		close(g.Reached)
		select {
		case <-g.release:
		case <-r.Context().Done():
		case <-w.done:
		}
	}
	if mistake, ok := w.mistake(n); ok {
		return w.act("mistake", mistake)
	}
	switch {
	case n%60 == 0:
		return w.act("huge output", write(n, ending, "; seq 1 30000"))
	case n%15 == 0:
		return w.act("large output", write(n, ending, "; seq 1 3500"))
	case n%14 == 0 && n < w.cfg.Target:
		return w.act("parallel", write(n, ending, ""), use("grep", map[string]any{"pattern": "count=" + strconv.Itoa(n), "path": dir}),
			use("file_editor", map[string]any{"command": "create", "path": fmt.Sprintf("%snotes/%d.md", dir, n), "file_text": "at " + strconv.Itoa(n)}),
			insert(n+1, ending))
	case n%9 == 0:
		return w.act("edit", insert(n, ending))
	case n%7 == 0: // signed thoughts must come back as they are
		out := w.act("thought", write(n, ending, ""))
		out.Text, out.Reasoning, out.Signature = fmt.Sprintf("Now %d.", n), "One more than before.", "c2lnbmF0dXJl"
		return out
	}
	return w.act("write", write(n, ending, ""))
}

// mistake is a call that fails, once for some numbers.
func (w *Worker) mistake(n int) (content.ToolCall, bool) {
	if n%17 != 0 || !w.first(fmt.Sprintf("mistake %d", n)) {
		return content.ToolCall{}, false
	}
	switch n / 17 % 5 {
	case 0:
		return use("calculator", map[string]any{"sum": n}), true
	case 1:
		return use("file_editor", map[string]any{"command": "str_replace", "path": dir + File, "old_str": "no such text", "new_str": "x"}), true
	case 2:
		return content.ToolCall{Name: "terminal", Arguments: `{"command": "echo never`}, true
	case 3:
		return use("terminal", map[string]any{"command": fmt.Sprintf("(exit %d)", n%200)}), true
	}
	return use("file_editor", map[string]any{"command": "view", "path": "/no/such/file"}), true
}
