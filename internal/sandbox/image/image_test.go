package image_test

import (
	"archive/tar"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

func TestAnImageIsItsLayersOnTopOfEachOther(t *testing.T) {
	for name, compress := range map[string]func([]byte) []byte{"gzip": gzipped, "zstd": zstded, "plain": plainly} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("org/app", "1", &picture{compress: compress, settings: object{"Env": []string{"PATH=/bin", "A=b"}, "WorkingDir": "/srv",
				"User": "app:app", "Entrypoint": []string{"/init"}, "Cmd": []string{"-x"}},
				layers: [][]byte{
					layerOf(t, dir("."), dir("etc"), file("etc/passwd", "root"), file("etc/gone", "x"), dir("var"), dir("var/cache"),
						file("var/cache/a", "a"), file("bin/sh", "shell"), hardlink("bin/bash", "bin/sh"), symlink("lib", "usr/lib"), file("usr/lib/x", "x")),
					layerOf(t, file("etc/.wh.gone", ""), file("var/cache/.wh..wh..opq", ""), file("var/cache/b", "b"), file("etc/passwd", "root2"),
						file(".wh..wh.plnk/1", "meta"), file(".wh..wh.aufs", "meta")),
					layerOf(t, entry{name: "run", kind: tar.TypeFifo}, entry{name: "dev/null", kind: tar.TypeChar}, entry{name: "/abs", body: "1"}, file("./rel", "2")),
				}})
			o := h.options(t.TempDir())
			s := open(t, o)
			im := get(t, s, ref)
			want := map[string]string{"etc/": "", "etc/passwd": "root2", "var/": "", "var/cache/": "", "var/cache/b": "b", "bin/": "", "bin/sh": "shell",
				"bin/bash": "shell", "lib": "-> usr/lib", "usr/": "", "usr/lib/": "", "usr/lib/x": "x", "abs": "1", "rel": "2"}
			if d := cmp.Diff(want, tree(t, im.Rootfs)); d != "" {
				t.Error(d)
			}
			if a, b := inode(t, im.Rootfs, "bin/sh"), inode(t, im.Rootfs, "bin/bash"); a != b {
				t.Error("hard links became two files")
			}
			info, err := os.Stat(filepath.Join(im.Rootfs, "etc"))
			if err != nil || !info.ModTime().Equal(then) || info.Mode().Perm() != 0o755 {
				t.Errorf("etc: %v %v", info, err)
			}
			want2 := image.Image{ID: im.ID, Digest: im.Digest, Ref: ref, Rootfs: im.Rootfs, Env: []string{"PATH=/bin", "A=b"}, WorkingDir: "/srv",
				User: "app:app", Entrypoint: []string{"/init"}, Cmd: []string{"-x"}}
			if d := cmp.Diff(want2, *im); d != "" {
				t.Error(d)
			}
			if left := leftovers(t, o.Dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			h.intercept(nil)
			again := get(t, s, ref)
			if d := cmp.Diff(im, again); d != "" || h.count("/v2/") != 0 {
				t.Errorf("%s, %d requests for an image that is there", d, h.count("/v2/"))
			}
			byDigest := get(t, s, strings.TrimSuffix(ref, ":1")+"@"+im.Digest)
			if byDigest.ID != im.ID || h.count("/blobs/") != 1 {
				t.Errorf("%+v, %d blobs for an image that is there by another name", byDigest, h.count("/blobs/"))
			}
		})
	}
}

