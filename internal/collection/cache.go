package collection

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/lazyre"
)

// What the cache directory holds: a scratch directory while a refresh is under
// way, and one file per repository, which is replaced as a whole.
const (
	scratchPrefix = "refresh-"
	maxCached     = 2 * maxLoaded // bytes
)

var cacheName = lazyre.MustCompile(`^[0-9a-f]{32}\.json$`)

// cacheKey is of everything that decides what a source holds.
func cacheKey(s Source) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", s.Name, s.Level, s.Location))
	return hex.EncodeToString(sum[:16])
}

func (s *Set) cacheFile(one *source) string { return filepath.Join(s.cfg.Dir, one.key+".json") }

// restore loads a source without the network, as far as that is possible.
func (s *Set) restore(ctx context.Context, one *source) {
	var err error
	if one.at.dir != "" {
		one.bundles, err = loadDir(ctx, one)
	} else {
		one.bundles, err = readCache(s.cacheFile(one))
	}
	if err != nil {
		one.problem = fault.PublicText(err)
		s.cfg.Logger.Warn("a collection could not be loaded", "collection", one.Name, "location", one.Location, "error", err)
	} else if one.bundles == nil {
		one.problem = "It was not fetched yet."
	}
}

// readCache returns nil if there is no file.
func readCache(name string) ([]extension.Bundle, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cacheFault(err)
	}
	defer func() { _ = f.Close() }()
	var bundles []extension.Bundle
	if err := json.NewDecoder(io.LimitReader(f, maxCached)).Decode(&bundles); err != nil || len(bundles) == 0 {
		return nil, cacheFault(fmt.Errorf("%d bundles in %s: %w", len(bundles), filepath.Base(name), err))
	}
	return bundles, nil
}

// save keeps the bundles for the next process. The file is there as it was, or as it
// is now, whenever the process or the machine dies.
func (s *Set) save(one *source) error {
	data, err := json.Marshal(one.bundles)
	if err != nil {
		return cacheFault(err)
	}
	f, err := os.CreateTemp(s.cfg.Dir, scratchPrefix)
	if err != nil {
		return cacheFault(err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.cacheFile(one))
	}
	if err != nil {
		return cacheFault(errors.Join(err, os.Remove(f.Name())))
	}
	dir, err := os.Open(s.cfg.Dir)
	if err != nil {
		return cacheFault(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return cacheFault(err)
	}
	return nil
}

// sweep removes what killed processes left, and what belongs to sources that are
// configured no more. What it does not know by its name it leaves alone.
func (s *Set) sweep() {
	used := map[string]bool{}
	for _, one := range s.sources {
		used[filepath.Base(s.cacheFile(one))] = true
	}
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.cfg.Logger.Warn("the cache of collections could not be read", "directory", s.cfg.Dir, "error", err)
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, scratchPrefix) && (!cacheName.MatchString(name) || used[name]) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.cfg.Dir, name)); err != nil {
			s.cfg.Logger.Warn("an old file of a collection could not be removed", "file", name, "error", err)
		}
	}
}

func cacheFault(err error) error {
	return fault.Wrap(err, fault.Unavailable, codeRead, "The server's cache of collections cannot be used.").
		WithHint("Look at the disk and the owner of the data directory; the server's log has the reason.")
}
