package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"parley/internal/fault"
)

// layersAtOnce is how many layers of an image are fetched and unpacked side by
// side: one that waits for the network, one or two that unpack.
const layersAtOnce = 3

// reportEvery is how often a waiting caller hears of the progress.
const reportEvery = 200 * time.Millisecond

// Progress says how far a pull is. Its text is for people: "pulling image: 35 of
// 120 MB".
type Progress struct {
	Done, Total int64 // bytes as they are sent; Total 0 = not known yet
	Assembling  bool  // all layers are there
}

// String returns the text.
func (p Progress) String() string {
	switch {
	case p.Assembling:
		return "unpacking image"
	case p.Total == 0:
		return "pulling image"
	}
	return fmt.Sprintf("pulling image: %d of %d MB", (p.Done+5e5)/1e6, (p.Total+5e5)/1e6)
}

// progress is what a pull counts.
type progress struct {
	done, total atomic.Int64
	assembling  atomic.Bool
}

func (p *progress) now() Progress {
	return Progress{Done: p.done.Load(), Total: p.total.Load(), Assembling: p.assembling.Load()}
}

// flight is a pull that callers wait for. It ends early when nobody does.
type flight struct {
	progress progress
	cancel   context.CancelFunc
	waiting  int           // guarded by the store's mutex
	done     chan struct{} // closed when err is set
	err      error
}

// fetch pulls a reference, or waits for the pull of it that is under way.
func (s *Store) fetch(ctx context.Context, ref reference, again bool, report func(Progress)) error {
	key := fmt.Sprint(again, " ", ref.text)
	f, err := s.join(key, ref)
	if err != nil {
		return err
	}
	err = f.wait(ctx, report)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if s.flights[key] == f { // a later caller gets a pull of its own
			delete(s.flights, key)
		}
	}
	return err
}

func (s *Store) join(key string, ref reference) (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, stopping()
	}
	if f := s.flights[key]; f != nil {
		f.waiting++
		return f, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.options.PullTimeout)
	f := &flight{cancel: cancel, waiting: 1, done: make(chan struct{})}
	s.flights[key] = f
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		f.err = s.ended(s.pull(ctx, ref, &f.progress))
		s.mu.Lock()
		if s.flights[key] == f {
			delete(s.flights, key)
		}
		s.mu.Unlock()
		close(f.done)
	}()
	return f, nil
}

func stopping() error {
	return fault.New(fault.Unavailable, CodeStore, "The image store is closed: the server is stopping.")
}

// ended says why a pull that was stopped from inside was.
func (s *Store) ended(err error) error {
	switch {
	case err == nil || fault.CodeOf(err) != "":
		return err
	case s.ctx.Err() != nil:
		return stopping()
	case fault.Is(err, fault.Timeout):
		return fault.Wrap(err, fault.Timeout, CodeRegistry, "The image could not be pulled within %s.", s.options.PullTimeout).
			WithHint("Try again: layers that are complete are kept.")
	}
	return err
}

// wait returns when the pull has ended, or with the context's error.
func (f *flight) wait(ctx context.Context, report func(Progress)) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if report != nil {
				report(f.progress.now())
			}
		}
	}
}

// pull makes the image of a reference and gives it the reference as a name.
func (s *Store) pull(ctx context.Context, ref reference, p *progress) error {
	if ref.remote == nil {
		_, err := s.fromFile(ctx, ref.path, []string{ref.chosen}, func(*plan) (string, error) { return ref.text, nil }, p)
		return err
	}
	repo := ref.remote.Context()
	secret, err := readCredential(s.options.Credentials, repo.RegistryStr(), repo.RepositoryStr())
	if err != nil {
		return err
	}
	from := &repository{options: &s.options, http: s.http, registry: repo.RegistryStr(), path: repo.RepositoryStr(), secret: secret}
	made, err := resolve(ctx, from, ref.remote.Identifier(), &s.options)
	if err != nil {
		return err
	}
	_, err = s.install(ctx, made, ref.text, p)
	return err
}