func inode(t testing.TB, parts ...string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(parts...), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestWhatALayerDoesToThoseBelow(t *testing.T) {
	base := []entry{dir("a"), file("a/1", "1"), file("a/2", "2"), dir("a/d"), file("a/d/x", "x"), symlink("l", "a"), file("f", "f")}
	for name, c := range map[string]struct {
		above []entry
		want  []string
	}{
		"nothing":                                 {nil, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l"}},
		"a whiteout hides a file":                 {[]entry{file("a/.wh.1", "")}, []string{"a/", "a/2", "a/d/", "a/d/x", "f", "l"}},
		"a whiteout hides a tree":                 {[]entry{file(".wh.a", "")}, []string{"f", "l"}},
		"a whiteout hides nothing of its own":     {[]entry{file(".wh.f", ""), file("f", "new")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l"}},
		"in any order":                            {[]entry{file("f", "new"), file(".wh.f", "")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l"}},
		"an opaque directory":                     {[]entry{dir("a"), file("a/.wh..wh..opq", ""), file("a/3", "")}, []string{"a/", "a/3", "f", "l"}},
		"a tree that is replaced by a file":       {[]entry{file("a", "")}, []string{"a", "f", "l"}},
		"a tree that is replaced by a link":       {[]entry{symlink("a", "f")}, []string{"a", "f", "l"}},
		"a file that is replaced by a tree":       {[]entry{file("f/x", "")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f/", "f/x", "l"}},
		"a link below is not followed":            {[]entry{file("l/new", "")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l/", "l/new"}},
		"a whiteout through a link hides nothing": {[]entry{file("x/.wh.1", ""), file("l/.wh.1", "")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l"}},
		"a whiteout of what is not there":         {[]entry{file("no/.wh.1", ""), file(".wh.no", "")}, []string{"a/", "a/1", "a/2", "a/d/", "a/d/x", "f", "l"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, base...), layerOf(t, c.above...)}})
			got := tree(t, get(t, open(t, h.options(t.TempDir())), ref).Rootfs)
			var paths []string
			for p := range got {
				paths = append(paths, p)
			}
			slices.Sort(paths)
			if d := cmp.Diff(c.want, paths); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestADirectoryThatIsOnlyMentionedKeepsItsMode(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, entry{name: "tmp/", mode: 0o1777}), layerOf(t, file("tmp/x", ""))}})
	info, err := os.Stat(filepath.Join(get(t, open(t, h.options(t.TempDir())), ref).Rootfs, "tmp"))
	if err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestAnImageWithoutLayersIsEmpty(t *testing.T) {
	h := newHub(t)
	im := get(t, open(t, h.options(t.TempDir())), h.push("x/y", "1", &picture{}))
	if got := tree(t, im.Rootfs); len(got) != 0 {
		t.Error(got)
	}
}

func TestOwnersModesAndAttributes(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t,
		entry{name: "secret", body: "s", mode: 0o100000, uid: 33, gid: 44},
		entry{name: "su", body: "s", mode: 0o4755},
		entry{name: "shut/", mode: 0o500, uid: 7}, entry{name: "shut/x", uid: 7, body: "x"},
		entry{name: "attr", xattrs: map[string]string{"user.note": "n", "user.overlay.opaque": "y", "trusted.overlay.opaque": "y", "security.selinux": "z"}},
		entry{name: "attrs/", mode: 0o755, xattrs: map[string]string{"user.overlay.opaque": "y", "user.note": "n"}})}})
	for _, asUser := range []bool{true, false} {
		if !asUser && os.Geteuid() != 0 {
			continue // owners are root's to give
		}
		o := h.options(t.TempDir())
		if asUser {
			o = o.AsUser()
		}
		im := get(t, open(t, o), ref)
		var secret, shut, su unix.Stat_t
		for name, st := range map[string]*unix.Stat_t{"secret": &secret, "shut": &shut, "su": &su} {
			if err := unix.Lstat(filepath.Join(im.Rootfs, name), st); err != nil {
				t.Fatal(err)
			}
		}
		me := uint32(os.Geteuid())
		switch {
		case asUser && (secret.Uid != me || secret.Mode&0o777 != 0o400 || shut.Mode&0o777 != 0o700 || shut.Uid != me):
			t.Errorf("as a user: %o of %d, %o of %d", secret.Mode, secret.Uid, shut.Mode, shut.Uid)
		case !asUser && (secret.Uid != 33 || secret.Gid != 44 || secret.Mode&0o777 != 0 || shut.Mode&0o777 != 0o500 || shut.Uid != 7):
			t.Errorf("as root: %o of %d, %o of %d", secret.Mode, secret.Uid, shut.Mode, shut.Uid)
		}
		if su.Mode&0o7777 != 0o4755 {
			t.Errorf("setuid: %o", su.Mode)
		}
		for _, name := range []string{"attr", "attrs"} {
			list := make([]byte, 1024)
			n, err := unix.Llistxattr(filepath.Join(im.Rootfs, name), list)
			if err == nil && strings.Contains(string(list[:n]), "overlay") {
				t.Errorf("%s: %q", name, list[:n])
			}
		}
		if info, err := os.Stat(o.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("others get at setuid programs: %v %v", info.Mode(), err)
		}
	}
}

func TestLayersAreSharedAndNeverWrittenTo(t *testing.T) {
	h := newHub(t)
	shared := layerOf(t, entry{name: "d/", mode: 0o755}, file("d/f", "f"))
	one := h.push("a/a", "1", &picture{layers: [][]byte{shared}})

	two := h.push("b/b", "2", &picture{layers: [][]byte{shared, layerOf(t, entry{name: "d/", mode: 0o700}, file("d/g", "g"))}})
	o := h.options(t.TempDir())
	s := open(t, o)
	a := get(t, s, one)
	before := inode(t, a.Rootfs, "d/f")
	h.intercept(nil)
	b := get(t, s, two)
	if inode(t, b.Rootfs, "d/f") != before {
		t.Error("a file of a shared layer is there twice")
	}
	if n := h.count("/blobs/"); n != 2 {
		t.Errorf("%d blobs for one new layer and a configuration", n)
	}
	for path, want := range map[string]os.FileMode{a.Rootfs: 0o755, b.Rootfs: 0o700} {
		info, err := os.Stat(filepath.Join(path, "d"))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
	if n := len(names(t, o.Dir, "layers")); n != 2 {
		t.Errorf("%d layers", n)
	}
}

func TestGetsOfTheSameImageShareOnePull(t *testing.T) {
	h := newHub(t)
	p := &picture{layers: [][]byte{layerOf(t, file("a", "a")), layerOf(t, file("b", "b"))}}
	ref := h.push("x/y", "1", p)
	release := make(chan struct{})
	h.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, digest(p.blobs[0])) {
			<-release
		}
		return false
	})
	s := open(t, h.options(t.TempDir()))
	var wg sync.WaitGroup
	heard := make(chan struct{}, 100)
	for range 16 {
		wg.Go(func() {
			im, err := s.Get(context.Background(), image.Request{Ref: ref, Progress: func(p image.Progress) {
				if strings.HasPrefix(p.String(), "pulling image: ") {
					heard <- struct{}{}
				}
			}})
			if err != nil || im.Ref != ref {
				t.Errorf("%v %v", im, err)
			}
		})
	}
	quit, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		if _, err := s.Get(quit, image.Request{Ref: ref}); err == nil {
			t.Error("a caller that left got an image")
		}
	})
	<-heard
	cancel()
	close(release)
	wg.Wait()
	if n := h.count("/blobs/"); n != 3 {
		t.Errorf("%d blobs were fetched", n)
	}
}

func TestAPullEndsWhenNobodyWaits(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
	began, ended := make(chan struct{}), make(chan struct{})
	h.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/") {
			close(began)
			<-r.Context().Done()
			close(ended)
		}
		return false
	})
	s := open(t, h.options(t.TempDir()))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	if _, err := s.Get(ctx, image.Request{Ref: ref}); fault.KindOf(err) != fault.Canceled {
		t.Errorf("%v", err)
	}
	<-ended
	h.intercept(nil)
	get(t, s, ref)
}

