package forge

import (
	"cmp"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"parley/internal/account"
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// Fault codes.
const (
	CodeBadHost       = "bad_git_host"   // Invalid
	CodeBadRepository = "bad_repository" // Invalid
	CodeBadProvider   = "bad_git_provider"
)

// service is what is known of a service without asking it.
type service struct {
	title string
	host  string // its own; "" = every installation has its own
	api   string // the path that its API has below a host, which users write along
	user  string // for git over HTTP, with the token as the password
	words int    // least number of segments of a full name
}

var services = map[string]service{
	GitHub:              {title: "GitHub", host: "github.com", api: "/api/v3", user: "x-access-token", words: 2},
	GitLab:              {title: "GitLab", host: "gitlab.com", api: "/api/v4", user: "oauth2", words: 2},
	Bitbucket:           {title: "Bitbucket", host: "bitbucket.org", api: "/2.0", user: "x-token-auth", words: 2},
	BitbucketDataCenter: {title: "Bitbucket Data Center", api: "/rest/api/1.0", user: "x-token-auth", words: 2},
	Forgejo:             {title: "Forgejo", host: "codeberg.org", api: "/api/v1", user: "oauth2", words: 2},
	AzureDevOps:         {title: "Azure DevOps", host: "dev.azure.com", api: "/_apis", user: "pat", words: 2},
}

// apiHosts are hosts of APIs that users write in place of the service's own.
var apiHosts = map[string]string{"api.github.com": "github.com", "api.bitbucket.org": "bitbucket.org", "www.github.com": "github.com",
	"www.gitlab.com": "gitlab.com", "www.bitbucket.org": "bitbucket.org", "ssh.dev.azure.com": "dev.azure.com"}

// Place is where a service is: the root of its pages.
type Place struct {
	Provider string
	Web      url.URL // scheme, host, and the path it lives below, without a slash at the end
	Own      bool    // the user named it, it is not the service's own
}

const maxHost = 500

// PlaceOf reads a host as users write it: "git.example.com", with a port, a path, a
// scheme, or the address of the API. "" is the service's own. A host without a scheme
// is reached with TLS. Errors are Invalid.
func PlaceOf(provider, host string) (Place, error) {
	known, ok := services[provider]
	if !ok {
		return Place{}, fault.New(fault.Invalid, CodeBadProvider, "The git provider %.100q is not supported.", provider).
			WithHint("Supported are %s.", strings.Join(Providers(), ", "))
	}
	text := cmp.Or(strings.TrimSpace(host), known.host)
	if text == "" {
		return Place{}, fault.New(fault.Invalid, CodeBadHost, "%s needs a host: there is none of its own.", known.title).
			WithHint("Store the address of your installation as host.")
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxHost || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || !validHost(u) || u.Path != "" && !validPath.MatchString(u.Path) || hasDots(u.Path) {
		return Place{}, fault.New(fault.Invalid, CodeBadHost, "This is no host of %s.", known.title).
			WithHint(`Write it as "git.example.com", "https://git.example.com:8443" or "example.com/git".`)
	}
	at := url.URL{Scheme: u.Scheme, Host: canonicalHost(u), Path: strings.TrimRight(u.Path, "/")}
	for strings.HasSuffix(at.Path, known.api) {
		at.Path = strings.TrimRight(strings.TrimSuffix(at.Path, known.api), "/")
	}
	public := at.Host == known.host && at.Scheme == "https"
	return Place{Provider: provider, Web: at, Own: !public}, nil
}

var (
	validName = lazyre.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
	validPath = lazyre.MustCompile(`^(/[A-Za-z0-9_.~ -]+)*/*$`)
)

// validHost reports whether an address has a host's name or an IP address, and a port
// that can be.
func validHost(u *url.URL) bool {
	_, err := netip.ParseAddr(u.Hostname())
	name := strings.TrimSuffix(u.Hostname(), ".")
	port, wrong := strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	return (err == nil || validName.MatchString(name)) && wrong == nil && port > 0 && !strings.HasSuffix(u.Host, ":")
}

// canonicalHost is a host in one spelling, without the port that the scheme implies.
func canonicalHost(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	host = cmp.Or(apiHosts[host], host)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port, _ := strconv.Atoi(u.Port())
	if u.Port() == "" || port == map[string]int{"https": 443, "http": 80}[u.Scheme] {
		return host
	}
	return host + ":" + strconv.Itoa(port)
}

// hasDots reports whether a path has segments that lead elsewhere.
func hasDots(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "." || s == ".." })
}

// Title is the service's name for people.
func (p Place) Title() string { return services[p.Provider].title }

