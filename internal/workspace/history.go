package workspace

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"parley/internal/fault"
)

// MaxCommits is how many commits one answer has at most.
const MaxCommits = 200

// Commit is one commit.
type Commit struct {
	SHA       string `json:"sha"`
	Short     string `json:"short_sha"`
	Subject   string `json:"subject"`
	Author    string `json:"author"`    // name
	Timestamp string `json:"timestamp"` // ISO 8601, of the commit
}

// commitFields are what parseCommits reads, in the order of Commit's members.
const commitFields = "%H%x00%h%x00%s%x00%an%x00%cI"

// Commits returns the newest commits of the repository that dir is in, the newest
// first, and whether there are more. None without a repository or commits.
func (w *Workspace) Commits(ctx context.Context, dir string, limit int) (commits []Commit, more bool, err error) {
	dir, err = w.Absolute(dir)
	if err != nil {
		return nil, false, err
	}
	r, err := w.open(ctx, dir)
	if errors.Is(err, errNoRepository) {
		return []Commit{}, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	head, err := r.commit(ctx, "HEAD")
	if err != nil || head == "" {
		return []Commit{}, false, err
	}
	limit = min(max(limit, 1), MaxCommits)
	text, err := r.must(ctx, "log", "-z", "--no-show-signature", "--no-color", "--no-decorate", "--no-ext-diff", "--no-patch",
		"--encoding=UTF-8", "--max-count="+strconv.Itoa(limit+1), "--format="+commitFields, head, "--")
	if err != nil {
		return nil, false, err
	}
	commits = parseCommits(text)
	more = len(commits) > limit
	return commits[:min(len(commits), limit)], more, nil
}

func parseCommits(text string) []Commit {
	all := []Commit{}
	for group := range slices.Chunk(strings.Split(text, "\x00"), 5) {
		if len(group) == 5 {
			all = append(all, Commit{group[0], group[1], clean(group[2]), clean(group[3]), group[4]})
		}
	}
	return all
}

// CommitChanges lists what a commit changed, for a merge against its first parent.
// NotFound if there is no such commit.
func (w *Workspace) CommitChanges(ctx context.Context, dir, sha string) ([]Change, error) {
	dir, err := w.Absolute(dir)
	if err != nil {
		return nil, err
	}
	r, err := w.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	before, id, err := r.step(ctx, sha)
	if err != nil {
		return nil, err
	}
	args := append([]string{"diff-tree"}, rawFlags()...)
	raw, err := r.must(ctx, append(args, "--relative", before, id, "--")...)
	if err != nil {
		return nil, err
	}
	return bounded(parseRaw(raw)), nil
}

// step returns a commit and its first parent, nothing if it has none.
func (r *repository) step(ctx context.Context, sha string) (before, id string, err error) {
	if strings.Trim(sha, "0123456789abcdefABCDEF") == "" && len(sha) >= 4 {
		if id, err = r.commit(ctx, sha); err != nil {
			return "", "", err
		}
	}
	if id == "" {
		return "", "", fault.New(fault.NotFound, "commit_not_found", "The repository has no commit %.80q.", sha)
	}
	before, err = r.commit(ctx, id+"^")
	if err == nil && before == "" {
		before, err = r.nothing(ctx)
	}
	return before, id, err
}
