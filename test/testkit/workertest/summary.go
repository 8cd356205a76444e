package workertest

import (
	"regexp"
	"strconv"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// progress begins the part of a summary that says how far the count is.
const progress = "PROGRESS: count="

// entry is one entry of what is to be summarised: its title and its text.
var entry = regexp.MustCompile(`(?s)\[\d+ ([^\]\n]*)\]\n~~~~~~~~~\n(.*?)\n~~~~~~~~~\n`)

// summarise writes a summary of the listed events, or fails.
func (w *Worker) summarise(list string) llmtest.Reply {
	// "" is an answer without a summary, which is charged all the same.
	failures := []llm.Class{llm.ClassBadRequest, "", llm.ClassOverloaded, llm.ClassContext}
	if n := w.note("summaries asked"); n%3 == 1 {
		w.note("summaries failed")
		return llmtest.Reply{Fail: failures[n/3%len(failures)]}
	}
	var out []string
	at, task, wish := -1, false, false
	for _, e := range entry.FindAllStringSubmatch(list, -1) {
		title, text := e[1], e[2]
		before := strings.HasSuffix(title, "summary so far")
		if n, ok := lastNumber(text); ok && (before || strings.HasPrefix(title, "result of")) {
			at = n
		}
		if before || strings.HasSuffix(title, "user message") {
			task, wish = task || strings.Contains(text, Task), wish || strings.Contains(text, Wish)
		}
	}
	if task {
		out = append(out, "GOALS: "+Task)
	}
	if wish {
		out = append(out, "Also: "+Wish)
	}
	if at >= 0 {
		out = append(out, progress+strconv.Itoa(at))
	}
	if len(out) == 0 {
		out = append(out, "PROGRESS: not known.")
	}
	w.note("summaries written")
	return llmtest.Reply{Text: strings.Join(out, "\n")}
}
