package config

import (
	"fmt"
	"strings"
)

const referenceHead = `# Configuration

Generated from the key table in ` + "`internal/config`" + `; ` + "`go test ./internal/config -update`" + ` writes it anew.

A value comes from the strongest of these sources, strongest first:

1. a flag of the command,
2. a ` + "`PARLEY_*`" + ` environment variable (set but empty counts as unset),
3. the configuration file,
4. the default.

The file is the one that ` + "`--config`" + ` or ` + "`PARLEY_CONFIG`" + ` names, else the first that exists of ` + "`$XDG_CONFIG_HOME/parley/parley.yaml`" + ` (` + "`~/.config/parley/parley.yaml`" + `) and ` + "`/etc/parley/parley.yaml`" + `. A file in the current directory is never read: a repository must not configure the server. It is a flat YAML mapping (only ` + "`sandbox_specs`" + ` is a list of mappings, see [sandboxes.md](sandboxes.md)):

` + "```yaml" + `
listen: 127.0.0.1:3000
sandbox_memory: 2GiB
cors_origins: [https://app.example.org]
` + "```" + `

An unknown key, variable or flag is an error that suggests the nearest known one. ` + "`parley config`" + ` prints the effective values, each with its origin, and masks secrets. Sizes take B, KiB, MiB, GiB or TiB; durations take s, m or h. Lists are YAML lists in the file, and separated by commas elsewhere.
`

// Reference returns docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	c := defaults()
	var chapter group
	for _, k := range c.keys() {
		if k.group != chapter {
			chapter = k.group
			fmt.Fprintf(&b, "\n## %s\n\n| Key | Flag | Environment | Value | Default | Meaning |\n|---|---|---|---|---|---|\n", chapter)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.name, referenceFlag(k),
			"`"+strings.Join(k.env(), "`, `")+"`", k.value.Type(), referenceDefault(k), k.help)
	}
	return b.String()
}

func referenceFlag(k key) string {
	if k.flag == "" {
		return "none"
	}
	return "`--" + k.flag + "`"
}

func referenceDefault(k key) string {
	switch def := k.value.String(); {
	case k.defaultDoc != "":
		return k.defaultDoc
	case def == "":
		return "none"
	default:
		return "`" + def + "`"
	}
}
