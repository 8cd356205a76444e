package image_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

// Whatever a layer is, it is refused with a reason or lands inside.
func FuzzLayer(f *testing.F) {
	f.Add(gzipped(layerOf(f, dir("a"), file("a/b", "c"), symlink("l", "a"), file("l/x", "y"), hardlink("h", "a/b"), file("a/.wh.b", ""))))
	f.Add(zstded(layerOf(f, file("../x", "c"))))
	f.Add(layerOf(f, symlink("l", "/tmp"), file("l/outside", "y"), file("a/.wh..wh..opq", "")))
	f.Add(layerOf(f, entry{name: "x", kind: tar.TypeChar}))
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		root := filepath.Join(outer, "files")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		err := image.Unpack(t.Context(), data, root, 1<<20, 1000)
		if err != nil && (fault.CodeOf(err) == "" || fault.CodeOf(err) == image.CodeStore) {
			t.Errorf("%v", err)
		}
		noSpecials(t, root)
		if got := names(t, outer); len(got) != 1 {
			t.Errorf("outside: %v", got)
		}
	})
}

func FuzzManifest(f *testing.F) {
	config, manifest := (&picture{layers: [][]byte{nil}}).documents()
	f.Add(config)
	f.Add(manifest)
	f.Add([]byte(`{"manifests": [{"digest": "sha256:"}], "schemaVersion": 2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		isImage, isIndex, err := image.ParseManifest(body)
		if err == nil && isImage == isIndex {
			t.Error("it is both or neither")
		}
		if err != nil && fault.CodeOf(err) == "" {
			t.Errorf("%v", err)
		}
	})
}

func FuzzReference(f *testing.F) {
	for _, text := range []string{"debian", "ghcr.io/a/b:c@sha256:00", "oci:/a:b", "docker-archive:/x", "[::1]:5000/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := image.Normalize(text)
		if err != nil {
			if fault.CodeOf(err) != image.CodeRef {
				t.Errorf("%v", err)
			}
			return
		}
		if again, err := image.Normalize(name); err != nil || again != name {
			t.Errorf("%q is %q is %q, %v", text, name, again, err)
		}
	})
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://a/token",service="a\"b",scope=c`)
	f.Add(`Basic`)
	f.Fuzz(func(t *testing.T, header string) {
		scheme, params := image.ParseChallenge(header)
		if scheme != strings.ToLower(scheme) {
			t.Errorf("%q", scheme)
		}
		for k, v := range params {
			if len(k)+len(v) > 3*len(header) { // what is no UTF-8 grows when it becomes lower case
				t.Errorf("%q: %q", k, v)
			}
		}
	})
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"auths": {"https://index.docker.io/v1/": {"auth": "YTpi"}, "a/b": {"identitytoken": "x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := image.PickCredential(data, "nowhere.example.com", "a/b"); err == nil && got != "::" && !bytes.Contains(data, []byte("nowhere")) &&
			!bytes.Contains(data, []byte(`\`)) {
			t.Errorf("%q for a registry that is not in it", got)
		}
	})
}

// An image is what its layers make one after the other, in the simplest model: a
// map from paths to bodies.
func TestLayersAreAppliedInOrder(t *testing.T) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		model := map[string]string{} // files; directories end in /
		var layers [][]byte
		for range rapid.IntRange(1, 4).Draw(r, "layers") {
			layers = append(layers, layerOf(t, drawLayer(r, model)...))
		}
		root := directory(t, laidOut(named{&picture{layers: layers, compress: plainly}, nil}))
		s, err := image.Open(image.Options{Dir: filepath.Join(t.TempDir(), strconv.Itoa(n))})
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		im, err := s.Load(t.Context(), root, "x:1", nil)
		if err != nil {
			r.Fatal(err)
		}
		if d := cmp.Diff(model, tree(t, im.Rootfs)); d != "" {
			r.Fatal(d)
		}
		if err := os.RemoveAll(root); err != nil {
			r.Fatal(err)
		}
	})
}

// drawLayer makes up a layer and does to the model what it means.
func drawLayer(r *rapid.T, model map[string]string) (entries []entry) {
	name := rapid.SampledFrom([]string{"a", "b", "a/b", "b/a", "a/b/c", "b/a/b"})
	gone := func(path string) {
		for p := range model {
			if p == path || strings.HasPrefix(p, path+"/") {
				delete(model, p)
			}
		}
	}
	parents := func(path string) {
		for i, c := range path {
			if c == '/' {
				delete(model, path[:i]) // a file
				model[path[:i]+"/"] = ""
			}
		}
	}
	// Whiteouts mean the layers below, wherever they are: here they come first.
	for range rapid.IntRange(0, 2).Draw(r, "whiteouts") {
		path := name.Draw(r, "whiteout")
		above, base := filepath.Split(path)
		entries = append(entries, file(above+".wh."+base, ""))
		gone(path)
	}
	own := map[string]bool{} // what this layer has made, files true
	for range rapid.IntRange(0, 4).Draw(r, "entries") {
		path := name.Draw(r, "path")
		if blocked(own, path) {
			continue
		}
		body := rapid.SampledFrom([]string{"1", "2", "/"}).Draw(r, "body")
		parents(path)
		for i, c := range path {
			if c == '/' {
				own[path[:i]] = false
			}
		}
		if body == "/" {
			if own[path] {
				continue
			}
			own[path] = false
			delete(model, path)
			model[path+"/"] = ""
			entries = append(entries, dir(path))
			continue
		}
		gone(path)
		for p := range own {
			if strings.HasPrefix(p, path+"/") {
				delete(own, p)
			}
		}
		own[path] = true
		model[path] = body
		entries = append(entries, file(path, body))
	}
	return entries
}

// blocked reports a path below a file of the same layer, which no tar has.
func blocked(own map[string]bool, path string) bool {
	for i, c := range path {
		if c == '/' && own[path[:i]] {
			return true
		}
	}
	return false
}
