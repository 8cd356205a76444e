package main

import (
	"github.com/spf13/cobra"

	"parley/internal/cli"
	"parley/internal/config"
)

func (p *program) skillsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "skills", Short: "List the skills that every conversation gets, store and remove your own", Args: cobra.NoArgs,
		Long: "List the skills that every conversation gets: those of the server's collections (global) and those that\n" +
			"you stored (user). Which of them are disabled is up to disabled_skills in the settings.",
		RunE: func(c *cobra.Command, _ []string) error {
			return p.ask(c, func(client *cli.Client) error { return cli.ShowSkills(c.Context(), client, p.out) })
		},
	}
	put := &cobra.Command{
		Use: "put FILE", Short: "Store a skill file, in place of one of its name", Args: cobra.ExactArgs(1),
		Long: "Store a skill file: Markdown, with front matter if need be. The skill has the name of the file, or of its\n" +
			"directory if the file is a SKILL.md.",
		Example: "  parley skills put git.md\n  parley skills put pdf/SKILL.md",
		RunE: func(c *cobra.Command, args []string) error {
			return p.ask(c, func(client *cli.Client) error { return cli.PutSkill(c.Context(), client, p.out, args[0]) })
		},
	}
	remove := &cobra.Command{
		Use: "rm NAME", Short: "Remove a skill that you stored", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.ask(c, func(client *cli.Client) error { return cli.RemoveSkill(c.Context(), client, args[0]) })
		},
	}
	for _, each := range []*cobra.Command{c, put, remove} {
		config.AddFlags(each.Flags(), config.ClientScope)
	}
	c.AddCommand(put, remove)
	return c
}

func (p *program) mcpCommand() *cobra.Command {
	c := &cobra.Command{Use: "mcp", Short: "Look after MCP servers", Args: cobra.NoArgs}
	var conversation string
	test := &cobra.Command{
		Use: "test NAME", Short: "Connect to an MCP server of the settings and list its tools", Args: cobra.ExactArgs(1),
		Long: "Connect to the MCP server of the settings that has this name, as a conversation would, and list its tools.\n" +
			"A server with a command runs in a sandbox: name a conversation that has one.",
		Example: "  parley mcp test github\n  parley mcp test fetch --conversation 0123456789abcdef0123456789abcdef",
		RunE: func(c *cobra.Command, args []string) error {
			return p.ask(c, func(client *cli.Client) error {
				return cli.ShowServerTest(c.Context(), client, p.out, args[0], conversation)
			})
		},
	}
	test.Flags().StringVarP(&conversation, "conversation", "c", "", "run it in the sandbox of this `conversation`")
	config.AddFlags(test.Flags(), config.ClientScope)
	c.AddCommand(test)
	return c
}
