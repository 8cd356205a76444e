package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/pflag"
)

// Sources are what a configuration is read from, the weakest first: defaults,
// file, environment, flags.
type Sources struct {
	File    string         // path of the file; "" = the --config flag, PARLEY_CONFIG, or the usual places
	Environ []string       // "NAME=value"
	Flags   *pflag.FlagSet // nil = no flags
	Root    bool           // the process runs as root
}

// Setting is one key as `parley config` shows it.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // secrets are masked
	Origin string `json:"origin"` // "default", "file /etc/parley/parley.yaml:3", "environment PARLEY_LISTEN", "flag --listen"
}

// Loaded is a valid configuration and how it came to be.
type Loaded struct {
	Config   Config
	Settings []Setting // in the order of the reference
	File     string    // the file that was read, "" if none
	Warnings []string  // what is allowed but unwise
}

// OriginDefault is the origin of what nobody set.
const OriginDefault = "default"

// Problem is one wrong key or value.
type Problem struct {
	Key    string // as the origin spells it
	Origin string
	Text   string
}

func (p Problem) String() string {
	if p.Key == "" {
		return p.Origin + ": " + p.Text
	}
	return fmt.Sprintf("%s: %s (%s)", p.Key, p.Text, p.Origin)
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "configuration: " + lines[0]
	}
	return "configuration:\n  " + strings.Join(lines, "\n  ")
}

// loader is a load in progress.
type loader struct {
	config   Config
	keys     []key
	origins  map[string]string
	problems []Problem
	secretIn bool // the file holds a secret
}

// Load reads the sources. The error is an *Error that names every problem.
func Load(src Sources) (*Loaded, error) {
	env := ParseEnv(src.Environ)
	l := &loader{config: defaults(), origins: map[string]string{}}
	l.keys = l.config.keys()
	f := l.readFile(src, env)
	l.readEnv(env)
	l.readFlags(src.Flags)
	l.finish(env, src.Root)
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	out := &Loaded{Config: l.config, Settings: l.settings()}
	if f != nil {
		out.File = f.path
		if f.shared && l.secretIn {
			out.Warnings = append(out.Warnings, fmt.Sprintf(
				"%s holds a secret and others may read it; mend it with: chmod 600 %s", f.path, f.path))
		}
	}
	return out, nil
}

func (l *loader) readFile(src Sources, env Env) *file {
	explicit := src.File
	if explicit == "" && src.Flags != nil {
		if flag := src.Flags.Lookup(fileFlag); flag != nil {
			explicit = flag.Value.String()
		}
	}
	path := findFile(explicit, env)
	if path == "" {
		return nil
	}
	f, err := readFile(path)
	if err != nil {
		l.problems = append(l.problems, Problem{Origin: "file " + path, Text: err.Error()})
		return nil
	}
	for _, e := range f.entries {
		origin := fmt.Sprintf("file %s:%d", path, e.line)
		k := l.byName(e.key)
		if k == nil {
			l.fail(e.key, origin, "no such key"+didYouMean(e.key, l.names()))
			continue
		}
		l.secretIn = l.secretIn || k.secret
		l.set(k, e.key, e.text, origin)
	}
	return f
}

// readEnv applies the variables, the weakest name of a key first. Set but empty
// counts as unset: that is how a service manager clears one.
func (l *loader) readEnv(env Env) {
	known := []string{"PARLEY_CONFIG"}
	for i := range l.keys {
		names := l.keys[i].env()
		known = append(known, names...)
		for _, name := range slices.Backward(names) {
			if env[name] != "" {
				l.set(&l.keys[i], name, env[name], "environment "+name)
			}
		}
	}
	var unknown []string
	for name := range env {
		// PARLEY_TEST_* belongs to the tests, whose environment a server may inherit.
		if strings.HasPrefix(name, "PARLEY_") && !strings.HasPrefix(name, "PARLEY_TEST_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	for _, name := range unknown {
		l.fail(name, "environment", "no such variable"+didYouMean(name, known))
	}
}

func (l *loader) readFlags(flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	for i := range l.keys {
		k := &l.keys[i]
		if k.flag == "" {
			continue
		}
		if flag := flags.Lookup(k.flag); flag != nil && flag.Changed {
			l.set(k, "--"+k.flag, flag.Value.String(), "flag --"+k.flag)
		}
	}
}

func (l *loader) set(k *key, spelled, text, origin string) {
	if err := k.value.Set(text); err != nil {
		l.fail(spelled, origin, err.Error())
		return
	}
	l.origins[k.name] = origin
}

// finish fills in what depends on the machine and checks what spans keys.
func (l *loader) finish(env Env, root bool) {
	if l.config.Data == "" && !l.failed("data") {
		l.config.Data = env.defaultData(root)
		if l.config.Data == "" {
			l.fail("data", "default", "there is no home directory to put it in; set --data or PARLEY_DATA")
		}
	}
	if l.config.LLMRetryMax < l.config.LLMRetryMin {
		l.fail("llm_retry_max", l.origin("llm_retry_max"), fmt.Sprintf("%s is less than llm_retry_min, %s (%s)",
			shortDuration(l.config.LLMRetryMax), shortDuration(l.config.LLMRetryMin), l.origin("llm_retry_min")))
	}
}

func (l *loader) fail(spelled, origin, text string) {
	l.problems = append(l.problems, Problem{spelled, origin, text})
}

// failed reports whether a problem with the key is known under any spelling.
func (l *loader) failed(name string) bool {
	k := l.byName(name)
	spellings := append([]string{name, "--" + k.flag}, k.env()...)
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return slices.Contains(spellings, p.Key) })
}

func (l *loader) origin(name string) string {
	if o := l.origins[name]; o != "" {
		return o
	}
	return OriginDefault
}

func (l *loader) byName(name string) *key {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &l.keys[i]
}

func (l *loader) names() []string {
	names := make([]string, len(l.keys))
	for i, k := range l.keys {
		names[i] = k.name
	}
	return names
}

func (l *loader) settings() []Setting {
	out := make([]Setting, len(l.keys))
	for i, k := range l.keys {
		out[i] = Setting{k.name, k.value.String(), l.origin(k.name)}
	}
	return out
}
