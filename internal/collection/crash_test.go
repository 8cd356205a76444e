package collection

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What a re-executed test binary does instead of the tests.
const (
	childDir      = "COLLECTION_TEST_DIR"
	childLocation = "COLLECTION_TEST_LOCATION"
)

// childRefresh refreshes forever and says the commit it has after each time.
func childRefresh(dir, location string) {
	s, err := newSet(context.Background(), Config{Dir: dir, Sources: []Source{org(location)}}, true)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.sweep()
	for {
		s.refresh(context.Background())
		fmt.Println(s.Bundles()[0].Commit)
	}
}

// TestKilledRefreshLeavesAWholeVersion kills processes that refresh a repository
// that changes all the time.
func TestKilledRefreshLeavesAWholeVersion(t *testing.T) {
	r := newRemote(t)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	version := 0
	known := map[string]int{}
	push := func() {
		version++
		known[r.commit("main", skills(fmt.Sprint("a", version), fmt.Sprint("b", version)))] = version
	}
	push()
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir, childLocation+"="+r.location(""))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := ""
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			last = strings.TrimSpace(lines.Text())
			push() // the child is on its way to the next version
			if n == round {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		b := only(t, open(t, dir, org(r.location(""))))
		if have := known[b.Commit]; have == 0 || have < known[last] {
			t.Fatalf("round %d: commit %q is there, %q was acknowledged (%v)", round, b.Commit, last, b.Problems)
		}
		holds(t, b, b.Commit, "", fmt.Sprint("a", known[b.Commit]), fmt.Sprint("b", known[b.Commit]))
	}
	s := open(t, dir, org(r.location("")))
	s.sweep()
	clean(t, dir)
	s.refresh(t.Context())
	holds(t, only(t, s), r.id("main"), "", fmt.Sprint("a", version), fmt.Sprint("b", version))
}