func TestCloseEndsPulls(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
	began := make(chan struct{})
	h.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		close(began)
		<-r.Context().Done()
		return true
	})
	s := open(t, h.options(t.TempDir()))
	go func() {
		<-began
		_ = s.Close()
	}()
	refused(t, s, ref, fault.Unavailable, image.CodeStore)
	refused(t, s, ref, fault.Unavailable, image.CodeStore)
}

func TestATagThatMoved(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "old"))}})
	o := h.options(t.TempDir())
	s := open(t, o)
	old, err := s.Get(context.Background(), image.Request{Ref: ref, Holder: "box-1"})
	if err != nil {
		t.Fatal(err)
	}
	h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "new"))}})
	if im := get(t, s, ref); im.ID != old.ID {
		t.Error("an image that is there was pulled again")
	}
	im, err := s.Get(context.Background(), image.Request{Ref: ref, Pull: true})
	if err != nil || im.ID == old.ID {
		t.Fatalf("%v %v", im, err)
	}
	if kept, err := s.Find(old.ID); err != nil || kept.Rootfs != old.Rootfs || tree(t, old.Rootfs)["a"] != "old" {
		t.Errorf("a held image is gone: %v %v", kept, err)
	}
	if err := s.Release("box-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(old.ID); fault.CodeOf(err) != image.CodeUnknown {
		t.Errorf("nobody needs it, and it is there: %v", err)
	}
	if n := len(names(t, o.Dir, "layers")); n != 1 {
		t.Errorf("%d layers", n)
	}
}

