package fake_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/sandbox"
	"parley/internal/sandbox/fake"
	"parley/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	place := fake.NewPlace()
	sandboxtest.Run(t, func(*testing.T) sandbox.Backend { return fake.New(place) }, sandboxtest.Options{
		NoPrograms: true,
		Remove: func(_ context.Context, box sandbox.Box) error {
			place.Remove(box.Handle().ID)
			return nil
		},
	})
}

// TestShell has what the suite does not ask for: names, links and what is counted.
func TestShell(t *testing.T) {
	place := fake.NewPlace()
	b := fake.New(place)
	ctx := context.Background()
	box, err := b.Create(ctx, sandbox.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { place.Remove("a") })
	before, err := box.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script, want string
		code               int
	}{
		{"pipes", `seq 3 | cat | wc -l`, "3\n", 0},
		{"parent of a link's target", `mkdir -p d/e && ln -s d/e l && echo x > l/../f && cat d/f`, "x\n", 0},
		{"loop of links", `ln -s b a && ln -s a b && cat a 2>/dev/null || echo refused`, "refused\n", 0},
		{"absolute link", `ln -s /tmp t && echo y > t/f && cat /tmp/f && rm /tmp/f`, "y\n", 0},
		{"two names", `echo 1 > one && ln one two && echo 2 >> two && cat one && stat -c %h one`, "1\n2\n2\n", 0},
		{"directory is no file", `mkdir dir && cat dir 2>/dev/null`, "", 1},
		{"not empty", `mkdir -p full/x && rmdir full 2>/dev/null || echo kept`, "kept\n", 0},
		{"not executable", `echo '#!/bin/sh' > prog && ./prog 2>/dev/null`, "", 127},
		{"files of the host", `cat /etc/passwd 2>/dev/null || echo none; ls /proc 2>/dev/null || echo none`, "none\nnone\n", 0},
		{"patterns", `touch p1 p2 && echo p?`, "p1 p2\n", 0},
	} {
		out, err := sandboxtest.Exec(ctx, box, "sh", "-c", c.script)
		if err != nil || out.Text != c.want || out.Code != c.code {
			t.Errorf("%s: %+v, %v, want %q and %d", c.name, out, err, c.want, c.code)
		}
	}
	if out, err := sandboxtest.Exec(ctx, box, "sh", "-c", "rm -rf * && ls -A"); err != nil || out.Text != "" || out.Code != 0 {
		t.Errorf("clearing up: %+v, %v", out, err)
	}
	after, err := box.Usage(ctx)
	if err != nil || after.DiskBytes != before.DiskBytes || after.Inodes != before.Inodes {
		t.Errorf("usage %+v, after everything was removed %+v, %v", before, after, err)
	}
}
