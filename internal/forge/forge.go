// Package forge is the seam to git hosting services: what a user's token shows of
// them (who it belongs to, repositories, branches, open work), where their
// repositories are cloned from, and the service that the APIs and the engine use.
// The packages below it are the services' own APIs; package app chooses them.
package forge

import (
	"context"
	"net/http"

	"parley/internal/account"
	"parley/internal/conversation"
)

// The services, as wire protocols name them.
const (
	GitHub              = "github"
	GitLab              = "gitlab"
	Bitbucket           = "bitbucket"
	BitbucketDataCenter = "bitbucket_data_center"
	Forgejo             = "forgejo"
	AzureDevOps         = "azure_devops"
)

// Providers are all services, in the order in which they are asked.
func Providers() []string {
	return []string{GitHub, GitLab, Bitbucket, BitbucketDataCenter, Forgejo, AzureDevOps}
}

// Host is a git hosting service as one token shows it. Its errors are faults of
// package rest: Unauthenticated for a token that is not taken, Forbidden, NotFound,
// RateLimited, Unavailable, Invalid. It is safe for concurrent use.
type Host interface {
	// User is whom the token belongs to.
	User(ctx context.Context) (User, error)
	// Organizations are the names of the organizations, groups or workspaces that the
	// user belongs to, at most MaxOrganizations.
	Organizations(ctx context.Context) ([]string, error)
	// Installations are what repositories can be narrowed to: installations of an app
	// where the service has such, else organizations.
	Installations(ctx context.Context, p Page) (List[string], error)
	// Repositories are those of the user, or with a query those of the service.
	Repositories(ctx context.Context, q RepositoryQuery) (List[Repository], error)
	// Repository is one by its full name.
	Repository(ctx context.Context, name string) (Repository, error)
	// Branches are those of a repository whose names contain the query.
	Branches(ctx context.Context, q BranchQuery) (List[Branch], error)
	// Tasks are open work of the user, at most MaxTasks of a kind. What a service
	// cannot tell is left out.
	Tasks(ctx context.Context) ([]conversation.SuggestedTask, error)
	// Files are the paths of the files below a directory of a repository's main branch, at
	// most MaxFiles, in the service's order. A directory that is not there has none.
	Files(ctx context.Context, repository, dir string) ([]string, error)
	// File is a file of the main branch. TooLarge above MaxFile.
	File(ctx context.Context, repository, path string) ([]byte, error)
	// IsOpen reports whether a pull request is neither merged nor closed.
	IsOpen(ctx context.Context, repository string, number int) (bool, error)
}

// Bounds of what is not paged.
const (
	MaxOrganizations = 1000
	MaxTasks         = 100
)

// Page asks for a part of a list. ID is List.Next of the part before; "" and what no
// list gave is the beginning. Limit is 1..100; a service that gives fewer at a time
// gives fewer.
type Page struct {
	ID    string
	Limit int
}

// List is a part of a list.
type List[T any] struct {
	Items []T
	Next  string // "" = it was the last part
}

// User is the owner of a token. Only ID and Login are always there.
type User struct {
	ID, Login, AvatarURL, Company, Name, Email string
}

// OwnerType is what a repository belongs to.
type OwnerType string

// The owner types; "" is unknown.
const (
	OwnerUser         OwnerType = "user"
	OwnerOrganization OwnerType = "organization"
)

// Repository is a repository as lists show it.
type Repository struct {
	ID         string
	FullName   string // as RepositoryQuery, Branches and CloneURL take it: "owner/name"
	Provider   string
	Public     bool
	Stars      *int      // nil = the service has none
	PushedAt   string    // or the time of another change, RFC 3339; "" = unknown
	OwnerType  OwnerType // "" = unknown
	MainBranch string    // "" = unknown or none
}

// RepositoryQuery asks for repositories.
type RepositoryQuery struct {
	Text         string // part of the name, a full name or an address; "" = the user's
	Installation string // one of Installations; "" = all
	Sort         string // "stars", "forks", "updated"; "" = as the service does
	Ascending    bool
	Page
}

// BranchQuery asks for branches.
type BranchQuery struct {
	Repository string // full name
	Text       string // part of the name; "" = all
	Page
}

// Branch is a branch of a repository.
type Branch struct {
	Name, Commit string
	Protected    bool
	PushedAt     string // of its last commit, RFC 3339; "" = unknown
}

// Conn is what a Host is made from.
type Conn struct {
	Place Place
	Token account.Secret
	HTTP  *http.Client // connects to what the user may reach, and nothing else
}

// Opener makes the Host of a service. It makes no connection; its errors are Invalid.
type Opener func(Conn) (Host, error)
