package main

import (
	"github.com/spf13/cobra"

	"parley/internal/app"
	"parley/internal/cli"
	"parley/internal/config"
)

func (p *program) importCommand() *cobra.Command {
	var how cli.ImportHow
	var overwrite bool
	c := &cobra.Command{Use: "import DIR", Short: "Bring over what another server has stored, while no server runs", Args: cobra.ExactArgs(1),
		Long: "Bring over what another server has stored as files in DIR: settings, secrets and conversations of a server of the\n" +
			"legacy API, conversations of an agent-server. DIR is only read. The command shows what it will do and asks.\n" +
			"What was imported before is not imported again. See docs/import.md.",
		Example: "  parley import ~/.openhands --dry-run\n  parley import ~/.openhands --yes --data /var/lib/parley",
		RunE: func(c *cobra.Command, args []string) error {
			loaded, err := p.load(c)
			if err != nil {
				return failed(err)
			}
			src, err := app.OpenImport(c.Context(), loaded.Config, app.ImportOptions{Dir: args[0], OverwriteSettings: overwrite})
			if err != nil {
				return failed(cli.ForPeople(err))
			}
			if isTerminal(p.in) {
				how.In = p.in
			}
			err = cli.Import(c.Context(), src, p.out, how)
			if e := src.Close(); err == nil {
				err = e
			}
			return failed(cli.ForPeople(err))
		}}
	c.Flags().BoolVar(&how.DryRun, "dry-run", false, "show what would be imported, and do nothing")
	c.Flags().BoolVarP(&how.Yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&how.JSON, "json", false, "print one JSON object; needs --yes or --dry-run")
	c.Flags().BoolVar(&overwrite, "overwrite-settings", false, "replace settings and secrets that are here already")
	config.AddFlags(c.Flags(), config.ServerScope)
	return c
}
