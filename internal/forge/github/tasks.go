package github

import (
	"context"

	"parley/internal/conversation"
	"parley/internal/forge"
)

const tasksQuery = `query($first:Int!){
viewer{pullRequests(first:$first,states:OPEN,orderBy:{field:UPDATED_AT,direction:DESC}){nodes{
number title repository{nameWithOwner} mergeable
reviewThreads(first:50){nodes{isResolved}}
commits(last:1){nodes{commit{statusCheckRollup{state}}}}}}}
search(query:"is:issue is:open archived:false assignee:@me",type:ISSUE,first:$first){nodes{
... on Issue{number title repository{nameWithOwner}}}}}`

type ticket struct {
	Number     int    `json:"number"`
	Title      string `json:"title"`
	Repository struct {
		Name string `json:"nameWithOwner"`
	} `json:"repository"`
}

type pullRequest struct {
	ticket
	Mergeable     string `json:"mergeable"`
	ReviewThreads struct {
		Nodes []struct {
			Resolved bool `json:"isResolved"`
		} `json:"nodes"`
	} `json:"reviewThreads"`
	Commits struct {
		Nodes []struct {
			Commit struct {
				Rollup *struct {
					State string `json:"state"`
				} `json:"statusCheckRollup"`
			} `json:"commit"`
		} `json:"nodes"`
	} `json:"commits"`
}

// kind is what is most urgent about a pull request.
func (p *pullRequest) kind() string {
	if p.Mergeable == "CONFLICTING" {
		return conversation.TaskMergeConflicts
	}
	for _, n := range p.Commits.Nodes {
		if r := n.Commit.Rollup; r != nil && (r.State == "FAILURE" || r.State == "ERROR") {
			return conversation.TaskFailingChecks
		}
	}
	for _, n := range p.ReviewThreads.Nodes {
		if !n.Resolved {
			return conversation.TaskUnresolvedComments
		}
	}
	return conversation.TaskOpenPR
}

// Tasks implements forge.Host: the user's pull requests, and issues assigned to them.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	var data struct {
		Viewer struct {
			PullRequests struct {
				Nodes []pullRequest `json:"nodes"`
			} `json:"pullRequests"`
		} `json:"viewer"`
		Search struct {
			Nodes []ticket `json:"nodes"`
		} `json:"search"`
	}
	if err := h.query(ctx, tasksQuery, map[string]any{"first": forge.MaxTasks}, &data); err != nil {
		return nil, err
	}
	var tasks []conversation.SuggestedTask
	add := func(kind string, t ticket) {
		if t.Number != 0 {
			tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.GitHub, TaskType: kind, Repo: t.Repository.Name,
				IssueNumber: t.Number, Title: t.Title})
		}
	}
	for i := range data.Viewer.PullRequests.Nodes {
		p := &data.Viewer.PullRequests.Nodes[i]
		add(p.kind(), p.ticket)
	}
	for _, t := range data.Search.Nodes {
		add(conversation.TaskOpenIssue, t)
	}
	return tasks, nil
}
