package cli_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/cli"
	"parley/internal/fault"
)

// shelf is an image store in memory.
type shelf struct {
	images []cli.Image
	err    error
}

func (s *shelf) Pull(_ context.Context, ref string, progress func(string)) (name, id string, err error) {
	if progress != nil {
		progress("pulling image: 1 of 2 MB\x1b[31m")
	}
	return "docker.io/library/" + ref, "sha256:" + strings.Repeat("ab", 32), s.err
}

func (s *shelf) Load(ctx context.Context, _, name string, progress func(string)) (storedAs, id string, err error) {
	return s.Pull(ctx, name, progress)
}

func (s *shelf) Remove(name string) error {
	if name == "used" {
		return fault.Wrap(errors.New("internal"), fault.Conflict, "image_in_use", "It is in use.").WithHint("Wait.")
	}
	s.images = nil
	return nil
}

func (s *shelf) List() []cli.Image { return s.images }

func TestShowImages(t *testing.T) {
	var out strings.Builder
	if err := cli.ShowImages(&shelf{}, &out); err != nil || !strings.Contains(out.String(), "parley images pull") {
		t.Errorf("%q %v", &out, err)
	}
	out.Reset()
	s := &shelf{images: []cli.Image{
		{ID: "sha256:" + strings.Repeat("cd", 32), Names: []string{"docker.io/library/debian:12", "mine:1"}, Platform: "linux/amd64", Bytes: 1_234_000_000,
			Pulled: time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local), Holders: 3},
		{ID: "sha256:" + strings.Repeat("ef", 32), Platform: "linux/\x1b[2Jarm64"},
	}}
	if err := cli.ShowImages(s, &out); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"IMAGE                        ID            PLATFORM     PULLED      SANDBOXES     MB",
		"docker.io/library/debian:12  cdcdcdcdcdcd  linux/amd64  2026-01-02          3  1,234",
		"mine:1",
		"(no name)                    efefefefefef  linux/arm64  -                   0      0",
		""}, "\n")
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestPullImage(t *testing.T) {
	var out, live strings.Builder
	if err := cli.PullImage(t.Context(), &shelf{}, &out, &live, "debian"); err != nil {
		t.Fatal(err)
	}
	if out.String() != "docker.io/library/debian (abababababab)\n" || live.String() != "\r\x1b[Kpulling image: 1 of 2 MB\r\x1b[K" {
		t.Errorf("%q %q", &out, &live)
	}
	out.Reset()
	broken := &shelf{err: fault.Wrap(errors.New("internal"), fault.Unavailable, "image_registry", "It is down.")}
	if err := cli.LoadImage(t.Context(), broken, &out, nil, "/x", "y"); err == nil || err.Error() != "It is down." || out.Len() > 0 {
		t.Errorf("%v %q", err, &out)
	}
	gone := &shelf{err: context.Canceled}
	if err := cli.PullImage(t.Context(), gone, &out, nil, "y"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestRemoveImages(t *testing.T) {
	s := &shelf{images: []cli.Image{{}}}
	if err := cli.RemoveImages(s, []string{"used", "free"}); err == nil || err.Error() != "It is in use. Wait." || s.images == nil {
		t.Errorf("%v %v", err, s.images)
	}
	if err := cli.RemoveImages(s, []string{"free"}); err != nil || s.images != nil {
		t.Errorf("%v %v", err, s.images)
	}
}
