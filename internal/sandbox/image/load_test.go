package image_test

import (
	"archive/tar"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox/image"
)

// named is an image with the names that a file gives it.
type named struct {
	*picture
	names []string
}

// saved makes a tar as `docker save` wrote it before it had OCI layouts.
func saved(t *testing.T, images ...named) string {
	t.Helper()
	var entries []entry
	var list []object
	for _, im := range images {
		config, _ := im.documents()
		name := strings.TrimPrefix(digest(config), "sha256:") + ".json"
		var layers []string
		for _, l := range im.layers {
			path := strings.TrimPrefix(digest(l), "sha256:") + "/layer.tar"
			layers = append(layers, path)
			entries = append(entries, file(path, string(l)))
		}
		entries = append(entries, file(name, string(config)))
		list = append(list, object{"Config": name, "RepoTags": im.names, "Layers": layers})
	}
	return write(t, append(entries, file("manifest.json", string(asJSON(list)))))
}

// laidOut makes an OCI layout, as entries of a tar.
func laidOut(images ...named) []entry {
	blobs := map[string]string{}
	var list []object
	for _, im := range images {
		config, manifest := im.documents()
		for _, data := range append([][]byte{config, manifest}, im.blobs...) {
			blobs["blobs/"+strings.Replace(digest(data), ":", "/", 1)] = string(data)
		}
		d := object{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": len(manifest), "digest": digest(manifest)}
		if len(im.names) > 0 {
			d["annotations"] = object{"io.containerd.image.name": im.names[0], "org.opencontainers.image.ref.name": "tagged"}
		}
		list = append(list, d)
	}
	entries := []entry{file("oci-layout", `{"imageLayoutVersion": "1.0.0"}`),
		file("index.json", string(asJSON(object{"schemaVersion": 2, "manifests": list})))}
	for name, data := range blobs {
		entries = append(entries, file(name, data))
	}
	return entries
}

func write(t *testing.T, entries []entry) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, layerOf(t, entries...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func directory(t *testing.T, entries []entry) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		path := filepath.Join(root, e.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(e.body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func one(t *testing.T, body string, names ...string) named {
	return named{&picture{layers: [][]byte{layerOf(t, file("a", body))}}, names}
}

func TestLoad(t *testing.T) {
	for form, make := range map[string]func(t *testing.T, images ...named) string{
		"saved":           saved,
		"layout":          func(t *testing.T, images ...named) string { return directory(t, laidOut(images...)) },
		"tar of a layout": func(t *testing.T, images ...named) string { return write(t, laidOut(images...)) },
	} {
		t.Run(form, func(t *testing.T) {
			s := open(t, image.Options{Dir: t.TempDir()})
			ctx := context.Background()
			path := make(t, one(t, "a", "tool:1"))
			im, err := s.Load(ctx, path, "", nil)
			if err != nil || im.Ref != "docker.io/library/tool:1" || tree(t, im.Rootfs)["a"] != "a" {
				t.Fatalf("%+v %v", im, err)
			}
			if im, err = s.Load(ctx, path, "other/name:2", nil); err != nil || im.Ref != "docker.io/other/name:2" {
				t.Errorf("%+v %v", im, err)
			}
			if got := get(t, s, "other/name:2"); got.ID != im.ID { // no registry is asked
				t.Errorf("%+v", got)
			}
			if list := s.List(); len(list) != 1 || len(list[0].Refs) != 2 {
				t.Errorf("%+v", list)
			}
			if err := s.Remove("tool:1"); err != nil {
				t.Error(err)
			}
			nameless := make(t, one(t, "a"))
			if _, err := s.Load(ctx, nameless, "", nil); fault.CodeOf(err) != image.CodeRef {
				t.Errorf("%v", err)
			}
			if im, err := s.Load(ctx, nameless, "mine", nil); err != nil || im.Ref != "docker.io/library/mine:latest" {
				t.Errorf("%+v %v", im, err)
			}
			two := make(t, one(t, "one", "x:1"), one(t, "two", "x:2"))
			for _, name := range []string{"", "x:3"} {
				if _, err := s.Load(ctx, two, name, nil); fault.CodeOf(err) != image.CodeNotInSource || !strings.Contains(fault.PublicText(err), "x:1, x:2") {
					t.Errorf("%q: %v", name, err)
				}
			}
			if im, err := s.Load(ctx, two, "x:2", nil); err != nil || tree(t, im.Rootfs)["a"] != "two" {
				t.Errorf("%+v %v", im, err)
			}
		})
	}
}

func TestFilesAsReferences(t *testing.T) {
	layout := directory(t, laidOut(one(t, "old", "x:1")))
	tarball := saved(t, one(t, "one", "x:1"), one(t, "two", "x:2"))
	o := image.Options{Dir: t.TempDir(), Files: []string{layout, filepath.Dir(tarball)}}
	s := open(t, o)
	if got := tree(t, get(t, s, "oci:"+layout).Rootfs)["a"]; got != "old" {
		t.Error(got)
	}
	if im := get(t, s, "docker-archive:"+tarball+":x:2"); tree(t, im.Rootfs)["a"] != "two" || im.Ref != "docker-archive:"+tarball+":x:2" {
		t.Errorf("%+v", im)
	}
	refused(t, s, "docker-archive:"+tarball, fault.Invalid, image.CodeNotInSource)
	refused(t, s, "docker-archive:"+tarball+":x:3", fault.Invalid, image.CodeNotInSource)
	if im := get(t, s, "oci:"+layout+":tagged"); im.Digest == "" {
		t.Errorf("%+v", im)
	}
	for _, e := range laidOut(one(t, "new", "x:1")) {
		if err := os.WriteFile(filepath.Join(layout, e.name), []byte(e.body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := tree(t, get(t, s, "oci:"+layout).Rootfs)["a"]; got != "new" {
		t.Errorf("what changed in the file was not noticed: %q", got)
	}
}

func TestFilesThatAreNoImage(t *testing.T) {
	inner := saved(t, one(t, "a", "x:1"))
	data, err := os.ReadFile(inner)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipes := directory(t, laidOut(one(t, "a", "x:1")))
	index := filepath.Join(pipes, "index.json")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(index, 0o600); err != nil {
		t.Fatal(err)
	}
	links := directory(t, laidOut(one(t, "a", "x:1")))
	if err := os.Rename(filepath.Join(links, "index.json"), put("index.json", nil)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(put("index.json", []byte(`{"schemaVersion": 2, "manifests": []}`)), filepath.Join(links, "index.json")); err != nil {
		t.Fatal(err)
	}
	wrong := laidOut(one(t, "a", "x:1"))
	for i := range wrong {
		if strings.HasPrefix(wrong[i].name, "blobs/") {
			wrong[i].body += " "
		}
	}
	for name, path := range map[string]string{
		"nothing":                  filepath.Join(t.TempDir(), "no"),
		"an empty directory":       t.TempDir(),
		"a device":                 "/dev/null",
		"a tar of something else":  write(t, []entry{file("x", "x")}),
		"a compressed tar":         put("x.tgz", gzipped(data)),
		"a tar that breaks off":    put("x.tar", data[:1000]),
		"an index that is a pipe":  pipes,
		"an index that leads away": links,
		"blobs of other sizes":     directory(t, wrong),
		"missing blobs":            directory(t, laidOut(one(t, "a", "x:1"))[:2]),
		"missing layers":           write(t, []entry{file("manifest.json", `[{"Config": "c", "Layers": ["l"]}]`), file("c", "{}")}),
		"members that climb":       write(t, []entry{file("manifest.json", `[{"Config": "../../../../../../etc/passwd", "Layers": []}]`)}),
		"links in a circle":        write(t, []entry{file("manifest.json", `[{"Config": "a", "Layers": []}]`), {name: "a", kind: tar.TypeSymlink, link: "a"}}),
		"nonsense":                 write(t, []entry{file("manifest.json", `7`)}),
	} {
		t.Run(name, func(t *testing.T) {
			o := image.Options{Dir: t.TempDir()}
			im, err := open(t, o).Load(context.Background(), path, "x:1", nil)
			if im != nil || err == nil || fault.CodeOf(err) == image.CodeStore || fault.KindOf(err) == fault.Internal {
				t.Errorf("%+v %v", im, err)
			}
			if left := leftovers(t, o.Dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A layer that is in two images of an old archive is there once and linked to.
func TestSavedLinks(t *testing.T) {
	l := layerOf(t, file("a", "a"))
	config, _ := (&picture{layers: [][]byte{l}}).documents()
	path := write(t, []entry{file("one/layer.tar", string(l)), symlink("two/layer.tar", "../one/layer.tar"), file("c.json", string(config)),
		file("manifest.json", `[{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["two/layer.tar"]}]`)})
	im, err := open(t, image.Options{Dir: t.TempDir()}).Load(context.Background(), path, "", nil)
	if err != nil || tree(t, im.Rootfs)["a"] != "a" {
		t.Errorf("%+v %v", im, err)
	}
}
