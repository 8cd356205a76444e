package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// Model is what a server knows of a model that it offers; nil is not known.
type Model struct {
	ID            string `json:"id"`
	ContextWindow *int64 `json:"context_window"`
	MaxOutput     *int64 `json:"max_output"`
	Vision        *bool  `json:"vision"`
	Tools         *bool  `json:"tools"`
	Reasoning     *bool  `json:"reasoning"`
	PromptCache   *bool  `json:"prompt_cache"`
	Price         *struct {
		Input  float64 `json:"input"`
		Output float64 `json:"output"`
		Rises  *int64  `json:"rises_above"`
	} `json:"price"` // USD per million tokens
}

// Models returns the models of the server whose id contains part, in any case.
func (c *Client) Models(ctx context.Context, part string) ([]Model, error) {
	return pages[Model](ctx, c, "/api/v1/config/models/details", url.Values{"query": {part}})
}

// ShowModels prints the models that the server offers.
func ShowModels(ctx context.Context, c *Client, out io.Writer, part string) error {
	models, err := c.Models(ctx, part)
	if err != nil {
		return err
	}
	if len(models) == 0 {
		return fmt.Errorf("no model that the server knows has %q in its id; it may work all the same if its provider is supported",
			CleanLine(part))
	}
	rows := [][]string{{"MODEL", "CONTEXT", "OUTPUT", "USD/M IN", "USD/M OUT", "CAN"}}
	for _, m := range models {
		in, dear := "unknown", "unknown"
		if p := m.Price; p != nil {
			in, dear = dollars(p.Input), dollars(p.Output)
			if p.Rises != nil {
				in, dear = in+"+", dear+"+"
			}
		}
		rows = append(rows, []string{CleanLine(m.ID), tokens(m.ContextWindow), tokens(m.MaxOutput), in, dear, m.abilities()})
	}
	return table(out, rows, 1, 2, 3, 4)
}

func tokens(n *int64) string {
	if n == nil || *n < 0 {
		return "unknown"
	}
	return thousands(*n)
}

// dollars writes an amount with as many decimals as it has, two at least.
func dollars(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if _, decimals, _ := strings.Cut(s, "."); len(decimals) < 2 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return s
}

// abilities lists what the model can do; a question mark is what is not known.
func (m *Model) abilities() string {
	var can []string
	for _, a := range []struct {
		name string
		has  *bool
	}{{"tools", m.Tools}, {"images", m.Vision}, {"reasoning", m.Reasoning}, {"cache", m.PromptCache}} {
		switch {
		case a.has == nil:
			can = append(can, a.name+"?")
		case *a.has:
			can = append(can, a.name)
		}
	}
	return strings.Join(can, " ")
}
