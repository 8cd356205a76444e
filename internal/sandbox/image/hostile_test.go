package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

// Each layer tries to reach outside of its directory: a file beside the store has
// another name and another content afterwards if it can.
func TestNoLayerLeavesItsDirectory(t *testing.T) {
	const evil = "evil"
	long := strings.Repeat("d/", 1600)
	for name, c := range map[string]struct {
		entries []entry
		refused bool // else it lands inside
	}{
		"climbing":                           {[]entry{file("../../../outside", evil)}, true},
		"climbing later":                     {[]entry{file("a/../../../../outside", evil)}, true},
		"climbing to the same place":         {[]entry{file("a/../b", evil)}, true},
		"absolute":                           {[]entry{file("$OUTSIDE", evil)}, false},
		"through a link":                     {[]entry{symlink("l", "$DIR"), file("l/outside", evil)}, true},
		"through a link that climbs":         {[]entry{symlink("l", "../../../../.."), file("l/outside", evil)}, false},
		"through a link to a link":           {[]entry{symlink("m", "/"), symlink("l", "m/../.."), file("l/outside", evil)}, false},
		"through a link in a directory":      {[]entry{dir("a"), symlink("a/l", "../../../../../../../$DIR"), file("a/l/outside", evil)}, true},
		"a file over a link":                 {[]entry{symlink("l", "$OUTSIDE"), file("l", evil)}, false},
		"a directory over a link":            {[]entry{symlink("l", "$DIR"), dir("l"), file("l/outside", evil)}, false},
		"a hard link to the outside":         {[]entry{hardlink("l", "$OUTSIDE"), file("l", evil)}, true},
		"a hard link that climbs":            {[]entry{hardlink("l", "../../../../outside")}, true},
		"a hard link through a link":         {[]entry{symlink("d", "$DIR"), hardlink("l", "d/outside")}, true},
		"a hard link to a link":              {[]entry{symlink("s", "$OUTSIDE"), hardlink("l", "s"), file("l", evil)}, false},
		"a hard link to itself":              {[]entry{file("l", "x"), hardlink("l", "l")}, false},
		"a hard link to a directory":         {[]entry{dir("d"), hardlink("l", "d")}, true},
		"a hard link to the root":            {[]entry{hardlink("l", "/")}, true},
		"a hard link in place of its target": {[]entry{file("a/b", "x"), hardlink("a", "a/b")}, true},
		"a hard link to nothing":             {[]entry{hardlink("l", "no")}, true},
		"a mode through a link":              {[]entry{symlink("l", "$OUTSIDE"), entry{name: "l", kind: tar.TypeSymlink, link: "$OUTSIDE", mode: 0o777}}, false},
		"a whiteout that climbs":             {[]entry{file("a/.wh...", "")}, true},
		"a whiteout of itself":               {[]entry{file("a/.wh..", "")}, true},
		"a whiteout of nothing":              {[]entry{file("a/.wh.", "")}, true},
		"a whiteout through a link":          {[]entry{symlink("l", "$DIR"), file("l/.wh.outside", "")}, false},
		"an opaque link":                     {[]entry{symlink("l", "$DIR"), file("l/.wh..wh..opq", "")}, false},
		"a link in a circle":                 {[]entry{symlink("a", "b"), symlink("b", "a"), file("a/x", evil)}, true},
		"below a file":                       {[]entry{file("a", "x"), file("a/b", evil)}, true},
		"a root that is a file":              {[]entry{{name: ".", kind: tar.TypeReg, body: evil}}, true},
		"a root that is a link":              {[]entry{symlink(".", "$DIR")}, true},
		"a path that is too long":            {[]entry{file(long+"x", evil)}, true},
		"a name that is too long":            {[]entry{file(strings.Repeat("n", 300), evil)}, true},
		"a path that grows by links":         {growing(), true},
		"a link without a target":            {[]entry{{name: "l", kind: tar.TypeSymlink}}, true},
		"magic links":                        {[]entry{symlink("p", "/proc/self/root"), file("p$OUTSIDE", evil)}, true},
		"a device":                           {[]entry{{name: "mem", kind: tar.TypeChar}, {name: "sda", kind: tar.TypeBlock}, {name: "p", kind: tar.TypeFifo}}, false},
		"an unknown kind":                    {[]entry{{name: "x", kind: 'Q'}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			outside := filepath.Join(outer, "outside")
			if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range c.entries {
				e := &c.entries[i]
				for _, text := range []*string{&e.name, &e.link} {
					*text = strings.ReplaceAll(strings.ReplaceAll(*text, "$OUTSIDE", outside), "$DIR", outer)
				}
			}
			h := newHub(t)
			ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, c.entries...)}})
			o := h.options(filepath.Join(outer, "store"))
			s := open(t, o)
			if c.refused {
				text := refused(t, s, ref, fault.Invalid, image.CodeHostile)
				if !strings.HasPrefix(text, "A layer of the image is refused: ") || len(text) > 1200 {
					t.Error(text)
				}
				if left := append(leftovers(t, o.Dir), names(t, o.Dir, "layers")...); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			} else {
				im := get(t, s, ref)
				noSpecials(t, im.Rootfs)
			}
			info, err := os.Lstat(outside)
			data, _ := os.ReadFile(outside)
			if err != nil || info.Mode() != 0o600 || string(data) != "mine" || len(names(t, outer)) != 2 {
				t.Errorf("outside: %v %v %q, %v", info, err, data, names(t, outer))
			}
		})
	}
}

