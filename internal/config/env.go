package config

import (
	"os"
	"strings"
)

// Environ returns the process environment as "NAME=value". Packages that hand
// an environment to a program get it as an argument from those who may call this.
func Environ() []string { return os.Environ() }

// SearchPath returns the process's PATH.
func SearchPath() string { return os.Getenv("PATH") }

// Env is an environment by name.
type Env map[string]string

// ParseEnv reads "NAME=value" entries; of equal names the last one counts.
func ParseEnv(environ []string) Env {
	env := make(Env, len(environ))
	for _, entry := range environ {
		if name, val, ok := strings.Cut(entry, "="); ok {
			env[name] = val
		}
	}
	return env
}

// ProcessEnv returns the process environment by name.
func ProcessEnv() Env { return ParseEnv(Environ()) }

// absolute returns a variable that holds an absolute path, or "": the XDG rules
// say that a relative one counts as unset.
func (e Env) absolute(name string) string {
	if p := e[name]; strings.HasPrefix(p, "/") {
		return p
	}
	return ""
}

// xdg returns $variable, else fallback below the home directory, else "".
func (e Env) xdg(variable, fallback string) string {
	if p := e.absolute(variable); p != "" {
		return p
	}
	if home := e.absolute("HOME"); home != "" {
		return home + "/" + fallback
	}
	return ""
}

// defaultData is the data directory of whoever runs the process, "" if there is none.
func (e Env) defaultData(root bool) string {
	if root {
		return "/var/lib/parley"
	}
	base := e.xdg("XDG_DATA_HOME", ".local/share")
	if base == "" {
		return ""
	}
	return base + "/parley"
}

// filePlaces are where a configuration file is looked for, in this order. The
// current directory is not one of them: a repository must not configure the server.
func (e Env) filePlaces() []string {
	var places []string
	if base := e.xdg("XDG_CONFIG_HOME", ".config"); base != "" {
		places = append(places, base+"/parley/parley.yaml")
	}
	return append(places, "/etc/parley/parley.yaml")
}
