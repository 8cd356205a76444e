// Command gen cuts the model table of LiteLLM to what the catalogue needs and
// writes it to standard output. It is not part of the product: it is run by hand
// when the table is brought up to date, from the file
// litellm/model_prices_and_context_window_backup.json of a release:
//
//	pip download litellm==VERSION --no-deps
//	unzip litellm-VERSION-*.whl 'litellm/model_prices*.json'
//	go run ./internal/llm/catalog/gen litellm/model_prices_and_context_window_backup.json VERSION >models.tsv
//	mv models.tsv internal/llm/catalog/
//
// Kept are the chat models of the providers that Parley speaks to. Where the
// source says nothing, the table says nothing. The source's licence (MIT) is
// beside the table, LICENSE.litellm.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"parley/internal/llm/catalog"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: gen FILE VERSION")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var source map[string]json.RawMessage
	if err := json.Unmarshal(data, &source); err != nil {
		return err
	}
	entries, err := cut(source)
	if err != nil {
		return err
	}
	out := fmt.Appendf(nil, "# Made by gen from the model table of LiteLLM %s (MIT, see LICENSE.litellm). Do not edit:\n"+
		"# corrections belong in an override file. The format is in table.go.\n", args[1])
	out = append(out, catalog.Format(entries)...)
	if _, err := catalog.Parse(string(out)); err != nil {
		return fmt.Errorf("what was written cannot be read: %w", err)
	}
	_, err = os.Stdout.Write(out)
	return err
}
