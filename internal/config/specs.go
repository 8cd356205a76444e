package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
)

// Bounds of sandbox_specs.
const (
	maxSpecs = 100
	maxWarm  = 100
)

// SandboxSpec is a template that sandboxes are made from.
type SandboxSpec struct {
	ID         string
	Backend    string // SandboxLocal, SandboxDocker, SandboxGVisor, SandboxProcess; "" = that of Config.Sandbox
	Image      string // container image; "" = the backend's own file system
	Runtime    string // of the container engine; "" = its default
	Command    []string
	Env        map[string]string
	WorkingDir string         // "" = sandbox.WorkingDir
	Limits     sandbox.Limits // zero members = those of Config
	Network    *sandbox.Network
	Warm       int
}

// specDocument is a template as it is written down.
type specDocument struct {
	ID         string            `yaml:"id"`
	Backend    string            `yaml:"backend,omitempty"`
	Image      string            `yaml:"image,omitempty"`
	Runtime    string            `yaml:"runtime,omitempty"`
	Command    []string          `yaml:"command,omitempty,flow"`
	Env        map[string]string `yaml:"env,omitempty,flow"`
	WorkingDir string            `yaml:"working_dir,omitempty"`
	Limits     *limitsDocument   `yaml:"limits,omitempty,flow"`
	Network    *networkDocument  `yaml:"network,omitempty,flow"`
	Warm       int               `yaml:"warm,omitempty"`
}

type limitsDocument struct {
	CPUs      float64 `yaml:"cpus,omitempty"`
	Memory    string  `yaml:"memory,omitempty"`
	Processes int64   `yaml:"processes,omitempty"`
	OpenFiles uint64  `yaml:"open_files,omitempty"`
	Disk      string  `yaml:"disk,omitempty"`
	Inodes    int64   `yaml:"inodes,omitempty"`
}

// networkDocument is one word (open, none), a list of hosts that alone are
// reachable, or a mapping with mode and allow.
type networkDocument struct {
	Mode  string   `yaml:"mode,omitempty"`
	Allow []string `yaml:"allow,omitempty,flow"`
}

// UnmarshalYAML reads the three forms.
func (n *networkDocument) UnmarshalYAML(node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		n.Mode = node.Value
		return nil
	case yaml.SequenceNode:
		n.Mode = string(sandbox.NetworkAllow)
		return node.Decode(&n.Allow)
	}
	type plain networkDocument
	return node.Decode((*plain)(n))
}

// specsValue is the list of templates, as YAML.
type specsValue struct{ p *[]SandboxSpec }

// Type implements value.
func (v specsValue) Type() string { return "list of templates" }

// String implements value.
func (v specsValue) String() string {
	if len(*v.p) == 0 {
		return ""
	}
	docs := make([]specDocument, len(*v.p))
	for i, s := range *v.p {
		docs[i] = s.document()
	}
	text, err := yaml.Marshal(docs)
	if err != nil { // strings, numbers and maps of them
		return ""
	}
	return string(text)
}

// Set implements value.
func (v specsValue) Set(text string) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	var docs []specDocument
	if err := d.Decode(&docs); err != nil && !errors.Is(err, io.EOF) {
		return yamlProblem(err)
	}
	if len(docs) > maxSpecs {
		return fmt.Errorf("has %d templates, %d are possible", len(docs), maxSpecs)
	}
	specs, seen := make([]SandboxSpec, len(docs)), map[string]bool{}
	for i, doc := range docs {
		spec, err := doc.spec()
		if err == nil && seen[doc.ID] {
			err = errors.New("the id is there twice")
		}
		if err != nil {
			return fmt.Errorf("template %d (%s): %w", i+1, quote(doc.ID), err)
		}
		seen[doc.ID], specs[i] = true, spec
	}
	*v.p = specs
	return nil
}

// yamlProblem says in one line what is wrong with a document.
func yamlProblem(err error) error {
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("is no list of templates: %s", strings.ReplaceAll(strings.Join(wrong.Errors, "; "), " in type config.specDocument", ""))
	}
	return fmt.Errorf("is no YAML: %w", err)
}

func specBackends() []string {
	return []string{SandboxLocal, SandboxDocker, SandboxGVisor, SandboxProcess}
}

