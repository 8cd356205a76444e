package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// maxMembers bounds the files of an archive.
const maxMembers = 10_000

// archive is an image in files: a directory or a tar.
type archive interface {
	// member opens a file by its slash-separated path; fs.ErrNotExist if it is not
	// there.
	member(name string) (r io.ReadCloser, size int64, err error)
	close() error
}

// openArchive opens a directory or a tar that is not compressed.
func openArchive(file string) (archive, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, unreadable(err, file)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(file)
		if err != nil {
			return nil, unreadable(err, file)
		}
		return dirArchive{root}, nil
	}
	if !info.Mode().IsRegular() {
		return nil, unreadable(nil, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, unreadable(err, file)
	}
	members, err := indexTar(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &tarArchive{file: f, members: members}, nil
}

func unreadable(err error, file string) error {
	return fault.Wrap(err, fault.Invalid, CodeNotInSource, "No image can be read from %s.", quote(file)).
		WithHint("It must be a tar as `docker save` writes it, or an OCI layout (a directory or a tar of one), readable for the server's user.")
}

type dirArchive struct{ root *os.Root }

func (d dirArchive) member(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (d dirArchive) close() error { return d.root.Close() }

// tarArchive reads members of a tar where they lie.
type tarArchive struct {
	file    *os.File
	members map[string]extent
}

// extent is where a member lies; link names another member in its place.
type extent struct {
	offset, size int64
	link         string
}

func indexTar(f *os.File) (map[string]extent, error) {
	members := map[string]extent{}
	t := tar.NewReader(f)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, corrupt(err, "%s is no tar, or a compressed or broken one.", quote(f.Name())).
				WithHint("Decompress it, or save it again.")
		}
		if len(members) == maxMembers {
			return nil, tooLarge("%s has more than %d files.", quote(f.Name()), maxMembers)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			offset, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, unreadable(err, f.Name())
			}
			members[name] = extent{offset: offset, size: h.Size}
		case tar.TypeSymlink: // old versions of Docker save a layer once that is in two images
			members[name] = extent{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			members[name] = extent{link: path.Clean(h.Linkname)}
		}
	}
}

func (a *tarArchive) member(name string) (io.ReadCloser, int64, error) {
	m, ok := a.members[path.Clean(name)]
	if ok && m.link != "" {
		m, ok = a.members[m.link]
	}
	if !ok || m.link != "" {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(a.file, m.offset, m.size)), m.size, nil
}

func (a *tarArchive) close() error { return a.file.Close() }

