// Command parley-inside is the first process of a sandbox. It is built first and
// put into parley, which hands it to its sandboxes; nobody installs it.
package main

import (
	"fmt"
	"os"

	"parley/internal/sandbox/inside"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != inside.Command {
		fmt.Fprintln(os.Stderr, "parley-inside is for the server's own use: it runs in its sandboxes")
		os.Exit(2)
	}
	inside.Init(os.Args[2:])
}
