package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
)

// Bounds of jobs.
const (
	JobLifetime = 15 * time.Minute // agent protocol 1.7
	MaxJobs     = 100              // of one owner
)

// startTimeout bounds what a job does at its start and at its end.
const startTimeout = 45 * time.Second

// Job is a login that waits for its user.
type Job struct {
	ID               string // unguessable
	AuthorizationURL string // where the user goes, https or on this machine
	ExpiresAt        time.Time
}

// States of a job.
const (
	JobPending = "pending"
	JobDone    = "done"
	JobFailed  = "failed"
)

// JobStatus is what became of a job.
type JobStatus struct {
	State string
	Error string // for the user; of JobFailed
}

type job struct {
	id, owner, state, verifier string
	requireIssuer              bool
	login                      credential // without tokens
	key                        slotKey
	expires                    time.Time
	taken                      bool // the user came back; guarded by Service.mu, as the rest is
	status                     JobStatus
}

// Start begins a login of an owner at a server: it finds the authorization server,
// registers Parley there if need be, and returns where the user goes. Errors are
// Invalid (CodeUnsupported), Unavailable (CodeServer) and RateLimited (CodeTooMany).
func (s *Service) Start(ctx context.Context, owner string, server *account.MCPHTTPServer) (Job, error) {
	u, err := serverAddress(server)
	if err != nil {
		return Job{}, err
	}
	if err := s.room(owner); err != nil {
		return Job{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := s.discover(ctx, u)
	if err != nil {
		return Job{}, err
	}
	key, redirect := slotKey{owner, storedName(u)}, s.redirect(ctx)
	have, err := s.prepare(ctx, key, configOf(server), p, redirect)
	if err != nil {
		return Job{}, err
	}
	j := &job{id: rand.Text(), owner: owner, state: rand.Text(), verifier: rand.Text() + rand.Text(), key: key, expires: s.now().Add(JobLifetime),
		requireIssuer: p.server.AuthorizationResponseIssParameterSupported, login: have, status: JobStatus{State: JobPending}}
	j.login.Redirect = redirect
	address, err := j.authorizationURL(p.server.AuthorizationEndpoint)
	if err != nil {
		return Job{}, err
	}
	if err := s.add(j); err != nil {
		return Job{}, err
	}
	return Job{ID: j.id, AuthorizationURL: address, ExpiresAt: j.expires}, nil
}

// prepare returns the login to be, without tokens. A new registration is stored at
// once: logins that are never finished do not make others.
func (s *Service) prepare(ctx context.Context, key slotKey, o *account.MCPOAuth, p *place, redirect string) (credential, error) {
	l, done, err := s.lock(ctx, key)
	if err != nil {
		return credential{}, err
	}
	defer done()
	have, err := s.load(ctx, key, l)
	if err != nil {
		return credential{}, err
	}
	c, err := s.clientFor(ctx, o, p, have, redirect)
	if err != nil {
		return credential{}, err
	}
	next := credential{client: c, Issuer: p.server.Issuer, TokenEndpoint: p.server.TokenEndpoint, Resource: p.resource}
	if c.Registered && c != have.client && have.Access == "" {
		fresh := next
		fresh.Wanted, fresh.Brought = have.Wanted, have.Brought
		s.save(ctx, key, l, fresh)
	}
	next.Scopes, next.Brought = wantedScopes(o, p, have), broughtHash(o)
	return next, nil
}

// wantedScopes are the configured scopes or those that the server names, with what it
// asked for later, and what lets tokens be refreshed.
func wantedScopes(o *account.MCPOAuth, p *place, have credential) []string {
	scopes := validScopes(o.Scopes)
	if len(scopes) == 0 {
		scopes = p.scopes
	}
	if len(have.Wanted) > 0 {
		scopes = append(append(scopes, have.Scopes...), have.Wanted...)
	}
	for _, known := range p.server.ScopesSupported {
		if known == "offline_access" && len(o.Scopes) == 0 {
			scopes = append(scopes, known)
		}
	}
	return validScopes(scopes)
}

func (j *job) authorizationURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", unsupported("its authorization server has no address for users")
	}
	challenge := sha256.Sum256([]byte(j.verifier))
	q := u.Query()
	for name, value := range map[string]string{"response_type": "code", "client_id": j.login.ID, "redirect_uri": j.login.Redirect, "state": j.state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256", "resource": j.login.Resource} {
		q.Set(name, value)
	}
	if len(j.login.Scopes) > 0 {
		q.Set("scope", strings.Join(j.login.Scopes, " "))
	}
	u.RawQuery, u.Fragment, u.RawFragment = q.Encode(), "", ""
	return u.String(), nil
}

// room sweeps, and refuses an owner with too many jobs.
func (s *Service) room(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomLocked(owner)
}

func (s *Service) roomLocked(owner string) error {
	count, now := 0, s.now()
	var oldest *job
	for id, j := range s.jobs {
		switch {
		case !j.expires.After(now):
			delete(s.jobs, id)
		case j.owner == owner:
			count++
			if j.status.State != JobPending && (oldest == nil || j.expires.Before(oldest.expires)) {
				oldest = j
			}
		}
	}
	switch {
	case count < MaxJobs:
		return nil
	case oldest != nil:
		delete(s.jobs, oldest.id)
		return nil
	}
	err := fault.New(fault.RateLimited, CodeTooMany, "%d logins at MCP servers wait for you, which is the most there can be.", MaxJobs).
		WithHint("Finish them, or wait: they end after 15 minutes.")
	err.RetryAfter = JobLifetime
	return err
}

