package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/config"
	"parley/internal/sandbox"
)

const specsFile = `sandbox: local
sandbox_memory: 2GiB
sandbox_network: allow
sandbox_network_allow: [pypi.org, "*.pythonhosted.org"]
sandbox_specs:
  - id: python
    image: python:3.12
    command: [sh, -c, "echo up"]
    env: {PYTHONUNBUFFERED: "1"}
    working_dir: /work
    limits: {cpus: 1.5, memory: 1GiB, disk: 4GiB, inodes: 200000, processes: 64, open_files: 1024}
    network: [example.org, 10.0.0.5:5432]
    warm: 2
  - id: untrusted
    backend: gvisor
    network: none
  - id: engine
    backend: docker
    image: debian:12
    runtime: runsc
    network: {mode: open, allow: [10.1.0.0/16]}
  - id: plain
`

func TestSandboxSpecs(t *testing.T) {
	src := sources(t)
	src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), specsFile)
	c := load(t, src).Config
	house := sandbox.Limits{MemoryBytes: 2 << 30, Processes: 2048, OpenFiles: 65536, DiskBytes: 10 << 30, Inodes: 1_000_000}
	want := []config.SandboxSpec{
		{ID: "python", Backend: "local", Image: "python:3.12", Command: []string{"sh", "-c", "echo up"}, Env: map[string]string{"PYTHONUNBUFFERED": "1"},
			WorkingDir: "/work", Limits: sandbox.Limits{CPUs: 1.5, MemoryBytes: 1 << 30, Processes: 64, OpenFiles: 1024, DiskBytes: 4 << 30, Inodes: 200000},
			Network: &sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"example.org", "10.0.0.5:5432"}}, Warm: 2},
		{ID: "untrusted", Backend: "gvisor", Limits: house, Network: &sandbox.Network{Mode: sandbox.NetworkNone}},
		{ID: "engine", Backend: "docker", Image: "debian:12", Runtime: "runsc", Limits: house,
			Network: &sandbox.Network{Mode: sandbox.NetworkOpen, Allow: []string{"10.1.0.0/16"}}},
		{ID: "plain", Backend: "local", Limits: house,
			Network: &sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"pypi.org", "*.pythonhosted.org"}}},
	}
	if diff := cmp.Diff(want, c.Templates("local")); diff != "" {
		t.Error(diff)
	}
}

// What `parley config` shows can be given back as it is, from the environment too.
func TestSandboxSpecsCanBeWrittenBack(t *testing.T) {
	src := sources(t)
	src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), specsFile)
	first := load(t, src)
	text := ""
	for _, s := range first.Settings {
		if s.Key == "sandbox_specs" {
			text = s.Value
		}
	}
	again := load(t, sources(t, "PARLEY_SANDBOX_SPECS="+text))
	if diff := cmp.Diff(first.Config.SandboxSpecs, again.Config.SandboxSpecs); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutSpecsThereIsOneOfTheBackend(t *testing.T) {
	c := load(t, sources(t, "PARLEY_SANDBOX_IMAGE=debian:12", "PARLEY_SANDBOX_CPUS=0.5")).Config
	got := c.Templates(config.SandboxDocker)
	if len(got) != 1 || got[0].ID != "docker" || got[0].Backend != "docker" || got[0].Image != "debian:12" || got[0].Limits.CPUs != 0.5 {
		t.Errorf("%+v", got)
	}
	if got := c.Templates(config.SandboxLocal); got[0].Image != "" {
		t.Errorf("the local backend got the engine's image: %+v", got)
	}
}

func TestSandboxSpecProblems(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no id":            {"- image: x", "needs an id"},
		"twice":            {"- id: a\n- id: a", "the id is there twice"},
		"unknown backend":  {"- {id: a, backend: dokcer}", "did you mean docker"},
		"unknown member":   {"- {id: a, imgae: x}", "imgae"},
		"relative dir":     {"- {id: a, working_dir: work}", "no absolute path"},
		"runtime":          {"- {id: a, runtime: runsc}", "docker backend"},
		"too warm":         {"- {id: a, warm: 1000}", "warm is from 0"},
		"bad size":         {"- {id: a, limits: {memory: lots}}", "limits: memory"},
		"negative":         {"- {id: a, limits: {processes: -1}}", "not negative"},
		"network mode":     {"- {id: a, network: everything}", "network:"},
		"network of paths": {"- {id: a, network: [\"http://x/\"]}", "network:"},
		"env name":         {"- {id: a, env: {\"A=B\": c}}", "environment variable"},
		"endless disk":     {"- {id: a, limits: {disk: 900TiB}}", "limits: disk"},
		"no list":          {"id: a", "no list of templates"},
		"no YAML":          {"- {id: a", "no YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(sources(t, "PARLEY_SANDBOX_SPECS="+test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q in it", err, test.want)
			}
		})
	}
}