// API is the root of the service's API, below the place.
func (p Place) API() *url.URL {
	u := p.Web
	switch {
	case p.Provider == GitHub && !p.Own:
		u.Host = "api.github.com"
	case p.Provider == GitHub && strings.HasSuffix(u.Host, ".ghe.com"):
		u.Host = "api." + u.Host
	case p.Provider == Bitbucket && !p.Own:
		u.Host, u.Path = "api.bitbucket.org", "/2.0"
	case p.Provider == AzureDevOps: // projects stand between an organization and its API
	default:
		u.Path += services[p.Provider].api
	}
	return &u
}

// segment is one of a full name. Azure DevOps has spaces in names.
var segment = lazyre.MustCompile(`^[A-Za-z0-9_.~][A-Za-z0-9_.~+-]*( [A-Za-z0-9_.~+-]+)*$`)

// Most parts and bytes of a full name: groups nest at some services.
const (
	maxSegments = 24
	maxName     = 400
)

// SplitName checks a repository's full name ("owner/name", with groups in between
// where a service has them) and returns its segments. Errors are Invalid.
func SplitName(provider, name string) ([]string, error) {
	parts := strings.Split(strings.TrimSuffix(strings.Trim(name, "/"), ".git"), "/")
	ok := len(name) <= maxName && len(parts) >= services[provider].words && len(parts) <= maxSegments
	for _, s := range parts {
		ok = ok && segment.MatchString(s) && s != "." && s != ".." && (provider == AzureDevOps || !strings.Contains(s, " "))
	}
	if !ok || provider == GitHub && len(parts) != 2 {
		return nil, fault.New(fault.Invalid, CodeBadRepository, "The repository %.200q is not valid.", name).
			WithHint("Use owner/name with git_provider, or an https:// address.")
	}
	return parts, nil
}

// CloneURL is where git clones a repository from, by its full name. Errors are
// Invalid.
func (p Place) CloneURL(name string) (*url.URL, error) {
	parts, err := SplitName(p.Provider, name)
	if err != nil {
		return nil, err
	}
	u := p.Web
	last := len(parts) - 1
	switch p.Provider {
	case BitbucketDataCenter:
		parts = append([]string{"scm"}, parts...)
		parts[last+1] += ".git"
	case AzureDevOps:
		if parts, err = p.azure(parts); err != nil {
			return nil, err
		}
		last = len(parts) - 1
		parts = append(parts[:last:last], "_git", parts[last])
	default:
		parts[last] += ".git"
	}
	u.Path = path.Join("/", u.Path, path.Join(parts...))
	return &u, nil
}

// azure takes the organization off a name if the place has it.
func (p Place) azure(parts []string) ([]string, error) {
	if org := path.Base(p.Web.Path); len(parts) == 3 && strings.EqualFold(org, parts[0]) {
		parts = parts[1:]
	}
	if want := map[bool]int{true: 3, false: 2}[p.Web.Path == ""]; len(parts) != want {
		return nil, fault.New(fault.Invalid, CodeBadRepository, "A repository of Azure DevOps is named organization/project/repository.")
	}
	return parts, nil
}

// Name is the inverse of CloneURL for addresses of repositories as people copy them:
// the full name of what an address leads to, "" if it is none of this place.
func (p Place) Name(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || canonicalHost(u) != p.Web.Host || hasDots(u.Path) {
		return ""
	}
	rest, ok := strings.CutPrefix(u.Path, p.Web.Path+"/")
	if !ok {
		return ""
	}
	if p.Provider == BitbucketDataCenter {
		rest = strings.TrimPrefix(rest, "scm/")
	}
	if p.Provider == AzureDevOps {
		rest = strings.Replace(rest, "_git/", "", 1)
	}
	parts, err := SplitName(p.Provider, rest)
	if err != nil {
		return ""
	}
	return strings.Join(parts, "/")
}

// Holds reports whether an address is of this place: the only ones that its token is
// sent to.
func (p Place) Holds(u *url.URL) bool {
	return u.Scheme == p.Web.Scheme && canonicalHost(u) == p.Web.Host &&
		(u.Path == p.Web.Path || strings.HasPrefix(u.Path, p.Web.Path+"/")) && !hasDots(u.Path)
}

// Login is what git over HTTP sends for a token. A token "name:secret" brings its
// user along, as Bitbucket's app passwords do.
func (p Place) Login(token account.Secret) (user string, password account.Secret) {
	name, secret, own := strings.Cut(token.Reveal(), ":")
	if own && (p.Provider == Bitbucket || p.Provider == BitbucketDataCenter) {
		if strings.Contains(name, "@") && p.Provider == Bitbucket { // an API token of an Atlassian account
			name = "x-bitbucket-api-token-auth"
		}
		return name, account.NewSecret(secret)
	}
	return services[p.Provider].user, token
}
