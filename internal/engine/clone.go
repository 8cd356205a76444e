package engine

import (
	"context"
	"errors"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
)

// Forge is what the engine needs of git hosting services.
type Forge interface {
	Host(ctx context.Context, owner, provider string) (forge.Host, error)
}

// codeNoRepository is the code of a repository that its service does not have.
const codeNoRepository = "repository_not_found"

// origin is where a conversation's repository is.
type origin struct {
	url   *url.URL
	name  string // at its service; "" = the address is of none
	place forge.Place
	token account.Secret // good there; not set = none
}

// originOf finds a repository: by its name at the provider, or by its address. A token
// is good at the place that it was stored for, and is sent nowhere else. Errors are
// Invalid.
func originOf(s *account.Settings, provider, repository string) (origin, error) {
	if !strings.Contains(repository, "://") {
		provider = providerOr(provider)
		place, token, err := placeOf(s, provider)
		if err != nil {
			return origin{}, err
		}
		u, err := place.CloneURL(repository)
		return origin{url: u, name: repository, place: place, token: token}, err
	}
	u, err := url.Parse(repository)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(u.Path) < 2 ||
		strings.Contains(u.Path, "..") || strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return origin{}, fault.New(fault.Invalid, forge.CodeBadRepository, "The repository %.200q is not valid.", withoutUser(repository)).
			WithHint("Use owner/name with git_provider, or an https:// address without a password.")
	}
	o := origin{url: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}}
	for _, p := range forge.Providers() {
		place, token, err := placeOf(s, p)
		if err != nil || !place.Holds(o.url) || provider != "" && p != provider || !token.IsSet() {
			continue
		}
		o.place, o.token, o.name = place, token, place.Name(o.url.String())
		break
	}
	return o, nil
}

// withoutUser cuts what may be a password out of an address.
func withoutUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if at := strings.LastIndexByte(rest, '@'); ok && at >= 0 {
		return scheme + "://" + rest[at+1:]
	}
	return address
}

// placeOf is where a user's repositories of a provider are.
func placeOf(s *account.Settings, provider string) (forge.Place, account.Secret, error) {
	t := s.Secrets.ProviderTokens[provider]
	place, err := forge.PlaceOf(provider, deref(t.Host))
	return place, t.Token, err
}

func providerOr(provider string) string {
	if provider == "" {
		return forge.GitHub
	}
	return provider
}

// tokenName is the secret that holds a provider's token (V1 8).
func tokenName(provider string) string { return strings.ToUpper(provider) + "_TOKEN" }

// checkRepository refuses what cannot be a repository or a branch, before anything is
// stored.
func checkRepository(s *account.Settings, req *StartRequest) error {
	if req.Repository == "" {
		return nil
	}
	if req.Branch != "" && !branchName.MatchString(req.Branch) {
		return fault.New(fault.Invalid, "bad_branch", "The branch name %.200q is not valid.", req.Branch)
	}
	_, err := originOf(s, req.GitProvider, req.Repository)
	return err
}

// locateTime bounds how long a service is asked before a clone.
const locateTime = 15 * time.Second

// mayStart refuses what no sandbox need be made for.
func (e *Engine) mayStart(ctx context.Context, conv *conversation.Conversation) error {
	s, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return err
	}
	if err := checkAgent(conv, s); err != nil {
		return err
	}
	return e.locate(ctx, conv)
}

// locate asks the service whether it has the repository, before a sandbox is made for
// it. Without a token nobody is asked, and a service that cannot answer now is not
// waited for: the clone tells then. A name without a provider is looked for at all
// services that the user has a token of.
func (e *Engine) locate(ctx context.Context, conv *conversation.Conversation) error {
	if e.opt.Forge == nil || conv.Repository == "" || conv.Options.WorkingDir != "" {
		return nil
	}
	settings, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return err
	}
	if conv.GitProvider != "" || strings.Contains(conv.Repository, "://") {
		o, err := originOf(settings, conv.GitProvider, conv.Repository)
		if err != nil {
			return err
		}
		_, err = e.ask(ctx, conv, o)
		return err
	}
	return e.lookAround(ctx, conv, settings)
}

// lookAround finds the provider of a name. If nobody has it, and one could not say, it
// is left open, which means the first provider.
func (e *Engine) lookAround(ctx context.Context, conv *conversation.Conversation, s *account.Settings) error {
	var last error
	unsure := false
	for _, provider := range withToken(s) {
		o, err := originOf(s, provider, conv.Repository)
		found := false
		if err == nil {
			found, err = e.ask(ctx, conv, o)
		}
		if found {
			return e.settle(ctx, conv, provider)
		}
		unsure = unsure || err == nil
		last = errors.Join(last, err)
	}
	if unsure {
		return nil
	}
	return last
}

// withToken are the providers that a user has a token of.
func withToken(s *account.Settings) []string {
	return slices.DeleteFunc(forge.Providers(), func(p string) bool { return !s.Secrets.ProviderTokens[p].Token.IsSet() })
}

// ask reports whether a repository's service has it. The error says that it has not,
// or that the token is wrong; with neither, the service was not asked or could not say.
func (e *Engine) ask(ctx context.Context, conv *conversation.Conversation, o origin) (found bool, err error) {
	if !o.token.IsSet() || o.name == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	host, err := e.opt.Forge.Host(ctx, conv.Owner, o.place.Provider)
	if err == nil {
		_, err = host.Repository(ctx, o.name)
	}
	if err == nil {
		return true, nil
	}
	switch fault.KindOf(err) {
	case fault.NotFound:
		return false, fault.Wrap(err, fault.Invalid, codeNoRepository, "%s (%s) has no repository %s, or the stored token must not see it.",
			o.place.Title(), o.place.Web.Host, o.name).WithHint("Check its name, git_provider, and the token's rights.")
	case fault.Unauthenticated, fault.Invalid:
		return false, err
	}
	e.opt.Logger.Warn("a repository could not be looked for", "conversation", conv.ID, "provider", o.place.Provider, "error", err)
	return false, nil
}

