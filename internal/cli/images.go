package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"parley/internal/fault"
)

// Image is a container image that sandboxes can be made from.
type Image struct {
	ID       string   // "sha256:..."
	Names    []string // empty if only sandboxes keep it
	Platform string   // "linux/amd64"
	Bytes    int64    // of its files
	Pulled   time.Time
	Holders  int // sandboxes and snapshots that stand on it
}

// ImageStore is the images of a data directory that no server uses at the moment.
// Its errors are faults.
type ImageStore interface {
	// Pull fetches an image, also if there is one of this name. progress hears how it
	// gets on, in words; nil = nobody listens.
	Pull(ctx context.Context, ref string, progress func(text string)) (name, id string, err error)
	// Load reads an image from a file; name "" = the one that the file gives it.
	Load(ctx context.Context, file, name string, progress func(text string)) (storedAs, id string, err error)
	Remove(name string) error
	List() []Image
}

// ShowImages prints the images of a store.
func ShowImages(store ImageStore, out io.Writer) error {
	images := store.List()
	if len(images) == 0 {
		_, err := fmt.Fprintln(out, "No images. Get one with: parley images pull debian:12")
		return err
	}
	rows := [][]string{{"IMAGE", "ID", "PLATFORM", "PULLED", "SANDBOXES", "MB"}}
	for _, im := range images {
		names, pulled := im.Names, "-"
		if len(names) == 0 {
			names = []string{"(no name)"}
		}
		if !im.Pulled.IsZero() {
			pulled = im.Pulled.Local().Format(time.DateOnly)
		}
		rest := []string{shortID(im.ID), CleanLine(im.Platform), pulled, fmt.Sprint(im.Holders), thousands((im.Bytes + 5e5) / 1e6)}
		for _, name := range names {
			rows = append(rows, append([]string{CleanLine(name)}, rest...))
			rest = make([]string, len(rest)) // further names of the same image
		}
	}
	return table(out, rows, 4, 5)
}

// shortID is enough of an id to tell images apart.
func shortID(id string) string {
	hex := strings.TrimPrefix(CleanLine(id), "sha256:")
	return hex[:min(len(hex), 12)]
}

// PullImage fetches an image and prints where it is. live gets the progress, one
// line that is written again and again; nil = none, for what is no terminal.
func PullImage(ctx context.Context, store ImageStore, out, live io.Writer, ref string) error {
	progress, end := liveLine(live)
	name, id, err := store.Pull(ctx, ref, progress)
	end()
	return stored(out, name, id, err)
}

// LoadImage does so with an image in a file.
func LoadImage(ctx context.Context, store ImageStore, out, live io.Writer, file, name string) error {
	progress, end := liveLine(live)
	name, id, err := store.Load(ctx, file, name, progress)
	end()
	return stored(out, name, id, err)
}

func stored(out io.Writer, name, id string, err error) error {
	if err != nil {
		return ForPeople(err)
	}
	_, err = fmt.Fprintf(out, "%s (%s)\n", CleanLine(name), shortID(id))
	return err
}

// RemoveImages removes images by their names or ids, up to the first that cannot be.
func RemoveImages(store ImageStore, names []string) error {
	for _, name := range names {
		if err := store.Remove(name); err != nil {
			return ForPeople(err)
		}
	}
	return nil
}

// ForPeople returns an error with what a person may read of a fault.
func ForPeople(err error) error {
	if fault.CodeOf(err) == "" {
		return err
	}
	return errors.New(fault.PublicText(err))
}

// liveLine returns a function that shows a line in place of the last one, and one
// that removes it.
func liveLine(live io.Writer) (show func(text string), end func()) {
	if live == nil {
		return nil, func() {}
	}
	const clearLine = "\r\x1b[K"
	return func(text string) { _, _ = io.WriteString(live, clearLine+CleanLine(text)) },
		func() { _, _ = io.WriteString(live, clearLine) }
}
