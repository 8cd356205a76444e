// Command boxd is the first process of containers under test.
package main

import (
	"os"

	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/sandboxtest"
)

func main() { docker.Init(os.Args[1:], sandboxtest.ServeInside) }
