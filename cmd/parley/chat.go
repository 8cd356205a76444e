package main

import (
	"errors"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"parley/internal/cli"
	"parley/internal/config"
)

const chatHelp = `Start a conversation, or go on with one, and show what the agent says and does.

The message is taken from the arguments, else from standard input. On a terminal
you are asked for the next message when a run ends (Ctrl-D leaves); Ctrl-C
interrupts a run, and a second Ctrl-C within 2 seconds leaves while the
conversation goes on.

What a directory or a plugin wants to run by itself (hooks, MCP servers, set-up
scripts) is shown first and runs only if you trust it; without a terminal it waits.

Exit codes:
  0  the run finished
  1  something failed
  2  wrong usage or configuration
  3  the run ended with an error
  4  the agent was stuck
  5  the run was interrupted or paused, or you left while it was going on
  6  the agent waits for a confirmation, and there is no terminal to ask on
  7  the server cannot be reached, or refuses the key`

func (p *program) chatCommand() *cobra.Command {
	var opts cli.ChatOptions
	c := &cobra.Command{
		Use: "chat [flags] [message...]", Short: "Talk to the agent from a terminal or a script", Long: chatHelp,
		Example: "  parley chat \"fix the failing test\" --dir .\n" +
			"  parley chat --conversation 0123456789abcdef0123456789abcdef\n" +
			"  echo \"run the tests\" | parley chat --json > events.jsonl",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkChat(c, opts); err != nil {
				return err
			}
			opts.Message = strings.TrimSpace(strings.Join(args, " "))
			opts.Patience = cli.DefaultPatience()
			return p.chat(c, opts)
		},
	}
	f := c.Flags()
	f.StringVarP(&opts.Conversation, "conversation", "c", "", "go on with this `conversation`")
	f.StringVarP(&opts.Model, "model", "m", "", "use this `model` instead of the one in the settings")
	f.StringVar(&opts.Dir, "dir", "", "let the agent work in this `directory` of this machine (the server must run here too)")
	f.BoolVar(&opts.Trust, "trust", false, "let whatever wants to run in the conversation (hooks, MCP servers, set-up scripts of the directory) run")
	f.BoolVar(&opts.JSON, "json", false, "print each event as a JSON line, and nothing else, on standard output")
	f.BoolVar(&opts.Detach, "detach", false, "print the conversation's id and leave while it runs")
	f.BoolVar(&opts.Detach, "no-wait", false, "the same as --detach")
	f.BoolVar(&opts.Once, "once", false, "leave when the run ends, also on a terminal")
	f.BoolVar(&opts.Full, "full", false, "do not fold long output")
	config.AddFlags(f, config.ClientScope)
	return c
}

// checkChat refuses flags that only make sense for a new conversation.
func checkChat(c *cobra.Command, opts cli.ChatOptions) error {
	if opts.Conversation == "" {
		if c.Flags().Changed("conversation") {
			return errors.New("--conversation needs the id of a conversation")
		}
		return nil
	}
	switch {
	case opts.Dir != "":
		return errors.New("--dir is for new conversations: a conversation keeps its directory")
	case opts.Model != "":
		return errors.New("--model is for new conversations: a conversation keeps its model")
	}
	return nil
}

func (p *program) chat(c *cobra.Command, opts cli.ChatOptions) error {
	loaded, err := p.load(c)
	if err != nil {
		return failed(err)
	}
	client := p.client(loaded)
	defer client.Close()
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	env := config.ParseEnv(p.env)
	return ended(cli.Chat(c.Context(), client, cli.Terminal{
		In: p.in, Out: p.out, Err: p.err,
		Interactive: isTerminal(p.in), OutTTY: isTerminal(p.out), ErrTTY: isTerminal(p.err),
		Color:      env["NO_COLOR"] == "" && env["TERM"] != "dumb",
		Interrupts: interrupts,
	}, opts))
}

// client is a client of the configured server.
func (p *program) client(loaded *config.Loaded) *cli.Client {
	e := loaded.Endpoint()
	return cli.NewClient(e.URL, e.Key, e.KeyFrom, p.version.Version)
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
