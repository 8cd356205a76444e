package agentserver

import (
	"fmt"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
)

// Bounds of what a client may give a conversation to keep. All of it is read with
// every request about the conversation, and most of it shown in lists; secrets are
// looked for in every event.
const (
	maxTags            = 256
	maxSecrets         = 1000
	maxSecretValue     = 64 << 10  // bytes
	maxSecretBytes     = 256 << 10 // bytes of all values together
	maxClientToolBytes = 512 << 10 // bytes of all client tools together
	maxPluginBytes     = 64 << 10  // bytes of all plugins together
	maxServerBytes     = 256 << 10 // bytes of all MCP servers together
	maxSkillContent    = 256 << 10 // bytes of one skill
	maxSkillBytes      = 4 << 20   // bytes of all skills together
	maxAgentBytes      = 2 << 20   // bytes of all definitions of agents together
)

func checkTags(tags map[string]string) error {
	if len(tags) <= maxTags {
		return nil
	}
	return httpkit.BadField(fmt.Sprintf("a conversation takes at most %d tags, not %d", maxTags, len(tags)), nil, "body", "tags")
}

// checkSecrets bounds secrets that come with one request.
func checkSecrets(all map[string]account.CustomSecret) error {
	if len(all) > maxSecrets {
		return httpkit.BadField(fmt.Sprintf("a conversation takes at most %d secrets, not %d", maxSecrets, len(all)), nil, "body", "secrets")
	}
	total := 0
	for name, s := range all {
		n := len(s.Value.Reveal())
		if n > maxSecretValue {
			return httpkit.BadField(fmt.Sprintf("a secret has at most %d bytes", maxSecretValue), nil, "body", "secrets", name)
		}
		total += n
	}
	if total > maxSecretBytes {
		return httpkit.BadField(fmt.Sprintf("all secrets together have at most %d bytes", maxSecretBytes), nil, "body", "secrets")
	}
	return nil
}

func checkClientTools(tools []conversation.ClientTool) error {
	total := 0
	for _, t := range tools {
		total += len(t.Name) + len(t.Description) + len(t.Parameters) + len(t.Annotations)
	}
	if total <= maxClientToolBytes {
		return nil
	}
	return httpkit.BadField(fmt.Sprintf("all client tools together have at most %d bytes, not %d", maxClientToolBytes, total),
		nil, "body", "client_tools")
}
