package main

import (
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"parley/internal/config"
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Run the server", Args: cobra.NoArgs,
		Long: "Run the server until SIGTERM or Ctrl-C. It prints the URL to open on standard output;\n" +
			"the log goes to standard error.\n\n" +
			"Every flag is also a key of the configuration file and a PARLEY_* environment variable;\n" +
			"docs/configuration.md lists them, parley config shows their values.",
		Example: "  parley serve --demo\n  parley serve --listen 0.0.0.0:3000 --public-url https://parley.example.org",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := p.load(c)
			if err != nil {
				return failed(err)
			}
			log := newLogger(p.err, loaded.Config)
			for _, warning := range loaded.Warnings {
				log.Warn(warning)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT)
			defer stop()
			return failed(p.serve(ctx, loaded.Config, p.out, log))
		},
	}
	config.AddFlags(c.Flags(), config.ServerScope)
	return c
}

// newLogger makes the log that the configuration asks for.
func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