func TestHolders(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
	o := h.options(t.TempDir())
	s := open(t, o)
	im, err := s.Get(context.Background(), image.Request{Ref: ref, Holder: "local-1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(im.ID, "gvisor-1"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"../x", ".", "a/b", strings.Repeat("a", 129)} {
		if err := s.Hold(im.ID, bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := s.Remove(ref); fault.CodeOf(err) != image.CodeInUse || !strings.Contains(fault.PublicText(err), "gvisor-1, local-1") {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o)
	if err := s.Remove(im.ID); fault.CodeOf(err) != image.CodeInUse {
		t.Errorf("after a restart: %v", err)
	}
	if list := s.List(); len(list) != 1 || !slices.Equal(list[0].Holders, []string{"gvisor-1", "local-1"}) || !slices.Equal(list[0].Refs, []string{ref}) ||
		list[0].Bytes != 1 || list[0].Pulled.IsZero() {
		t.Errorf("%+v", list)
	}
	if err := s.Reconcile("local-", []string{"local-2"}); err != nil {
		t.Fatal(err)
	}
	if list := s.List(); !slices.Equal(list[0].Holders, []string{"gvisor-1"}) {
		t.Errorf("%+v", list)
	}
	if err := s.Release("gvisor-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(ref); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"layers", "images", "refs", "holders", "tmp"} {
		if left := names(t, o.Dir, sub); len(left) > 0 {
			t.Errorf("%s: %v", sub, left)
		}
	}
	for _, name := range []string{ref, im.ID, "sha256:" + strings.Repeat("a", 64)} {
		if err := s.Remove(name); fault.CodeOf(err) != image.CodeUnknown || fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStoreBelongsToOneProcess(t *testing.T) {
	o := image.Options{Dir: t.TempDir()}
	open(t, o)
	_, err := image.Open(o)
	if fault.CodeOf(err) != image.CodeStoreInUse || !strings.Contains(fault.PublicText(err), fmt.Sprint(os.Getpid())) {
		t.Errorf("%v", err)
	}
}

func TestDamagedRecordsAreAsIfTheyWereNotThere(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}})
	for _, damage := range []string{"images/*/image.json", "refs/*", "layers/*"} {
		t.Run(damage, func(t *testing.T) {
			o := h.options(t.TempDir())
			s := open(t, o)
			get(t, s, ref)
			_ = s.Close()
			found, err := filepath.Glob(filepath.Join(o.Dir, damage))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if err := os.RemoveAll(found[0]); err != nil {
				t.Fatal(err)
			}
			s = open(t, o)
			if list := s.List(); len(list) != 0 {
				t.Errorf("%+v", list)
			}
			if got := tree(t, get(t, s, ref).Rootfs); got["a"] != "a" {
				t.Error(got)
			}
		})
	}
}

// A killed pull leaves only what the next Open removes.
func TestKilledInTheMiddle(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		s := open(t, image.Options{Dir: dir, Insecure: []string{os.Getenv(killedRef)}})
		_, err := s.Get(context.Background(), image.Request{Ref: os.Getenv(killedRef) + "/x/y:1"})
		t.Fatalf("it was not killed: %v", err)
	}
	h := newHub(t)
	body := strings.Repeat("x", 1<<20)
	p := &picture{compress: plainly, layers: [][]byte{layerOf(t, file("a", "a")), layerOf(t, file("big1", body), file("big2", body))}}
	ref := h.push("x/y", "1", p)
	slow := make(chan struct{}, 1)
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, digest(p.blobs[1])) {
			return false
		}
		_, _ = w.Write(p.blobs[1][:len(p.blobs[1])*3/4]) // the other side dies
		w.(http.Flusher).Flush()
		slow <- struct{}{}
		<-r.Context().Done()
		return true
	})
	dir := t.TempDir()
	cmd := command(t, "TestKilledInTheMiddle", killedDir+"="+dir, killedRef+"="+h.host)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-slow
	eventually(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "tmp/layer-*/files/big1"))
		return len(found) == 1
	})
	_ = cmd.Process.Signal(syscall.SIGKILL)
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	if len(leftovers(t, dir)) == 0 {
		t.Fatal("nothing was under way")
	}
	h.intercept(nil)
	s := open(t, h.options(dir))
	if left := leftovers(t, dir); len(left) > 0 || len(names(t, dir, "layers")) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := tree(t, get(t, s, ref).Rootfs); got["big2"] != body {
		t.Error("the image is not whole")
	}
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}
