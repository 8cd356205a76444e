package projection

import (
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
)

type messageArgs struct {
	Content         string   `json:"content"`
	FileURLs        []string `json:"file_urls"`
	ImageURLs       []string `json:"image_urls"`
	WaitForResponse bool     `json:"wait_for_response"`
	SecurityRisk    int      `json:"security_risk"`
}

func isBlank(e *conversation.MessageEvent) bool {
	return strings.TrimSpace(content.JoinText(e.LLMMessage.Content)) == ""
}

// message shows what was said. What the agent says ends its turn.
func message(e *conversation.MessageEvent) *Event {
	args := messageArgs{Content: content.JoinText(e.LLMMessage.Content), SecurityRisk: riskUnknown,
		WaitForResponse: e.Source == conversation.SourceAgent, FileURLs: conversation.AttachedFiles(e)}
	for _, p := range e.LLMMessage.Content {
		if p.Type == content.TypeImage {
			args.ImageURLs = append(args.ImageURLs, p.ImageURLs...)
		}
	}
	return action(legacySource(e.Source), "message", args.Content, args)
}

func legacySource(source string) string {
	switch source {
	case conversation.SourceUser:
		return sourceUser
	case conversation.SourceAgent:
		return sourceAgent
	}
	return sourceEnvironment
}

type systemArgs struct {
	Content    string `json:"content"`
	Tools      []any  `json:"tools"`
	Version    string `json:"openhands_version"`
	AgentClass string `json:"agent_class"`
}

// spokenVersion is the version of the legacy API that clients are told.
const spokenVersion = "0.62.0"

func system(e *conversation.SystemPromptEvent) *Event {
	args := systemArgs{Content: e.SystemPrompt.Text, Tools: []any{}, Version: spokenVersion, AgentClass: "CodeActAgent"}
	for _, raw := range e.Tools {
		var t struct {
			Title       string `json:"title"`
			Description string `json:"description"`
		}
		if decode(raw, &t) && t.Title != "" {
			args.Tools = append(args.Tools, map[string]any{"type": "function",
				"function": map[string]any{"name": t.Title, "description": t.Description}})
		}
	}
	return action(sourceAgent, "system", args.Content, args)
}

type recallArgs struct {
	RecallType string `json:"recall_type"`
	Query      string `json:"query"`
	Thought    string `json:"thought"`
}

// queryShown is how much of a query its event's message repeats, in characters.
const queryShown = 50

func recallAction(in Input) *Event {
	said, ok := messageOf(in)
	if !ok {
		return nil
	}
	args := recallArgs{RecallType: "knowledge", Query: content.JoinText(said.LLMMessage.Content)}
	if in.Derived.Recipe == RecallWorkspace {
		args.RecallType = "workspace_context"
	}
	shown := []rune(args.Query)
	if len(shown) > queryShown {
		shown = shown[:queryShown]
	}
	return action(sourceUser, "recall", "Retrieving content for: "+string(shown), args)
}

// messageOf returns the user message that a recall is about.
func messageOf(in Input) (*conversation.MessageEvent, bool) {
	if said, ok := in.Shown.(*conversation.MessageEvent); ok {
		return said, true
	}
	said, ok := in.Payload.(*conversation.MessageEvent)
	return said, ok
}

type knowledge struct {
	Name    string `json:"name"`
	Trigger string `json:"trigger"`
	Content string `json:"content"`
}

type recallExtras struct {
	RecallType   string            `json:"recall_type"`
	RepoName     string            `json:"repo_name"`
	RepoDir      string            `json:"repo_directory"`
	RepoBranch   string            `json:"repo_branch"`
	RepoGuide    string            `json:"repo_instructions"`
	RuntimeHosts map[string]int    `json:"runtime_hosts"`
	AgentGuide   string            `json:"additional_agent_instructions"`
	Date         string            `json:"date"`
	Secrets      map[string]string `json:"custom_secrets_descriptions"`
	Instructions string            `json:"conversation_instructions"`
	WorkingDir   string            `json:"working_dir"`
	Knowledge    []knowledge       `json:"microagent_knowledge"`
}

// recalled answers a recall: the first with what is known about the workspace,
// later ones with the skills the message activated, or with nothing.
func recalled(in Input) *Event {
	extras := recallExtras{RecallType: "knowledge", RuntimeHosts: map[string]int{}, Secrets: map[string]string{},
		Knowledge: []knowledge{}}
	if said, ok := messageOf(in); ok {
		extras.Knowledge = knowledgeOf(said)
	}
	if in.Derived.Recipe == KnowledgeRecalled {
		if len(extras.Knowledge) == 0 {
			return nil // rendered as the null observation
		}
		return observation(sourceEnvironment, "recall", "Added microagent knowledge", extras)
	}
	describe(&extras, in)
	return observation(sourceEnvironment, "recall", "Added workspace context", extras)
}

// knowledgeOf are the skills that a message brought in. Their texts stand first in what
// was added to it; to a message of before the start, which is stored already, they
// were added with one of their own.
func knowledgeOf(said *conversation.MessageEvent) []knowledge {
	parts := said.ExtendedContent
	if said.Source == conversation.SourceEnvironment {
		parts = said.LLMMessage.Content
	}
	out := []knowledge{}
	for i, name := range said.ActivatedSkills {
		k := knowledge{Name: name}
		if i < len(parts) {
			k.Content = parts[i].Text
		}
		out = append(out, k)
	}
	return out
}

func describe(extras *recallExtras, in Input) {
	extras.RecallType = "workspace_context"
	if in.Info.Repository != "" {
		extras.RepoName, extras.RepoDir = in.Info.Repository, path.Base(in.Info.Repository)
	}
	extras.RepoBranch = in.Info.Branch
	extras.Date, _, _ = strings.Cut(conversation.HeaderOf(in.Payload).Timestamp, "T")
	if in.Info.Secrets != nil {
		extras.Secrets = in.Info.Secrets
	}
	extras.Instructions, extras.WorkingDir = in.Info.Instructions, in.Info.WorkingDir
}
