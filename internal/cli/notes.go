package cli

import (
	"fmt"
	"slices"
	"strings"

	"parley/internal/conversation"
)

// maxProblems is how many files that cannot be used are shown at a time.
const maxProblems = 5

// serverTroubles say how MCP servers are that do not offer all they should.
var serverTroubles = map[string]string{"failed": "does not work", "degraded": "works in part", "needs_login": "needs a login", "stopped": "is stopped"}

// notes shows what is new in what the server tells about a run: servers in trouble,
// tasks of sub-agents, files that cannot be used, limits that the sandbox ran into.
func (p *printer) notes(n conversation.AgentNotes) {
	for _, s := range n.Servers {
		old := slices.IndexFunc(p.told.Servers, func(o conversation.ServerNote) bool { return o.Name == s.Name && o.State == s.State })
		if trouble, ok := serverTroubles[s.State]; ok && old < 0 {
			p.line(yellow, "! MCP server "+CleanLine(s.Name)+" "+trouble+reason(s.Detail))
		}
	}
	for _, s := range p.told.Servers {
		if !slices.ContainsFunc(n.Servers, func(now conversation.ServerNote) bool { return now.Name == s.Name }) {
			p.line(dim, "(MCP server "+CleanLine(s.Name)+": no trouble any more)")
		}
	}
	for _, t := range n.Tasks {
		p.task(t)
	}
	p.problems(n.Problems)
	for _, i := range n.Incidents {
		if !slices.Contains(p.told.Incidents, i) {
			p.line(yellow, "! "+cut(CleanLine(i.Text), lineRunes))
		}
	}
	p.told = n
}

// task shows where a sub-agent begins, waits and ends. What it does is in its own
// conversation.
func (p *printer) task(t conversation.TaskNote) {
	at := slices.IndexFunc(p.told.Tasks, func(o conversation.TaskNote) bool { return o.ID == t.ID })
	if at >= 0 && p.told.Tasks[at].Status == t.Status {
		return
	}
	name := "sub-agent " + CleanLine(t.Agent) + " (" + CleanLine(t.ID) + ")"
	look := "parley chat --conversation " + CleanLine(string(t.ConversationID))
	switch {
	case t.Status == conversation.WaitingConfirmation:
		p.line(yellow, "! "+name+" asks for permission; answer with: "+look)
	case t.Status == conversation.Running && at < 0:
		what := ""
		if text := CleanLine(t.Description); text != "" {
			what = ": " + cut(text, lineRunes)
		}
		p.line(cyan, "* "+name+what)
		p.line(dim, "  watch it with: "+look)
	case t.Status.Terminal() || t.Status == conversation.Paused:
		p.line(dim, "  "+name+": "+CleanLine(string(t.Status)))
	}
}

func (p *printer) problems(all []string) {
	var fresh []string
	for _, text := range all {
		if !slices.Contains(p.told.Problems, text) {
			fresh = append(fresh, text)
		}
	}
	for _, text := range fresh[:min(len(fresh), maxProblems)] {
		p.line(yellow, "! not used: "+cut(CleanLine(text), lineRunes))
	}
	if more := len(fresh) - maxProblems; more > 0 {
		p.line(yellow, fmt.Sprintf("! and %d more files that cannot be used", more))
	}
}

// hook shows hooks that hold something back or do not work; the others are silent.
func (p *printer) hook(ev *conversation.HookExecutionEvent) {
	name := "the hook " + cut(CleanLine(ev.Command), lineRunes) + " (" + CleanLine(ev.EventType) + ")"
	switch {
	case ev.Blocked && ev.ToolName != "":
		p.line(yellow, "! "+name+" does not let "+CleanLine(ev.ToolName)+" run"+reason(ev.Reason))
	case ev.Blocked && ev.MessageID != "":
		p.line(yellow, "! "+name+" does not let the message through"+reason(ev.Reason))
	case ev.Blocked:
		p.line(yellow, "! "+name+" sends the agent back to work"+reason(ev.Reason))
	case ev.Error != "":
		p.line(dim, "("+name+" failed"+reason(ev.Error)+")")
	case !ev.Success:
		p.line(dim, fmt.Sprintf("(%s ended with code %d)", name, ev.ExitCode))
	}
}

// activated shows which skills a message brought in.
func (p *printer) activated(ev *conversation.MessageEvent) {
	names := make([]string, len(ev.ActivatedSkills))
	for i, name := range ev.ActivatedSkills {
		names[i] = CleanLine(name)
	}
	if len(names) > 0 {
		p.line(dim, cut("(skills: "+strings.Join(names, ", ")+")", lineRunes))
	}
}
