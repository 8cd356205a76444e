// Command boxd is what boxes under test run: it must be static.
package main

import (
	"os"

	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/sandboxtest"
)

func main() { gvisor.Init(os.Args[1:], sandboxtest.ServeInside) }
