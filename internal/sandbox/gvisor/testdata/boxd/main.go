// Command boxd is what boxes under test run: it must be static.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/sandboxtest"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "leave-root" {
		if err := leaveRoot(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	gvisor.Init(os.Args[1:], sandboxtest.ServeInside)
}

// leaveRoot leaves a chroot by the classic way, says what lies above, and tries to
// make something there.
func leaveRoot() error {
	fd, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	if err := unix.Fchdir(fd); err != nil {
		return err
	}
	for range 64 {
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	if err := os.Mkdir("/made", 0o700); err == nil {
		fmt.Println("made something")
	}
	return nil
}