// settle keeps the provider that was found.
func (e *Engine) settle(ctx context.Context, conv *conversation.Conversation, provider string) error {
	_, err := e.opt.Store.Conversations().Update(ctx, conv.ID, time.Now().UTC(), func(c *conversation.Conversation) error {
		c.GitProvider = provider
		return nil
	})
	if err == nil {
		conv.GitProvider = provider
	}
	return err
}

// cloneEnv tells the script what to clone and returns the clone's directory.
func (e *Engine) cloneEnv(ctx context.Context, conv *conversation.Conversation, base string, env map[string]string) (string, error) {
	settings, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return "", err
	}
	o, err := originOf(settings, conv.GitProvider, conv.Repository)
	if err != nil {
		return "", err
	}
	if conv.Branch != "" && !branchName.MatchString(conv.Branch) {
		return "", fault.New(fault.Invalid, "bad_branch", "The branch name %.200q is not valid.", conv.Branch)
	}
	dir := path.Join(base, strings.TrimSuffix(path.Base(o.url.Path), ".git"))
	env["PARLEY_CLONE"], env["PARLEY_CLONE_DIR"], env["PARLEY_BRANCH"] = o.url.String(), dir, conv.Branch
	env["PARLEY_NEW_BRANCH"] = "openhands-workspace-" + string(conversation.NewID())[:8]
	if conv.Options.FullClone {
		env["PARLEY_FULL"] = "1"
	}
	if o.token.IsSet() {
		o.giveToken(env)
		env["PARLEY_HELPER_FOR"], env["PARLEY_HELPER"] = o.site(), o.helper()
	}
	return dir, nil
}

// site is what git knows credentials by.
func (o *origin) site() string { return o.url.Scheme + "://" + o.url.Host }

// giveToken lets one call of git log in at the repository's host, and only there: by
// its environment, which a helper reads. The token is on no command line and in no
// file. Helpers that the sandbox brings neither answer nor learn it.
func (o *origin) giveToken(env map[string]string) {
	user, password := o.place.Login(o.token)
	env["PARLEY_GIT_USER"], env["PARLEY_GIT_TOKEN"] = user, password.Reveal()
	setConfig(env, "credential.helper", "")
	setConfig(env, "credential."+o.site()+".helper",
		`!f() { test "$1" = get || exit 0; printf 'username=%s\npassword=%s\n' "$PARLEY_GIT_USER" "$PARLEY_GIT_TOKEN"; }; f`)
}

// setConfig adds a setting to those that git reads from an environment.
func setConfig(env map[string]string, key, value string) {
	n, _ := strconv.Atoi(env["GIT_CONFIG_COUNT"])
	at := strconv.Itoa(n)
	env["GIT_CONFIG_KEY_"+at], env["GIT_CONFIG_VALUE_"+at] = key, value
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(n + 1)
}

// helper is what the clone's configuration has for later: it logs in with the secret
// that commands get which use it, and says nothing to others.
func (o *origin) helper() string {
	name := tokenName(o.place.Provider)
	user, password := o.place.Login(o.token)
	value := "$" + name
	if password != o.token { // "user:password"
		value = "${" + name + "#*:}"
		if !strings.HasPrefix(user, "x-") {
			user = "${" + name + "%%:*}"
		}
	}
	return `!f() { test "$1" = get && test -n "$` + name + `" || exit 0; printf 'username=%s\npassword=%s\n' "` + user + `" "` + value + `"; }; f`
}

// passwords are what git sends of tokens that bring their user along.
func passwords(s *account.Settings) []string {
	var found []string
	for provider, t := range s.Secrets.ProviderTokens {
		if _, password := (forge.Place{Provider: provider}).Login(t.Token); password.IsSet() && password != t.Token {
			found = append(found, password.Reveal())
		}
	}
	return found
}

// gitAccess adds the owner's token for the host of a repository, if there is one.
func (e *Engine) gitAccess(ctx context.Context, conv *conversation.Conversation, address string, env map[string]string) error {
	settings, err := e.settings(ctx, conv.Owner)
	if err != nil {
		return err
	}
	o, err := originOf(settings, "", address)
	if err == nil && o.token.IsSet() {
		o.giveToken(env)
	}
	return err
}

// remoteCommands are what git needs a login for.
var remoteCommands = []string{"push", "fetch", "pull", "clone", "ls-remote", "submodule", "remote", "lfs"}

// usesRemote reports whether a command looks as if it called git with a remote.
func usesRemote(command string) bool {
	words := strings.FieldsFunc(command, func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') })
	return slices.Contains(words, "git") && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(remoteCommands, w) })
}

// secretsFor returns the secrets that a command gets: those that it names, and the
// token of the repository's provider where it lets git talk to a remote.
func secretsFor(all map[string]account.CustomSecret, command, gitToken string) map[string]string {
	found := secretsNamed(all, command)
	if s, ok := all[gitToken]; ok && gitToken != "" && usesRemote(command) {
		found[gitToken] = s.Value.Reveal()
	}
	return found
}

// gitToken names the secret that git logs in with at the remote of a conversation's
// repository, "" if there is no repository.
func gitToken(conv *conversation.Conversation) string {
	if conv.Repository == "" {
		return ""
	}
	return tokenName(providerOr(conv.GitProvider))
}