// load is Load.
func (s *Store) load(ctx context.Context, file, name string, report func(Progress)) (*Image, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, stopping()
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	f := &flight{done: make(chan struct{})}
	choices := []string{""} // the only one, else that with the name
	if name != "" {
		choices = append(choices, name)
	}
	var made *Image
	go func() {
		defer close(f.done)
		made, f.err = s.fromFile(ctx, file, choices, func(p *plan) (string, error) { return loadName(p, name) }, &f.progress)
	}()
	// The goroutine is joined whatever ends it: its own context is the caller's.
	err := f.wait(context.WithoutCancel(ctx), report)
	if s.ctx.Err() != nil {
		err = s.ended(err)
	}
	return made, err
}

// loadName is the name for an image from a file.
func loadName(p *plan, name string) (string, error) {
	if name == "" {
		name = p.name
	}
	if name == "" {
		return "", fault.New(fault.Invalid, CodeRef, "The file gives its image no name.").WithHint("Give it one.")
	}
	return Normalize(name)
}

// fromFile makes the image of a file: what the first choice that fits names.
func (s *Store) fromFile(ctx context.Context, file string, choices []string, name func(*plan) (string, error), p *progress) (*Image, error) {
	a, err := openArchive(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.close() }()
	var made *plan
	for _, chosen := range choices {
		if made, err = planArchive(ctx, a, file, chosen, &s.options); fault.CodeOf(err) != CodeNotInSource {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	ref, err := name(made)
	if err != nil {
		return nil, err
	}
	return s.install(ctx, made, ref, p)
}

// install makes an image, unless it is there, and gives it a name.
func (s *Store) install(ctx context.Context, made *plan, ref string, p *progress) (*Image, error) {
	defer s.pin(made)()
	unlock, err := s.locks.acquire(ctx, made.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.mu.Lock()
	_, there := s.state.images[made.id]
	s.mu.Unlock()
	if !there {
		if err := s.assemble(ctx, made, p); err != nil {
			return nil, storeFault(err)
		}
	}
	return s.publish(made, ref)
}

// pin keeps what a pull needs from being removed.
func (s *Store) pin(made *plan) (unpin func()) {
	ids := []v1.Hash{made.id}
	for _, l := range made.layers {
		ids = append(ids, l.diffID)
	}
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range ids {
			if s.pinned[id] += n; s.pinned[id] == 0 {
				delete(s.pinned, id)
			}
		}
	}
	add(1)
	return func() { add(-1) }
}

// publish names an image that is there and pinned.
func (s *Store) publish(made *plan, ref string) (*Image, error) {
	s.mu.Lock()
	r := refRecord{Ref: ref, Platform: s.options.Platform.String(), ID: made.id, Pulled: time.Now().UTC().Truncate(time.Second)}
	if usable(made.digest) {
		r.Digest = made.digest.String()
	}
	key := refKey(r.Ref, r.Platform)
	err := s.write(refsDir, key, r)
	var im *Image
	var trash []string
	if err == nil {
		s.state.refs[key] = r
		im = s.image(s.state.images[made.id], []refRecord{r})
		trash, err = s.collect() // what had this name before
	}
	s.mu.Unlock()
	if err := storeFault(firstError(err, empty(trash))); err != nil {
		return nil, err
	}
	return im, nil
}

// assemble fetches an image's layers and merges them.
func (s *Store) assemble(ctx context.Context, made *plan, p *progress) error {
	for _, l := range made.layers {
		p.total.Add(l.size)
	}
	left := newBudget(&s.options)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(layersAtOnce)
	for i := range made.layers {
		g.Go(func() error { return s.layer(gctx, &made.layers[i], left, p) })
	}
	if err := g.Wait(); err != nil {
		return firstError(ctx.Err(), err)
	}
	p.assembling.Store(true)
	return s.inTemp("image-", func(tmp string) error {
		r, err := s.merge(ctx, made, tmp)
		if err != nil {
			return err
		}
		if err := s.settle(tmp, imagesDir, made.id.Hex); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.images[made.id] = r
		return nil
	})
}

// inTemp works in a directory that is gone afterwards, unless it was moved.
func (s *Store) inTemp(prefix string, do func(tmp string) error) error {
	tmp, err := os.MkdirTemp(s.path(tmpDir), prefix)
	if err != nil {
		return err
	}
	return firstError(do(tmp), os.RemoveAll(tmp))
}

// layer makes sure that a layer is there.
func (s *Store) layer(ctx context.Context, l *layerPlan, left *budget, p *progress) error {
	unlock, err := s.locks.acquire(ctx, l.diffID)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	there := s.state.layers[l.diffID]
	s.mu.Unlock()
	if there {
		var info layerInfo
		if err := readJSON(s.path(layersDir, l.diffID.Hex, infoFile), &info); err != nil {
			return err
		}
		p.done.Add(l.size)
		return left.take(info.Bytes, info.Files)
	}
	return s.inTemp("layer-", func(tmp string) error {
		if err := s.unpack(ctx, l, tmp, left, p); err != nil {
			return err
		}
		if err := s.settle(tmp, layersDir, l.diffID.Hex); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.layers[l.diffID] = true
		return nil
	})
}

// unpack fetches a layer into a directory.
func (s *Store) unpack(ctx context.Context, l *layerPlan, tmp string, left *budget, p *progress) error {
	from, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	// Beside files a tar has a header for each, and long names.
	limit := s.options.MaxBytes + 4096*s.options.MaxFiles
	stream, err := openStream(ctx, from, limit, func(n int64) { p.done.Add(n) })
	if err != nil {
		return err
	}
	defer stream.stop()
	files := filepath.Join(tmp, filesDir)
	if err := makeDir(files); err != nil {
		return err
	}
	u, err := newUnpacker(files, !s.options.asUser, left)
	if err != nil {
		return err
	}
	defer u.close()
	if err := u.all(stream.plain); err != nil {
		return stream.classify(err)
	}
	if err := stream.verify(l); err != nil {
		return err
	}
	return writeJSON(filepath.Join(tmp, infoFile), u.info())
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // whatever the umask is
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// merge makes an image's root file system and record in a directory.
func (s *Store) merge(ctx context.Context, made *plan, tmp string) (imageRecord, error) {
	c := made.config.Config
	r := imageRecord{ID: made.id, Layers: []v1.Hash{}, Platform: made.config.Platform().String(), Env: c.Env, WorkingDir: c.WorkingDir,
		User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd}
	var layers []mergedLayer
	defer func() {
		for _, l := range layers {
			_ = l.root.Close()
		}
	}()
	for _, l := range made.layers {
		layer, err := s.openLayer(l.diffID)
		if err != nil {
			return r, err
		}
		layers = append(layers, layer)
		r.Layers = append(r.Layers, l.diffID)
		r.Bytes += layer.info.Bytes
		r.Files += layer.info.Files
	}
	tree := newDir(-1)
	for i := range layers {
		if err := overlay(ctx, tree, layers, i); err != nil {
			return r, err
		}
	}
	root := filepath.Join(tmp, rootfsDir)
	if err := makeDir(root); err != nil {
		return r, err
	}
	f, err := os.Open(root)
	if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }()
	m := &merger{ctx: ctx, layers: layers, root: f, owners: !s.options.asUser}
	return r, firstError(m.all(tree), writeJSON(filepath.Join(tmp, recordFile), r))
}

func (s *Store) openLayer(id v1.Hash) (mergedLayer, error) {
	var l mergedLayer
	if err := readJSON(s.path(layersDir, id.Hex, infoFile), &l.info); err != nil {
		return l, err
	}
	var err error
	l.root, err = os.Open(s.path(layersDir, id.Hex, filesDir))
	return l, err
}

// keyed is a lock for each of many things.
type keyed struct {
	mu   sync.Mutex
	held map[v1.Hash]chan struct{}
}

// acquire waits for a thing's lock.
func (k *keyed) acquire(ctx context.Context, id v1.Hash) (unlock func(), err error) {
	for {
		k.mu.Lock()
		busy, ok := k.held[id]
		if !ok {
			mine := make(chan struct{})
			k.held[id] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, id)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
