package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker (see Makefile).
var (
	version = "0.1.0-dev"
	commit  = ""
)

// versionInfo describes this build.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion is what the linker was told, else what the Go tool has noted.
func buildVersion() versionInfo {
	v := versionInfo{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if v.Commit != "" {
		return v
	}
	v.Commit = "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := p.version
			if asJSON {
				return failed(json.NewEncoder(p.out).Encode(v))
			}
			_, err := fmt.Fprintf(p.out, "parley %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.Go, v.Platform)
			return failed(err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
