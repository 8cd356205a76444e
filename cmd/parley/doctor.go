package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/internal/cli"
	"parley/internal/config"
	"parley/internal/doctor"
	"parley/internal/sandbox"
)

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	var model string
	c := &cobra.Command{
		Use: "doctor", Short: "Check what this machine can do, and say how to mend what it cannot", Args: cobra.NoArgs,
		Long: "Check what parley serve would meet on this machine with the same flags, file and environment.\n" +
			"Each finding says what follows and how to mend it. The exit code is 1 only if something that\n" +
			"is needed is missing.",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := p.load(c)
			if err != nil {
				return failed(err)
			}
			findings := p.examine(c.Context(), loaded, model)
			if asJSON {
				encoder := json.NewEncoder(p.out)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(map[string]any{"healthy": doctor.Healthy(findings), "findings": findings})
			} else {
				err = doctor.Write(p.out, findings)
			}
			if err == nil && !doctor.Healthy(findings) {
				return ended(cli.ExitFailure, nil)
			}
			return failed(err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&model, "llm", "", "check that a model endpoint answers at this base `URL`")
	config.AddFlags(c.Flags(), config.ServerScope|config.ClientScope)
	return c
}

func (p *program) examine(ctx context.Context, loaded *config.Loaded, model string) []doctor.Finding {
	client := p.client(loaded)
	defer client.Close()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second}
	defer transport.CloseIdleConnections()
	opts := doctor.Options{
		Data: loaded.Config.Data, Sandbox: loaded.Config.Sandbox, LLM: model,
		Server: func(ctx context.Context) error {
			_, err := client.Info(ctx)
			return err
		},
		ServerNeeded: loaded.Config.Client.Server != "",
		System:       os.DirFS("/"),
		HTTP:         &http.Client{Transport: transport},
		Now:          time.Now,
	}
	if p.probe != nil {
		opts.Probe = func(ctx context.Context) []sandbox.Guarantee { return p.probe(ctx, loaded.Config) }
	}
	return doctor.Run(ctx, opts)
}
