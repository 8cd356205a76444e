package main

import (
	"strings"

	"github.com/spf13/cobra"

	"parley/internal/cli"
	"parley/internal/config"
)

func (p *program) modelsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "models [flags] [part of the id]", Short: "List the models that the server knows, with windows and prices",
		Long: "List the models that the server knows: context window and longest answer in tokens, prices in USD per\n" +
			"million tokens, and what they can do. What is not known says so; + marks prices that rise with the\n" +
			"length of the prompt. Other models of the same providers work too, but without a known price.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.ask(c, func(client *cli.Client) error {
				return cli.ShowModels(c.Context(), client, p.out, strings.Join(args, ""))
			})
		},
	}
	config.AddFlags(c.Flags(), config.ClientScope)
	return c
}

func (p *program) usageCommand() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use: "usage", Short: "Print what model calls cost, by day, use and model", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.ask(c, func(client *cli.Client) error { return cli.ShowUsage(c.Context(), client, p.out, from, to) })
		},
	}
	c.Flags().StringVar(&from, "from", "", "first `day`, UTC, such as 2026-01-31 (default: the last one)")
	c.Flags().StringVar(&to, "to", "", "last `day` (default: today)")
	config.AddFlags(c.Flags(), config.ClientScope)
	return c
}

// ask runs a command that needs nothing but the server.
func (p *program) ask(c *cobra.Command, do func(*cli.Client) error) error {
	loaded, err := p.load(c)
	if err != nil {
		return failed(err)
	}
	client := p.client(loaded)
	defer client.Close()
	return failed(do(client))
}