func (s *Service) add(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.roomLocked(j.owner); err != nil {
		return err
	}
	s.jobs[j.id] = j
	return nil
}

func noJob() error {
	return fault.New(fault.NotFound, CodeJob, "There is no such login, or it is over.").WithHint("Logins end after 15 minutes: start it again.")
}

// job returns one that is not over. s.mu is held.
func (s *Service) job(owner, id string) (*job, error) {
	j := s.jobs[id]
	if j == nil || j.owner != owner || !j.expires.After(s.now()) {
		return nil, noJob()
	}
	return j, nil
}

// Status says what became of a job; NotFound (CodeJob) for one of somebody else, or
// one that is over.
func (s *Service) Status(owner, id string) (JobStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.job(owner, id)
	if err != nil {
		return JobStatus{}, err
	}
	return j.status, nil
}

// Callback ends a job with what the authorization server sent the user back with: code
// and state, iss where it says so, or error. A wrong state leaves the job alone; any
// other failure is the job's, too. Errors are NotFound (CodeJob), Invalid (CodeRefused),
// Conflict for a job that is over, and Unavailable (CodeServer).
func (s *Service) Callback(ctx context.Context, owner, id string, params url.Values) error {
	s.mu.Lock()
	j, err := s.job(owner, id)
	if err == nil {
		err = j.claim(params.Get("state"))
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.finish(ctx, j, params)
}

// CallbackByState is Callback for a browser that was sent back, which knows no job. A
// state proves nothing about who sits in front of the browser: where the caller can
// tell, it compares with Owner before, or somebody could be led to log others in.
func (s *Service) CallbackByState(ctx context.Context, params url.Values) error {
	j := s.byState(params.Get("state"))
	if j == nil {
		return noJob()
	}
	return s.Callback(ctx, j.owner, j.id, params)
}

// Owner returns whose login a state belongs to, "" if it is nobody's.
func (s *Service) Owner(state string) string {
	if j := s.byState(state); j != nil {
		return j.owner
	}
	return ""
}

func (s *Service) byState(state string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if subtle.ConstantTimeCompare([]byte(j.state), []byte(state)) == 1 && j.expires.After(s.now()) {
			return j
		}
	}
	return nil
}

// claim takes a job for the one that came back with its state. Service.mu is held.
func (j *job) claim(state string) error {
	switch {
	case subtle.ConstantTimeCompare([]byte(j.state), []byte(state)) != 1:
		return refusedLogin("it does not belong to the login that was started")
	case j.taken:
		return fault.New(fault.Conflict, CodeJob, "This login is over.").WithHint("Start another one.")
	}
	j.taken = true
	return nil
}

// finish makes tokens of what came back.
func (s *Service) finish(ctx context.Context, j *job, params url.Values) error {
	// A code works once: whoever brought it may leave.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	err := s.exchange(ctx, j, params)
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.status.State = JobDone; err != nil {
		j.status = JobStatus{State: JobFailed, Error: fault.PublicText(err)}
	}
	return err
}

func (s *Service) exchange(ctx context.Context, j *job, params url.Values) error {
	issuer, code := params.Get("iss"), params.Get("code")
	switch {
	case j.requireIssuer && issuer == "", issuer != "" && issuer != j.login.Issuer:
		return refusedLogin("the answer is of another authorization server than the one that was asked")
	case params.Get("error") != "":
		return refusedLogin("its authorization server says " + errorCode(params.Get("error")))
	case code == "" || len(code) > maxToken:
		return refusedLogin("its authorization server sent no code")
	}
	t, err := s.ask(ctx, j.login.TokenEndpoint, j.login.client, url.Values{"grant_type": {"authorization_code"}, "code": {code},
		"redirect_uri": {j.login.Redirect}, "code_verifier": {j.verifier}, "resource": {j.login.Resource}})
	var no *tokenRefusal
	switch {
	case errors.As(err, &no):
		s.forgetClient(ctx, j, no)
		return refusedLogin("its authorization server says " + no.code)
	case err != nil:
		return serverTrouble(err, "no tokens came")
	}
	next := j.login
	next.take(t, s.now())
	l, done, err := s.lock(ctx, j.key)
	if err != nil {
		return err
	}
	defer done()
	s.save(ctx, j.key, l, next)
	s.log.InfoContext(ctx, "logged in at an MCP server", "name", j.key.name)
	return nil
}

// forgetClient drops a registration that the server does not know any more.
func (s *Service) forgetClient(ctx context.Context, j *job, no *tokenRefusal) {
	if no.code != "invalid_client" || !j.login.Registered {
		return
	}
	l, done, err := s.lock(ctx, j.key)
	if err != nil {
		return
	}
	defer done()
	if c, err := s.load(ctx, j.key, l); err == nil && c.ID == j.login.ID && c.Access == "" {
		c.client = client{}
		s.save(ctx, j.key, l, c)
	}
}
