package docker

import (
	"context"
	"errors"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

const codeImage = "sandbox_image"

// imageOf finds the image that a box is made from.
func (b *Backend) imageOf(ctx context.Context, spec sandbox.Spec) (image, error) {
	if spec.From != nil {
		return b.snapshotImage(ctx, *spec.From)
	}
	img, err := b.engine.image(ctx, spec.Image)
	if refused(err, 404) {
		if err := b.pull(ctx, spec.Image); err != nil {
			return img, err
		}
		img, err = b.engine.image(ctx, spec.Image)
	}
	if err != nil {
		return img, b.engine.fault(err, "The image of the sandbox could not be looked at.")
	}
	// What somebody worked on is not a template for others.
	if img.Config.Labels[labelSnapshot] != "" {
		return img, fault.New(fault.Invalid, codeImage, "%q is a snapshot of a sandbox, not an image to start from.", spec.Image)
	}
	return img, nil
}

// pull fetches an image that the engine does not have.
func (b *Backend) pull(ctx context.Context, ref string) error {
	if imageIDForm.MatchString(ref) {
		return notPulled(nil, ref, "the container engine does not have it, and an id cannot be fetched")
	}
	within, cancel := context.WithTimeout(ctx, b.waits.pull)
	defer cancel()
	err := b.engine.pull(within, ref)
	var no *refusal
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return notPulled(err, ref, "it took longer than "+b.waits.pull.String())
	case errors.As(err, &no):
		return notPulled(err, ref, words(err))
	}
	return b.engine.fault(err, "The image of the sandbox could not be fetched.")
}

func notPulled(err error, ref, why string) error {
	return fault.Wrap(err, fault.Unavailable, codeImage, "The container image %s could not be pulled: %s.", ref, why).
		WithHint("Check its name, or fetch it by hand: docker pull %s", ref)
}