// readMember reads a small file of an archive.
func readMember(a archive, name string, limit int64) ([]byte, error) {
	r, size, err := a.member(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if size > limit {
		return nil, tooLarge("The image's file %s is larger than %d bytes.", quote(name), limit)
	}
	return io.ReadAll(io.LimitReader(r, limit))
}

// planArchive reads the documents of an image in files. chosen says which image,
// "" if there is one only.
func planArchive(ctx context.Context, a archive, file, chosen string, o *Options) (*plan, error) {
	index, err := readMember(a, "index.json", maxManifest)
	if err == nil {
		return planLayout(ctx, a, index, file, chosen, o)
	}
	var list []byte
	if errors.Is(err, fs.ErrNotExist) {
		list, err = readMember(a, "manifest.json", maxManifest)
	}
	if err != nil && fault.CodeOf(err) == "" {
		err = unreadable(err, file)
	}
	if err != nil {
		return nil, err
	}
	return planSaved(a, list, file, chosen, o)
}

// layout reads the blobs of an OCI layout (OCI image specification 1.1, image
// layout).
type layout struct{ archive archive }

func (l layout) manifest(_ context.Context, identifier string) ([]byte, error) {
	hash, err := v1.NewHash(identifier)
	if err != nil || !usable(hash) {
		return nil, corrupt(err, "The image's index names no usable digest.")
	}
	body, err := readMember(l.archive, blobPath(hash), maxManifest)
	return body, missing(err)
}

func (l layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, size, err := l.archive.member(blobPath(d.Digest))
	if err == nil && size != d.Size {
		_ = r.Close()
		return nil, corrupt(nil, "A part of the image has %d bytes and should have %d.", size, d.Size)
	}
	return r, missing(err)
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func missing(err error) error {
	if err == nil || fault.CodeOf(err) != "" {
		return err
	}
	return corrupt(err, "A part of the image is missing in its file.")
}

// Annotations that name an image in a layout; the second has the whole name.
const (
	annotationTag  = "org.opencontainers.image.ref.name"
	annotationName = "io.containerd.image.name"
)

func planLayout(ctx context.Context, a archive, index []byte, file, chosen string, o *Options) (*plan, error) {
	doc, err := parseManifest(index)
	if err != nil {
		return nil, err
	}
	if doc.index == nil {
		return nil, corrupt(nil, "The image's index.json is no index.")
	}
	var named []v1.Descriptor
	var names []string
	for _, d := range doc.index.Manifests {
		full, tag := d.Annotations[annotationName], d.Annotations[annotationTag]
		names = append(names, firstOf(full, tag, d.Digest.String()))
		if chosen == "" || chosen == tag || sameName(chosen, full) || chosen == d.Digest.String() {
			named = append(named, d)
		}
	}
	// Several images for different platforms, without an index around them, are one.
	if len(named) > 1 && !slices.ContainsFunc(named, func(d v1.Descriptor) bool { return d.Platform == nil || !sameLabels(d, named[0]) }) {
		d, err := choosePlatform(named, o.Platform)
		if err != nil {
			return nil, err
		}
		named = []v1.Descriptor{d}
	}
	if len(named) != 1 {
		return nil, choose(file, chosen, names)
	}
	p, err := resolve(ctx, layout{a}, named[0].Digest.String(), o)
	if err != nil {
		return nil, err
	}
	p.name = named[0].Annotations[annotationName]
	return p, nil
}

func sameLabels(a, b v1.Descriptor) bool {
	return a.Annotations[annotationName] == b.Annotations[annotationName] && a.Annotations[annotationTag] == b.Annotations[annotationTag]
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// sameName compares names of images in any spelling.
func sameName(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, errA := parseRef(a)
	y, errB := parseRef(b)
	return errA == nil && errB == nil && x.text == y.text
}

func choose(file, chosen string, names []string) error {
	if chosen != "" {
		return fault.New(fault.Invalid, CodeNotInSource, "%s has no image %s; it has: %s.", quote(file), quote(chosen), quoteList(names))
	}
	return fault.New(fault.Invalid, CodeNotInSource, "%s has %d images: %s.", quote(file), len(names), quoteList(names)).
		WithHint("Say which one by its name.")
}

// savedImage is an entry of manifest.json as `docker save` writes it.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func planSaved(a archive, list []byte, file, chosen string, o *Options) (*plan, error) {
	var images []savedImage
	if err := json.Unmarshal(list, &images); err != nil {
		return nil, corrupt(err, "The image's manifest.json cannot be read.")
	}
	var found []savedImage
	var names []string
	for _, im := range images {
		names = append(names, firstOf(strings.Join(im.RepoTags, ", "), im.Config))
		if chosen == "" || slices.ContainsFunc(im.RepoTags, func(tag string) bool { return sameName(chosen, tag) }) {
			found = append(found, im)
		}
	}
	if len(found) != 1 {
		return nil, choose(file, chosen, names)
	}
	return planSavedImage(a, found[0], chosen, o)
}

func planSavedImage(a archive, im savedImage, chosen string, o *Options) (*plan, error) {
	data, err := readMember(a, im.Config, maxConfig)
	if err != nil {
		return nil, missing(err)
	}
	id, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	p := &plan{id: id, name: chosen}
	if p.name == "" && len(im.RepoTags) > 0 {
		p.name = im.RepoTags[0]
	}
	if err := p.configure(data, o); err != nil {
		return nil, err
	}
	if len(im.Layers) != len(p.config.RootFS.DiffIDs) {
		return nil, corrupt(nil, "The image has %d layers and the digests of %d.", len(im.Layers), len(p.config.RootFS.DiffIDs))
	}
	for i, name := range im.Layers {
		r, size, err := a.member(name)
		if err != nil {
			return nil, missing(err)
		}
		_ = r.Close()
		p.layers = append(p.layers, layerPlan{diffID: p.config.RootFS.DiffIDs[i], size: size,
			open: func(context.Context) (io.ReadCloser, error) {
				r, _, err := a.member(name)
				return r, missing(err)
			}})
	}
	return p, nil
}
