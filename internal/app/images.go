package app

import (
	"context"
	"log/slog"

	"parley/internal/config"
	"parley/internal/sandbox/image"
)

// Images is the store of container images of a data directory.
type Images struct{ store *image.Store }

// Image is an image in it.
type Image = image.Info

// OpenImages opens the store, which no server may use at the moment.
func OpenImages(cfg config.Config) (*Images, error) {
	store, err := image.Open(imageOptions(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return &Images{store}, nil
}

// Close gives the store up.
func (i *Images) Close() error { return i.store.Close() }

// List returns all images.
func (i *Images) List() []Image { return i.store.List() }

// Remove removes an image by name or id.
func (i *Images) Remove(name string) error { return i.store.Remove(name) }

// Pull fetches an image, also if there is one of this name.
func (i *Images) Pull(ctx context.Context, ref string, progress func(string)) (name, id string, err error) {
	return named(i.store.Get(ctx, image.Request{Ref: ref, Pull: true, Progress: inWords(progress)}))
}

// Load reads an image from a file.
func (i *Images) Load(ctx context.Context, file, name string, progress func(string)) (storedAs, id string, err error) {
	return named(i.store.Load(ctx, file, name, inWords(progress)))
}

func named(im *image.Image, err error) (name, id string, _ error) {
	if err != nil {
		return "", "", err
	}
	return im.Ref, im.ID, nil
}

func inWords(progress func(string)) func(image.Progress) {
	if progress == nil {
		return nil
	}
	return func(p image.Progress) { progress(p.String()) }
}
