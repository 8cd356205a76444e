// Command boxd is the first process of boxes under test: a static program that
// can stand in any file system. Its first argument names the backend, whose Init
// it then calls; what is served is sandboxtest.Serve.
package main

import (
	"fmt"
	"os"

	"parley/internal/sandbox/local"
	"parley/internal/sandbox/process"
	"parley/internal/sandbox/sandboxtest"
)

func main() {
	inits := map[string]func(args []string){
		local.Name:   func(args []string) { local.Init(args, sandboxtest.ServeInside) },
		process.Name: func(args []string) { process.Init(args, sandboxtest.ServeInside) },
	}
	if len(os.Args) > 1 {
		if begin := inits[os.Args[1]]; begin != nil {
			begin(os.Args[2:])
		}
	}
	fmt.Fprintln(os.Stderr, "usage: boxd BACKEND ARGS...: the backends' tests call this")
	os.Exit(2)
}
