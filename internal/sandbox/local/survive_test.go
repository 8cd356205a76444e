package local_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// serverArg makes this test binary a server that makes a box and waits for its
// own end.
const serverArg = "be-a-server"

func beServer(dir string) error {
	b, err := local.New(local.Options{Dir: dir, InitArgs: []string{initArg}, Path: os.Getenv("PATH")})
	if err != nil {
		return err
	}
	if _, err := b.Create(context.Background(), sandbox.Spec{ID: "survivor"}); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// TestSurvivesTheServer kills a server and adopts its box.
func TestSurvivesTheServer(t *testing.T) {
	dir := filepath.Join(shared, "boxes")
	cmd := exec.Command("/proc/self/exe", serverArg, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, rerr := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if line != "ready\n" {
		t.Fatalf("the server said %q, %v", line, rerr)
	}
	b := newBackend(t)
	defer func() { _ = b.Close() }()
	h := sandbox.Handle{Backend: b.Name(), ID: "survivor", Version: 1}
	box, err := b.Adopt(context.Background(), h)
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	sh(t, box, "echo alive")
	if err := b.Destroy(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
}