func (d specDocument) spec() (SandboxSpec, error) {
	s := SandboxSpec{ID: d.ID, Backend: d.Backend, Image: d.Image, Runtime: d.Runtime, Command: d.Command, Env: d.Env,
		WorkingDir: d.WorkingDir, Warm: d.Warm}
	switch {
	case d.ID == "" || len(d.ID) > 200 || strings.ContainsAny(d.ID, "\x00\n"):
		return s, errors.New("needs an id of at most 200 characters")
	case d.Backend != "" && !slices.Contains(specBackends(), d.Backend):
		return s, fmt.Errorf("the backend %s is none of %s%s", quote(d.Backend), strings.Join(specBackends(), ", "), didYouMean(d.Backend, specBackends()))
	case d.Runtime != "" && d.Backend != SandboxDocker:
		return s, errors.New("a runtime is a matter of the docker backend; write backend: docker")
	case d.WorkingDir != "" && !strings.HasPrefix(d.WorkingDir, "/"):
		return s, fmt.Errorf("the working_dir %s is no absolute path", quote(d.WorkingDir))
	case badEnv(d.Env) != "":
		return s, fmt.Errorf("%s is no name of an environment variable", quote(badEnv(d.Env)))
	case d.Warm < 0 || d.Warm > maxWarm:
		return s, fmt.Errorf("warm is from 0 to %d", maxWarm)
	}
	if err := d.limits(&s.Limits); err != nil {
		return s, err
	}
	if d.Network == nil {
		return s, nil
	}
	s.Network = &sandbox.Network{Mode: sandbox.NetworkMode(d.Network.Mode), Allow: d.Network.Allow}
	if err := netpolicy.Check(*s.Network); err != nil {
		return s, fmt.Errorf("network: %s", fault.PublicText(err))
	}
	return s, nil
}

// badEnv returns a name that no environment variable can have, "" if there is none.
func badEnv(env map[string]string) string {
	for name := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return name + "="
		}
	}
	return ""
}

// maxDisk is the largest file system that a sandbox can have.
const maxDisk = 16 << 40

func (d specDocument) limits(l *sandbox.Limits) error {
	if d.Limits == nil {
		return nil
	}
	l.CPUs, l.Processes, l.OpenFiles, l.Inodes = d.Limits.CPUs, d.Limits.Processes, d.Limits.OpenFiles, d.Limits.Inodes
	if l.CPUs < 0 || l.Processes < 0 || l.Inodes < 0 {
		return errors.New("limits are not negative")
	}
	for _, size := range []struct {
		text string
		p    *int64
		name string
	}{{d.Limits.Memory, &l.MemoryBytes, "memory"}, {d.Limits.Disk, &l.DiskBytes, "disk"}} {
		if size.text == "" {
			continue
		}
		if err := (bytesValue{size.p, 16 << 20}).Set(size.text); err != nil {
			return fmt.Errorf("limits: %s: %w", size.name, err)
		}
	}
	if l.DiskBytes > maxDisk {
		return fmt.Errorf("limits: disk: more than %s", FormatBytes(maxDisk))
	}
	return nil
}

func (s SandboxSpec) document() specDocument {
	d := specDocument{ID: s.ID, Backend: s.Backend, Image: s.Image, Runtime: s.Runtime, Command: s.Command, Env: maps.Clone(s.Env),
		WorkingDir: s.WorkingDir, Warm: s.Warm}
	if s.Limits != (sandbox.Limits{}) {
		d.Limits = &limitsDocument{CPUs: s.Limits.CPUs, Processes: s.Limits.Processes, OpenFiles: s.Limits.OpenFiles, Inodes: s.Limits.Inodes}
		if s.Limits.MemoryBytes > 0 {
			d.Limits.Memory = FormatBytes(s.Limits.MemoryBytes)
		}
		if s.Limits.DiskBytes > 0 {
			d.Limits.Disk = FormatBytes(s.Limits.DiskBytes)
		}
	}
	if s.Network != nil {
		d.Network = &networkDocument{string(s.Network.Mode), s.Network.Allow}
	}
	return d
}

// structured returns the YAML of a value that is more than scalars, for the keys
// that take such.
func structured(node *yaml.Node) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	if err := e.Encode(node); err != nil {
		return "", err
	}
	return b.String(), e.Close()
}

// Templates are the templates that sandboxes are made from, complete; the first
// is the default. Without any there is one, of the configured backend, with its
// name.
func (c *Config) Templates(backend string) []SandboxSpec {
	specs := slices.Clone(c.SandboxSpecs)
	if len(specs) == 0 {
		specs = []SandboxSpec{{ID: backend}}
	}
	for i := range specs {
		s := &specs[i]
		if s.Backend == "" {
			s.Backend = backend
		}
		if s.Image == "" && s.Backend == SandboxDocker {
			s.Image = c.SandboxImage
		}
		s.Limits = fill(s.Limits, c.Limits())
		if s.Network == nil {
			s.Network = &sandbox.Network{Mode: c.SandboxNetwork, Allow: c.SandboxNetworkAllow}
		}
	}
	return specs
}

// fill takes what is not said from the defaults.
func fill(l, def sandbox.Limits) sandbox.Limits {
	for _, n := range []struct {
		p   *int64
		def int64
	}{{&l.MemoryBytes, def.MemoryBytes}, {&l.Processes, def.Processes}, {&l.DiskBytes, def.DiskBytes}, {&l.Inodes, def.Inodes}} {
		if *n.p == 0 {
			*n.p = n.def
		}
	}
	if l.CPUs == 0 {
		l.CPUs = def.CPUs
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = def.OpenFiles
	}
	return l
}
