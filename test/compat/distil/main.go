// Distil reduces an OpenAPI document of a server that Parley is compatible with to
// the facts that test/compat compares:
//
//	go run ./test/compat/distil v1 path/to/document.json >test/compat/testdata/v1.json
//
// The first argument says which paths are wanted with parameters and bodies; of the
// others only method and path are kept.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"parley/test/compat/facts"
)

// wanted are the paths whose parameters and bodies are kept.
var wanted = map[string][]string{
	"v1":    {"/api/v1/", "/api/agent-profiles", "/api/keys", "/api/shared-", "/alive", "/health", "/ready", "/server_info"},
	"agent": {"/"},
	"v0":    {"/"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || wanted[args[0]] == nil {
		return fmt.Errorf("usage: distil v0|v1|agent DOCUMENT")
	}
	raw, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	out, err := facts.Read(document, func(path string) bool {
		for _, prefix := range wanted[args[0]] {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}