// growing makes a path longer than any that the kernel takes, by links.
func growing() []entry {
	long := strings.Repeat("0123456789/", 250)
	list := []entry{dir(strings.TrimSuffix(long, "/")), symlink("a", long)}
	return append(list, dir("a/"+strings.TrimSuffix(long, "/")), symlink("b", "a/"+long), file("b/x/y", ""))
}

func noSpecials(t testing.TB, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&^(os.ModeDir|os.ModeSymlink) != 0 {
			t.Errorf("%s is a %v", path, d.Type())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatLandsInsideThroughLinks(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, dir("usr/lib"), symlink("lib", "usr/lib"), symlink("abs", "/usr"),
		file("lib/a", "a"), file("abs/b", "b"), symlink("up", "../../usr"), file("up/c", "c"), hardlink("d", "lib/a"))}})
	got := tree(t, get(t, open(t, h.options(t.TempDir())), ref).Rootfs)
	if got["usr/lib/a"] != "a" || got["usr/b"] != "b" || got["usr/c"] != "c" || got["d"] != "a" {
		t.Error(got)
	}
}

func TestAnEntryThatIsThereTwice(t *testing.T) {
	h := newHub(t)
	ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "1"), hardlink("b", "a"), file("a", "2"),
		dir("d"), file("d/x", "x"), file("d", "now a file"), file("e", ""), dir("e"), dir("e"), file("e/x", ""), symlink("s", "a"), symlink("s", "b"))}})
	got := tree(t, get(t, open(t, h.options(t.TempDir())), ref).Rootfs)
	if got["a"] != "2" || got["b"] != "1" || got["d"] != "now a file" || got["s"] != "-> b" {
		t.Errorf("%v: an entry was written through a hard link, or not replaced", got)
	}
}

func TestDigestsAreChecked(t *testing.T) {
	other := gzipped([]byte("something else"))
	for name, spoil := range map[string]func(p *picture, config []byte) (path string, body []byte){
		"layer": func(p *picture, _ []byte) (string, []byte) {
			b := slices.Clone(p.blobs[0])
			b[9] ^= 1 // the operating system in the gzip header: content is the same
			return digest(p.blobs[0]), b
		},
		"layer of another content": func(p *picture, _ []byte) (string, []byte) { return digest(p.blobs[0]), other },
		"configuration": func(_ *picture, config []byte) (string, []byte) {
			return digest(config), bytes.Replace(config, []byte("linux"), []byte("Linux"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			p := &picture{layers: [][]byte{layerOf(t, file("a", "a"))}}
			ref := h.push("x/y", "1", p)
			config, _ := (&picture{layers: p.layers}).documents()
			path, body := spoil(p, config)
			h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, path) {
					_, _ = w.Write(body)
					return true
				}
				return false
			})
			o := h.options(t.TempDir())
			refused(t, open(t, o), ref, fault.Invalid, image.CodeCorrupt)
			if left := append(leftovers(t, o.Dir), names(t, o.Dir, "layers")...); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("manifest by digest", func(t *testing.T) {
		h := newHub(t)
		p := &picture{layers: [][]byte{layerOf(t, file("a", "a"))}}
		h.push("x/y", "1", p)
		_, other := p.documents()
		h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			_, _ = w.Write(other)
			return true
		})
		refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y@sha256:"+strings.Repeat("a", 64), fault.Invalid, image.CodeCorrupt)
	})
	t.Run("content of a layer", func(t *testing.T) {
		h := newHub(t)
		ref := h.push("x/y", "1", &picture{layers: [][]byte{layerOf(t, file("a", "a"))}, diffIDs: []string{"sha256:" + strings.Repeat("b", 64)}})
		refused(t, open(t, h.options(t.TempDir())), ref, fault.Invalid, image.CodeCorrupt)
	})
}

