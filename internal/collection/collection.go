// Package collection keeps the collections of skills and agents that the server's
// administrator configured for an organisation, or as public: directories, and git
// repositories over https. It refreshes them and says what they hold right now.
//
// Only skills and agents of a collection count: no hook, server, script or command of
// it is run, on the server or in a sandbox. The files of an AgentSkill come along, for
// an agent that opens it to have them in its sandbox. git runs on the server, but nothing of a repository is checked
// out; a file is read from git's objects. What was loaded last stays when a source
// cannot be read, also over a restart.
package collection

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"parley/internal/extension"
	"parley/internal/fault"
)

// sourceTimeout bounds the refresh of one source, so that the others have their turn.
const sourceTimeout = 5 * time.Minute

// defaultRefresh is Config.Refresh where that is 0.
const defaultRefresh = time.Hour

// Config says what to load.
type Config struct {
	Sources []Source
	Dir     string        // of the cache, made when it is needed (0700); nobody else's
	Refresh time.Duration // between two refreshes; 0 = an hour
	Logger  *slog.Logger  // nil = none
	Git     string        // the program; "" = looked up in PATH when it is needed
}

// Set is the configured collections. Run refreshes them; the other methods may be
// called at any time.
type Set struct {
	cfg      Config
	loopback bool // plain http to this machine is allowed: for tests
	timeout  time.Duration
	max      int64

	sources []*source // of the goroutine of New, then of Run
	now     atomic.Pointer[[]extension.Bundle]
	listed  atomic.Pointer[[]listed] // the same by source
}

// source is one collection with what was loaded of it.
type source struct {
	Source
	at      place
	key     string             // of the cache
	bundles []extension.Bundle // its own, then those of its plugins; nil before the first success
	fresh   bool               // this process loaded and saved them, not an earlier one
	problem string             // of the last refresh, "" = none
}

// New checks the sources and loads what is on this machine: directories, and what
// earlier processes fetched. It does not use the network. Errors are Invalid
// (CodeSource); a source that cannot be read is none, Bundles tells.
func New(ctx context.Context, cfg Config) (*Set, error) {
	return newSet(ctx, cfg, false)
}

func newSet(ctx context.Context, cfg Config, loopback bool) (*Set, error) {
	if cfg.Refresh <= 0 {
		cfg.Refresh = defaultRefresh
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{cfg: cfg, loopback: loopback, timeout: gitTimeout, max: maxRepo}
	for _, one := range cfg.Sources {
		at, err := one.place(loopback)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.sources, func(other *source) bool { return other.Name == one.Name }) {
			return nil, badSource("There are two collections with the name %s.", one.Name).WithHint("Give each a name of its own.")
		}
		s.sources = append(s.sources, &source{Source: one, at: at, key: cacheKey(one)})
	}
	for _, one := range s.sources {
		s.restore(ctx, one)
	}
	s.publish()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s, nil
}

// Bundles returns what is loaded now, in the order of the sources; it never waits.
// A source has one bundle, and one for each plugin in it; one of which nothing could
// be loaded yet has a bundle with Problems only. What is returned is shared: it must
// not be changed.
func (s *Set) Bundles() []extension.Bundle { return slices.Clone(*s.now.Load()) }

// Run refreshes all sources, at once and then regularly, until ctx ends. It is
// called once.
func (s *Set) Run(ctx context.Context) {
	s.sweep()
	tick := time.NewTicker(s.cfg.Refresh)
	defer tick.Stop()
	for {
		s.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh goes through all sources; each one's news are visible at once.
func (s *Set) refresh(ctx context.Context) {
	for _, one := range s.sources {
		err := s.refreshOne(ctx, one)
		if ctx.Err() != nil {
			return
		}
		one.problem = ""
		if err != nil {
			one.problem = fault.PublicText(err)
			s.cfg.Logger.Warn("a collection could not be refreshed; what was loaded before stays", "collection", one.Name,
				"location", one.Location, "error", err)
		}
		s.publish()
	}
}

func (s *Set) refreshOne(ctx context.Context, one *source) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sourceTimeout, fault.New(fault.Timeout, codeTimeout,
		"The collection could not be loaded within %v.", sourceTimeout).WithHint("Look at the network and the size of the collection."))
	defer cancel()
	if one.at.dir != "" {
		bundles, err := loadDir(ctx, one)
		if err == nil {
			one.bundles = bundles
		}
		return err
	}
	g, err := s.git(one)
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(g.scratch); err != nil {
			s.cfg.Logger.Warn("the rest of a refresh could not be removed", "directory", g.scratch, "error", err)
		}
	}()
	return s.refreshGit(ctx, one, g)
}

// refreshGit fetches and loads what the remote has now, unless that is loaded.
func (s *Set) refreshGit(ctx context.Context, one *source, g *git) error {
	commit, ref, err := g.head(ctx, one.at)
	if err != nil || one.fresh && one.bundles[0].Commit == commit {
		return err
	}
	if commit, err = g.fetch(ctx, one.at, ref); err != nil {
		return err
	}
	tree, err := g.tree(ctx, commit, one.at.subdir)
	if err != nil {
		return err
	}
	bundles, err := load(ctx, tree, one.Source, commit)
	if err != nil {
		return err
	}
	one.bundles = bundles
	s.cfg.Logger.Info("a collection was loaded", "collection", one.Name, "commit", commit)
	err = s.save(one)
	one.fresh = err == nil // else the next refresh tries again
	return err
}

// git makes a scratch directory and looks the program up.
func (s *Set) git(one *source) (*git, error) {
	name := s.cfg.Git
	if name == "" {
		name = "git"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, codeGitMissing, "There is no git on the server's machine, which reads collections from repositories.").
			WithHint("Install git, or name a directory instead.")
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, cacheFault(err)
	}
	scratch, err := os.MkdirTemp(s.cfg.Dir, scratchPrefix)
	if err != nil {
		return nil, cacheFault(err)
	}
	return &git{path: program, scratch: scratch, url: one.at.url, timeout: s.timeout, max: s.max, loopback: s.loopback}, nil
}

// publish makes what is loaded visible.
func (s *Set) publish() {
	list, by := []extension.Bundle{}, []listed{}
	for _, one := range s.sources {
		by = append(by, listed{one.at, one.bundles, one.problem})
		at := len(list)
		if list = append(list, one.bundles...); len(list) == at {
			list = append(list, extension.Bundle{Name: one.title(), Level: one.Level})
		}
		if b := &list[at]; one.problem != "" {
			b.Problems = append(slices.Clip(b.Problems), extension.Problem{File: ".", Text: one.problem})
		}
	}
	s.now.Store(&list)
	s.listed.Store(&by)
}
