package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"parley/internal/config"
)

func (p *program) configCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "config", Short: "Print the effective configuration and where each value is from", Args: cobra.NoArgs,
		Long: "Print the configuration that the other commands would have with the same flags, file and\n" +
			"environment: each value with its origin. Secrets are masked.",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := p.load(c)
			if err != nil {
				return failed(err)
			}
			if asJSON {
				return failed(writeConfigJSON(p.out, loaded))
			}
			return failed(writeConfig(p.out, p.err, loaded))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	config.AddFlags(c.Flags(), config.ServerScope|config.ClientScope)
	return c
}

func writeConfig(out, errOut io.Writer, loaded *config.Loaded) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, "KEY\tVALUE\tORIGIN"); err != nil {
		return err
	}
	for _, s := range loaded.Settings {
		value := s.Value
		if value == "" {
			value = "-"
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, value, s.Origin); err != nil {
			return err
		}
	}
	for _, warning := range loaded.Warnings {
		if _, err := fmt.Fprintln(errOut, "warning:", warning); err != nil {
			return err
		}
	}
	return w.Flush()
}

func writeConfigJSON(out io.Writer, loaded *config.Loaded) error {
	warnings := loaded.Warnings
	if warnings == nil {
		warnings = []string{}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"file": loaded.File, "settings": loaded.Settings, "warnings": warnings})
}
