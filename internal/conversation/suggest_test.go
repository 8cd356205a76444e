package conversation_test

import (
	"strings"
	"testing"

	"parley/internal/conversation"
)

func TestSuggestedTaskPromptNamesRepoNumberAndToken(t *testing.T) {
	tokens := map[string]string{"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN", "bitbucket": "BITBUCKET_TOKEN",
		"azure_devops": "AZURE_DEVOPS_TOKEN", "enterprise_sso": "GITHUB_TOKEN", "forgejo": "FORGEJO_TOKEN"}
	types := []string{conversation.TaskMergeConflicts, conversation.TaskFailingChecks,
		conversation.TaskUnresolvedComments, conversation.TaskOpenIssue, conversation.TaskOpenPR, "CREATE_MICROAGENT"}
	for provider, token := range tokens {
		for _, typ := range types {
			task := conversation.SuggestedTask{GitProvider: provider, TaskType: typ, Repo: "acme/app",
				IssueNumber: 42, Title: "it breaks"}
			prompt := task.Prompt()
			for _, part := range []string{"acme/app", "#42", "it breaks", token} {
				if !strings.Contains(prompt, part) {
					t.Errorf("%s %s: no %q in %q", provider, typ, part, prompt)
				}
			}
		}
	}
}

func TestSuggestedTaskPromptUsesTheProvidersWords(t *testing.T) {
	task := conversation.SuggestedTask{GitProvider: "gitlab", TaskType: conversation.TaskFailingChecks, Repo: "a/b", IssueNumber: 1}
	prompt := task.Prompt()
	if !strings.Contains(prompt, "merge request") || strings.Contains(prompt, "pull request") {
		t.Errorf("prompt %q", prompt)
	}
}
