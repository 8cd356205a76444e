package main

import (
	"io"

	"github.com/spf13/cobra"

	"parley/internal/app"
	"parley/internal/cli"
	"parley/internal/config"
)

// imageStore is what the commands see of the store.
type imageStore struct{ *app.Images }

func (s imageStore) List() []cli.Image {
	var list []cli.Image
	for _, im := range s.Images.List() {
		list = append(list, cli.Image{ID: im.ID, Names: im.Refs, Platform: im.Platform, Bytes: im.Bytes, Pulled: im.Pulled, Holders: len(im.Holders)})
	}
	return list
}

// withImages opens the store for one command.
func (p *program) withImages(c *cobra.Command, do func(store cli.ImageStore, live io.Writer) error) error {
	loaded, err := p.load(c)
	if err != nil {
		return failed(err)
	}
	images, err := app.OpenImages(loaded.Config)
	if err != nil {
		return failed(cli.ForPeople(err))
	}
	var live io.Writer
	if isTerminal(p.err) {
		live = p.err
	}
	err = do(imageStore{images}, live)
	if e := images.Close(); err == nil {
		err = e
	}
	return failed(err)
}

func (p *program) imagesCommand() *cobra.Command {
	c := &cobra.Command{Use: "images", Short: "Look after the container images of sandboxes, while no server runs", Args: cobra.NoArgs,
		Long: "Look after the container images that local and gvisor sandboxes are made from. The commands work on the data\n" +
			"directory; a running server has it for itself, and pulls what it needs when it needs it."}
	list := &cobra.Command{Use: "list", Short: "List the images", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withImages(c, func(s cli.ImageStore, _ io.Writer) error { return cli.ShowImages(s, p.out) })
		}}
	pull := &cobra.Command{Use: "pull REF", Short: "Pull an image, again if its tag may have moved", Args: cobra.ExactArgs(1),
		Example: "  parley images pull debian:12\n  parley images pull ghcr.io/org/app@sha256:...",
		RunE: func(c *cobra.Command, args []string) error {
			return p.withImages(c, func(s cli.ImageStore, live io.Writer) error {
				return cli.PullImage(c.Context(), s, p.out, live, args[0])
			})
		}}
	var name string
	load := &cobra.Command{Use: "load FILE", Short: "Load an image from a tar of docker save, or an OCI layout", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withImages(c, func(s cli.ImageStore, live io.Writer) error {
				return cli.LoadImage(c.Context(), s, p.out, live, args[0], name)
			})
		}}
	load.Flags().StringVar(&name, "name", "", "store it under this `name`; if there are several in the file, load this one")
	remove := &cobra.Command{Use: "remove NAME...", Aliases: []string{"rm"}, Short: "Remove images by name or id", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withImages(c, func(s cli.ImageStore, _ io.Writer) error { return cli.RemoveImages(s, args) })
		}}
	for _, each := range []*cobra.Command{list, pull, load, remove} {
		config.AddFlags(each.Flags(), config.ServerScope)
	}
	c.AddCommand(list, pull, load, remove)
	return c
}
