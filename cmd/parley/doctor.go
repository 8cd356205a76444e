package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"parley/internal/app"
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
	models, err := app.ModelClient(loaded.Config.LLMCAFile)
	if err != nil { // a finding says so
		models = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second}}
	}
	defer models.CloseIdleConnections()
	opts := doctor.Options{
		Data: loaded.Config.Data, Sandbox: loaded.Config.Sandbox, LLM: model,
		Files: modelFiles(loaded.Config), Proxy: http.ProxyFromEnvironment,
		Server: func(ctx context.Context) error {
			_, err := client.Info(ctx)
			return err
		},
		ServerNeeded: loaded.Config.Client.Server != "",
		System:       os.DirFS("/"),
		HTTP:         models,
		Now:          time.Now,
	}
	if p.probe != nil {
		opts.Probe = func(ctx context.Context) []sandbox.Guarantee { return p.probe(ctx, loaded.Config) }
	}
	if p.probes != nil {
		opts.Tiers = tiers(loaded.Config, p.probes(loaded.Config))
	}
	return doctor.Run(ctx, opts)
}

// tiers are the sandbox backends to try beside the local one. What the
// configuration does not name is nice to know.
func tiers(cfg config.Config, probes map[string]func(context.Context) ([]sandbox.Guarantee, error)) []doctor.Tier {
	var list []doctor.Tier
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		needed := slices.ContainsFunc(cfg.Templates(cfg.Sandbox), func(s config.SandboxSpec) bool { return s.Backend == name })
		list = append(list, doctor.Tier{Name: name, Needed: needed, Try: probes[name]})
	}
	return list
}

// modelFiles are the files of the configuration that model calls need.
func modelFiles(cfg config.Config) []doctor.File {
	return []doctor.File{
		{Check: "llm_catalog", Path: cfg.LLMCatalog, Read: app.CheckCatalog, None: "the shipped table of models is used"},
		{Check: "llm_ca_file", Path: cfg.LLMCAFile, Read: app.CheckCertificates, None: "the system's certificates are trusted"},
	}
}