// cutBlob sends at most n bytes of a blob at a time, times times, with or without
// a sense of where it should begin.
func cutBlob(h *hub, blob []byte, n, times int, ranges bool) {
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest(blob)) {
			return false
		}
		from := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil || !ranges {
			from = 0
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)-from))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(blob)-1, len(blob)))
			w.WriteHeader(http.StatusPartialContent)
		}
		end := len(blob)
		if times--; times >= 0 {
			end = min(end, n+from)
		}
		_, _ = w.Write(blob[from:end])
		if end < len(blob) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	})
}

func TestDownloadsThatBreakOff(t *testing.T) {
	p := &picture{compress: plainly, layers: [][]byte{layerOf(t, file("a", strings.Repeat("a", 300_000)))}}
	for name, c := range map[string]struct {
		n, times int
		ranges   bool
		ok       bool
	}{
		"are continued":                        {100_000, 3, true, true},
		"are continued as long as they get on": {70_000, 100, true, true},
		"are begun anew":                       {200_000, 2, false, true},
		"are given up":                         {1000, 100, true, false},
		"are given up without ranges":          {1000, 100, false, false},
		"before anything came":                 {0, 100, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("x/y", "1", p)
			cutBlob(h, p.blobs[0], c.n, c.times, c.ranges)
			s := open(t, h.options(t.TempDir()))
			if c.ok {
				if got := tree(t, get(t, s, ref).Rootfs); len(got["a"]) != 300_000 {
					t.Error("it is not whole")
				}
				return
			}
			refused(t, s, ref, fault.Invalid, image.CodeCorrupt)
			if n := h.count(digest(p.blobs[0])); n > 8 {
				t.Errorf("%d tries", n)
			}
		})
	}
	t.Run("a registry that stands still", func(t *testing.T) {
		h := newHub(t)
		ref := h.push("x/y", "1", p)
		h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, digest(p.blobs[0])) {
				_, _ = w.Write([]byte("x"))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return true
			}
			return false
		})
		refused(t, open(t, image.Options{Dir: t.TempDir(), Insecure: []string{h.host}}.Quick(20e6)), ref, fault.Unavailable, image.CodeRegistry)
	})
	t.Run("a registry that refuses ranges", func(t *testing.T) {
		h := newHub(t)
		ref := h.push("x/y", "1", p)
		n := 0
		h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if n++; !strings.HasSuffix(r.URL.Path, digest(p.blobs[0])) || r.Header.Get("Range") != "" || n > 3 {
				return false // it answers 416 to what has no end
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(p.blobs[0])))
			_, _ = w.Write(p.blobs[0][:100_000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		get(t, open(t, h.options(t.TempDir())), ref)
	})
	t.Run("a part that nobody asked for", func(t *testing.T) {
		h := newHub(t)
		ref := h.push("x/y", "1", p)
		h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, digest(p.blobs[0])) {
				return false
			}
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes 0-9/10")
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		refused(t, open(t, h.options(t.TempDir())), ref, fault.Invalid, image.CodeCorrupt)
	})
}

func TestBounds(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	many := func(n int) (list []entry) {
		for i := range n {
			list = append(list, file(fmt.Sprint("f", i), ""))
		}
		return list
	}
	small := layerOf(t, file("a", "a"))
	for name, p := range map[string]*picture{
		"a large file":             {layers: [][]byte{layerOf(t, file("a", zeros(2_000_000)))}},
		"large files":              {layers: [][]byte{layerOf(t, file("a", zeros(600_000)), file("b", zeros(600_000)))}},
		"large layers":             {layers: [][]byte{layerOf(t, file("a", zeros(600_000))), layerOf(t, file("b", zeros(600_000)))}},
		"a large file by zstd":     {compress: zstded, layers: [][]byte{layerOf(t, file("a", zeros(2_000_000)))}},
		"many files":               {layers: [][]byte{layerOf(t, many(101)...)}},
		"many implicit ones":       {layers: [][]byte{layerOf(t, file(strings.Repeat("d/", 101)+"x", ""))}},
		"many whiteouts":           {layers: [][]byte{layerOf(t, slices.Repeat([]entry{file(".wh.x", "")}, 101)...)}},
		"zeros behind the end":     {layers: [][]byte{append(slices.Clone(small), zeros(3_000_000)...)}},
		"a large device":           {layers: [][]byte{append(layerOf(t, file("a", zeros(2_000_000))), zeros(1)...)}},
		"more layers than allowed": {layers: slices.Repeat([][]byte{small}, 300)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("x/y", "1", p)
			o := h.options(t.TempDir())
			o.MaxBytes, o.MaxFiles = 1_000_000, 100
			refused(t, open(t, o), ref, fault.TooLarge, image.CodeTooLarge)
			if left := leftovers(t, o.Dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("layers that are there count", func(t *testing.T) {
		h := newHub(t)
		big := layerOf(t, file("a", zeros(600_000)))
		o := h.options(t.TempDir())
		o.MaxBytes = 1_000_000
		s := open(t, o)
		get(t, s, h.push("x/y", "1", &picture{layers: [][]byte{big}}))
		refused(t, s, h.push("x/y", "2", &picture{layers: [][]byte{big, layerOf(t, file("b", zeros(600_000)))}}), fault.TooLarge, image.CodeTooLarge)
	})
	t.Run("a manifest without end", func(t *testing.T) {
		h := newHub(t)
		h.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			for range 200 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 64<<10))
			}
			return true
		})
		refused(t, open(t, h.options(t.TempDir())), h.host+"/x/y:1", fault.TooLarge, image.CodeTooLarge)
	})
}

