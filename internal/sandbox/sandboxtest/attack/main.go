// Command attack tries to break out of the box it runs in, and says what came of
// it. It is static, so that it runs in any file system, and harmless where it
// succeeds: it undoes what it did, and asks for what is already so.
//
//	attack all          every attack, a JSON object a line
//	attack one NAME     exit code 0 if it succeeded
//
// What the test has planted on the host, attack.json in the working directory
// says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Guarantees that attacks try to break; package sandboxtest has the same names.
const (
	files       = "host files"
	processes   = "processes"
	sockets     = "host sockets"
	keys        = "keys"
	kernel      = "kernel"
	privileges  = "privileges"
	descriptors = "descriptors"
	environment = "environment"
	network     = "network"
)

// attack is one attempt; no error means that it succeeded.
type attack struct {
	guarantee, name string
	try             func() error
}

// plants are what is to be found on the host.
type plants struct {
	Marker       string   // in names, contents, arguments and environment of all that is planted
	Files        []string // with the marker in them
	Writable     []string // that every account of the host may write
	Dirs         []string // that must not be seen
	Shadow       string   // a line of the host's /etc/shadow; "" = none that says anything
	Abstract     string   // unix socket
	Socket       string   // path of a unix socket
	Addresses    []string // TCP, that greet with the marker
	Private      []string // TCP addresses that nobody may reach
	Capabilities uint64   // that programs may have
}

// finding is what came of an attack; package sandboxtest reads it.
type finding struct {
	Guarantee string `json:"guarantee"`
	Attack    string `json:"attack"`
	Succeeded bool   `json:"succeeded"`
	Detail    string `json:"detail"`
}

// patience bounds one attack.
const patience = 20 * time.Second

func main() {
	leaks := leaked() // before anything is opened
	var p plants
	data, err := os.ReadFile("attack.json")
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	list := append(systemCalls(), kernelFiles()...)
	list = append(list, rights(p)...)
	list = append(list, host(p)...)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "all":
		report(finding{descriptors, "inherited descriptors", len(leaks) > 0, strings.Join(leaks, " ")})
		for _, a := range list {
			report(a.run())
		}
	case len(os.Args) == 3 && os.Args[1] == "one":
		one(list, os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: attack all | attack one NAME")
		os.Exit(2)
	}
}

func report(f finding) {
	_ = json.NewEncoder(os.Stdout).Encode(f)
}

// run tries an attack in a process of its own: a filter may kill it, and a success
// may change it.
func (a attack) run() finding {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "one", a.name)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	detail := strings.TrimSpace(string(out))
	if detail == "" && err != nil {
		detail = err.Error()
	}
	return finding{a.guarantee, a.name, err == nil, detail}
}

func one(list []attack, name string) {
	for _, a := range list {
		if a.name != name {
			continue
		}
		if err := a.try(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fmt.Println(errors.New("no such attack"))
	os.Exit(3)
}
