package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parley/internal/app"
	"parley/internal/cli"
	"parley/internal/config"
	"parley/internal/sandbox"
)

// program is the command line with what its commands call. main fills it with
// the real things, tests with their own.
type program struct {
	in       *os.File
	out, err io.Writer
	env      []string // "NAME=value"
	root     bool     // the process runs as root
	version  versionInfo

	// serve runs a server until ctx ends; out gets the URL to open.
	serve func(ctx context.Context, cfg config.Config, out io.Writer, log *slog.Logger) error
	// serveAgent runs a server of the agent protocol alone until ctx ends.
	serveAgent func(ctx context.Context, cfg config.Config, mode app.AgentMode, out io.Writer, log *slog.Logger) error
	// probe says what the local sandbox backend can do on this machine.
	probe func(ctx context.Context, cfg config.Config) []sandbox.Guarantee
	// probes try further sandbox backends, by name.
	probes func(cfg config.Config) map[string]func(context.Context) ([]sandbox.Guarantee, error)
	// inside are commands for the program's own use, which run inside a sandbox.
	// They get the arguments after their name and need not return.
	inside map[string]func(args []string)
}

// exitError is the end of a command that ran. Errors of any other type are from
// the parsing of the command line.
type exitError struct {
	code cli.Exit
	err  error // nil = nothing to print
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ended makes the error of a command that ran; nil if all went well.
func ended(code cli.Exit, err error) error {
	if err == nil && code == cli.ExitOK {
		return nil
	}
	return &exitError{code, err}
}

// failed is ended with the code that fits the error.
func failed(err error) error {
	var bad *config.Error
	if errors.As(err, &bad) {
		return ended(cli.ExitUsage, err)
	}
	return ended(cli.ExitOf(err), err)
}

// runInside runs a command for the program's own use; false if args name none.
func (p *program) runInside(args []string) bool {
	if len(args) == 0 || p.inside[args[0]] == nil {
		return false
	}
	p.inside[args[0]](args[1:])
	return true
}

// run executes the command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return int(cli.ExitOK)
	case !errors.As(err, &exit):
		_, _ = fmt.Fprintf(p.err, "parley: %s\nSee parley --help.\n", strings.TrimSpace(err.Error()))
		return int(cli.ExitUsage)
	case exit.err != nil:
		_, _ = fmt.Fprintf(p.err, "parley: %s\n", exit.err)
	}
	return int(exit.code)
}

// command builds the command tree.
func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Conversations with a software agent, each in a sandbox",
		Long: "Parley is a self-hosted service that runs conversations with a software agent, each in a sandbox.\n\n" +
			"Exit codes: 0 all went well, 1 something failed, 2 wrong usage or configuration;\n" +
			"for parley chat see its help.",
		Version:           p.version.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetFlagErrorFunc(suggestFlag)
	if p.serve != nil {
		root.AddCommand(p.serveCommand())
	}
	if p.serveAgent != nil {
		root.AddCommand(p.agentServerCommand())
	}
	root.AddCommand(p.chatCommand(), p.modelsCommand(), p.usageCommand(), p.skillsCommand(), p.mcpCommand(), p.imagesCommand(), p.importCommand(), p.configCommand(), p.doctorCommand(), p.versionCommand())
	return root
}

// suggestFlag adds the nearest flag to an error about an unknown one.
func suggestFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if s := config.Suggest(unknown.GetSpecifiedName(), names); s != "" {
		return fmt.Errorf("%w (did you mean --%s?)", err, s)
	}
	return err
}

// load reads the configuration with a command's flags.
func (p *program) load(c *cobra.Command) (*config.Loaded, error) {
	return config.Load(config.Sources{Environ: p.env, Flags: c.Flags(), Root: p.root})
}
