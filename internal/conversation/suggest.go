package conversation

import (
	"fmt"
	"strings"
)

// SuggestedTask is work that a git hosting provider shows as open (V1 §1.3).
type SuggestedTask struct {
	GitProvider string `json:"git_provider"`
	TaskType    string `json:"task_type"`
	Repo        string `json:"repo"` // owner/name
	IssueNumber int    `json:"issue_number"`
	Title       string `json:"title"`
}

// Task types of a SuggestedTask.
const (
	TaskMergeConflicts     = "MERGE_CONFLICTS"
	TaskFailingChecks      = "FAILING_CHECKS"
	TaskUnresolvedComments = "UNRESOLVED_COMMENTS"
	TaskOpenIssue          = "OPEN_ISSUE"
	TaskOpenPR             = "OPEN_PR"
)

// hostTerms are the words a provider uses.
type hostTerms struct {
	request, short, api, token, checks string
}

func (t SuggestedTask) terms() hostTerms {
	switch t.GitProvider {
	case "gitlab":
		return hostTerms{"merge request", "MR", "GitLab API", "GITLAB_TOKEN", "CI pipelines"}
	case "bitbucket_data_center":
		return hostTerms{"pull request", "PR", "Bitbucket Data Center API", "BITBUCKET_DATA_CENTER_TOKEN", "builds"}
	case "bitbucket":
		return hostTerms{"pull request", "PR", "Bitbucket API", "BITBUCKET_TOKEN", "Bitbucket Pipelines"}
	case "azure_devops":
		return hostTerms{"pull request", "PR", "Azure DevOps API", "AZURE_DEVOPS_TOKEN", "Azure Pipelines"}
	case "forgejo":
		return hostTerms{"pull request", "PR", "Forgejo API", "FORGEJO_TOKEN", "Actions"}
	}
	return hostTerms{"pull request", "PR", "GitHub API", "GITHUB_TOKEN", "GitHub Actions"}
}

// Prompt returns the user message that starts the task. Types without words of
// their own get a general prompt.
func (t SuggestedTask) Prompt() string {
	w := t.terms()
	ref := fmt.Sprintf("%s #%d (%q) of the repository %s", w.request, t.IssueNumber, t.Title, t.Repo)
	var steps []string
	switch t.TaskType {
	case TaskMergeConflicts:
		steps = []string{
			fmt.Sprintf("The %s has merge conflicts. Resolve them.", ref),
			"Check its branch out, merge the target branch into it, keep the intent of both sides, run the tests, and push to the same branch.",
		}
	case TaskFailingChecks:
		steps = []string{
			fmt.Sprintf("Checks of the %s fail. Make them pass.", ref),
			fmt.Sprintf("Look at the failing %s, reproduce the failure, fix its cause on the same branch and push.", w.checks),
			"Then look at the checks every 30 seconds until they have ended, and go on fixing until all pass.",
		}
	case TaskUnresolvedComments:
		steps = []string{
			fmt.Sprintf("The %s has unresolved comments of reviewers. Address them.", ref),
			"Read all comments, change the code where they ask for it, and push to the same branch. Say in your last message how each comment was answered.",
		}
	case TaskOpenIssue:
		steps = []string{
			fmt.Sprintf("Solve issue #%d (%q) of the repository %s.", t.IssueNumber, t.Title, t.Repo),
			fmt.Sprintf("Read the issue and its comments, work on a new branch, test the change, and open a %s (%s) that references #%d.", w.request, w.short, t.IssueNumber),
		}
	default:
		steps = []string{
			fmt.Sprintf("Work on #%d (%q) of the repository %s.", t.IssueNumber, t.Title, t.Repo),
			fmt.Sprintf("Find out what is left to do, do it on a branch of its own, and open or update a %s (%s).", w.request, w.short),
		}
	}
	steps = append(steps, fmt.Sprintf("Use the %s with the token in the environment variable %s.", w.api, w.token))
	return strings.Join(steps, "\n")
}