func TestStreamsThatMakeNoSense(t *testing.T) {
	good := layerOf(t, file("a", strings.Repeat("a", 5000)))
	for name, c := range map[string]struct {
		compress func([]byte) []byte
		kind     fault.Kind
		code     string
	}{
		"gzip that breaks off":  {func(b []byte) []byte { z := gzipped(b); return z[:len(z)-9] }, fault.Invalid, image.CodeCorrupt},
		"gzip and more":         {func(b []byte) []byte { return append(gzipped(b), "more"...) }, fault.Invalid, image.CodeCorrupt},
		"zstd that breaks off":  {func(b []byte) []byte { z := zstded(b); return z[:len(z)-3] }, fault.Invalid, image.CodeCorrupt},
		"a tar that breaks off": {func(b []byte) []byte { return b[:2000] }, fault.Invalid, image.CodeCorrupt},
		"no tar":                {func([]byte) []byte { return bytes.Repeat([]byte("garbage "), 500) }, fault.Invalid, image.CodeCorrupt},
		"nothing":               {func([]byte) []byte { return nil }, fault.Invalid, image.CodeCorrupt},
		"bzip2":                 {func([]byte) []byte { return []byte("BZh91AY") }, fault.Unsupported, image.CodeKind},
		"xz":                    {func([]byte) []byte { return []byte{0xfd, '7', 'z', 'X', 'Z', 0} }, fault.Unsupported, image.CodeKind},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push("x/y", "1", &picture{compress: c.compress, layers: [][]byte{good}})
			refused(t, open(t, h.options(t.TempDir())), ref, c.kind, c.code)
		})
	}
}

func TestReferences(t *testing.T) {
	sha := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"debian":                     "docker.io/library/debian:latest",
		" debian:12 ":                "docker.io/library/debian:12",
		"docker.io/debian":           "docker.io/library/debian:latest",
		"org/app":                    "docker.io/org/app:latest",
		"ghcr.io/org/app:1":          "ghcr.io/org/app:1",
		"localhost:5000/a":           "localhost:5000/a:latest",
		"debian@" + sha:              "docker.io/library/debian@" + sha,
		"debian:12@" + sha:           "docker.io/library/debian@" + sha,
		"oci:/a/../b":                "oci:/b",
		"docker-archive:/x.tar:a:12": "docker-archive:/x.tar:a:12",
	} {
		if got, err := image.Normalize(text); got != want || err != nil {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	for _, text := range []string{"", "A B", "UPPER", "../x", "https://ghcr.io/x", "oci:relative", "oci:", "debian@sha256:12", strings.Repeat("a", 2000),
		"user:secret@host/x", "a\x00b", "oci:/a\x00b"} {
		if got, err := image.Normalize(text); fault.CodeOf(err) != image.CodeRef || len(fault.PublicText(err)) > 600 {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

func TestFilesAndRegistriesThatMayNotBeUsed(t *testing.T) {
	o := image.Options{Dir: t.TempDir(), Registries: []string{"docker.io", "*.example.com", "ghcr.io"}, Files: []string{"/srv/images"}}
	s := open(t, o)
	for _, ref := range []string{"quay.io/a/b", "example.com/a/b", "ghcr.io.evil.com/a/b", "oci:/etc", "oci:/srv/images/../../etc", "docker-archive:/srv/images2/x", "localhost/a"} {
		if text := refused(t, s, ref, fault.Forbidden, image.CodeRefused); text == "" {
			t.Error(ref)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ref := range []string{"debian", "a.example.com/x/y", "b.a.example.com:5000/x/y", "ghcr.io:443/x/y"} {
		if _, err := s.Get(ctx, image.Request{Ref: ref}); fault.CodeOf(err) == image.CodeRefused {
			t.Errorf("%s: %v", ref, err)
		}
	}
}
