package sandboxtest

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// Guarantee is what attacks of one kind try to break.
type Guarantee string

// Guarantees.
const (
	HostFiles      Guarantee = "host files"   // files of the host are neither seen nor changed
	HostProcesses  Guarantee = "processes"    // neither the host's nor the box's first are seen or touched
	HostSockets    Guarantee = "host sockets" // unix sockets of the host
	HostKeys       Guarantee = "keys"         // of the kernel's key rings
	HostKernel     Guarantee = "kernel"       // calls, devices and files that change or show the machine
	Privileges     Guarantee = "privileges"   // no rights but the documented, and no way to more
	Descriptors    Guarantee = "descriptors"  // of the server
	Environment    Guarantee = "environment"  // of the server
	HostNetwork    Guarantee = "network"      // the host's ports, private and metadata addresses
	FileRoutes     Guarantee = "file routes"  // sandboxd's routes hold against pipes, devices and links
	OtherSandboxes Guarantee = "neighbours"   // a box that takes all it gets leaves others alone
	OwnSocket      Guarantee = "own socket"   // a box that ruins its own socket fools nobody but itself
)

// guarantees are all there are.
func guarantees() []Guarantee {
	return []Guarantee{HostFiles, HostProcesses, HostSockets, HostKeys, HostKernel, Privileges, Descriptors,
		Environment, HostNetwork, FileRoutes, OtherSandboxes, OwnSocket}
}

// HostileOptions say what a backend does and does not hold.
type HostileOptions struct {
	Options
	// Spec is what boxes are made of; the ids are the suite's.
	Spec sandbox.Spec
	// DataDir is the backend's directory on the host; "" = it has none.
	DataDir string
	// SocketDir is the directory, as programs inside name it, of the socket that the
	// server dials; "" = its path does not exist inside.
	SocketDir string
	// Attack is the path of what BuildAttack built, for tests that run as an account
	// which cannot build; "" = build it.
	Attack string
	// Capabilities may be held by programs inside; nil = those that installing
	// packages needs (see docs/sandboxes.md).
	Capabilities []uintptr
	// Open lists what the backend does not hold, with the reason. The suite demands
	// that at least one attack succeeds then: what holds is no exception.
	Open map[Guarantee]string
	// Harmless lists attacks that succeed and reach nothing but the box itself, with
	// the reason.
	Harmless map[string]string
}

// finding is what came of an attack; the attack program writes it.
type finding struct {
	Guarantee Guarantee `json:"guarantee"`
	Attack    string    `json:"attack"`
	Succeeded bool      `json:"succeeded"`
	Detail    string    `json:"detail"`
}

// hostile is one run of all attacks.
type hostile struct {
	*suite
	o        HostileOptions
	findings []finding
}

// Hostile runs the list of escapes over a backend. It needs nothing but a file
// system inside that programs can be written to: the attacks are a static program,
// and what a shell does for some of them.
func Hostile(t *testing.T, newBackend func(t *testing.T) sandbox.Backend, o HostileOptions) {
	h := &hostile{suite: newSuite(newBackend, o.Options), o: o}
	for guarantee, reason := range o.Open {
		if !slices.Contains(guarantees(), guarantee) || reason == "" {
			t.Fatalf("Open has %q with reason %q", guarantee, reason)
		}
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"attacks from inside", h.attacks}, {"host is not changed", h.changes}, {"file routes", h.fileRoutes},
		{"swapped links", h.swaps}, {"neighbours", h.neighbours}, {"own socket", h.ownSocket},
	} {
		t.Run(part.name, part.run)
	}
	t.Run("guarantees", h.evaluate)
}

// found notes what came of an attack.
func (h *hostile) found(g Guarantee, attack string, succeeded bool, detail string) {
	h.findings = append(h.findings, finding{g, attack, succeeded, detail})
}

// evaluate compares what attacks found with what the backend promises.
func (h *hostile) evaluate(t *testing.T) {
	broken, tried := map[Guarantee]int{}, map[Guarantee]int{}
	for _, f := range h.findings {
		tried[f.Guarantee]++
		if !slices.Contains(guarantees(), f.Guarantee) {
			t.Errorf("%s belongs to no guarantee: %q", f.Attack, f.Guarantee)
		}
		if !f.Succeeded {
			continue
		}
		broken[f.Guarantee]++
		switch {
		case h.o.Harmless[f.Attack] != "":
			t.Logf("%s: %s succeeds and is harmless: %s", f.Guarantee, f.Attack, h.o.Harmless[f.Attack])
		case h.o.Open[f.Guarantee] == "":
			t.Errorf("%s: %s SUCCEEDED: %s", f.Guarantee, f.Attack, f.Detail)
		default:
			t.Logf("%s: %s succeeds, as documented", f.Guarantee, f.Attack)
		}
	}
	for _, g := range guarantees() {
		t.Logf("%-14s %3d attacks, %3d succeeded %s", g, tried[g], broken[g], h.o.Open[g])
		if h.o.Open[g] != "" && broken[g] == 0 {
			t.Errorf("%s: listed as not held (%s), and nothing broke it", g, h.o.Open[g])
		}
	}
}

// target makes a box of what the options say.
func (h *hostile) target(t *testing.T, b sandbox.Backend, limits sandbox.Limits) sandbox.Box {
	t.Helper()
	spec := h.o.Spec
	spec.Env = maps.Clone(spec.Env)
	if limits != (sandbox.Limits{}) {
		spec.Limits = limits
	}
	return h.box(t, b, spec)
}

// workingDir is the working directory as programs inside name it.
func (h *hostile) workingDir(t *testing.T, box sandbox.Box) string {
	t.Helper()
	return h.sh(t, box, "pwd -P")
}

// hands opens the real daemon's client, closed at the end of the test.
func (h *hostile) hands(t *testing.T, box sandbox.Box) *sandboxd.Client {
	client := hands(box)
	t.Cleanup(client.Close)
	return client
}

// attacks runs the attack program inside.
func (h *hostile) attacks(t *testing.T) {
	b := h.backend(t) // which makes its directory
	p := h.plant(t)
	box := h.target(t, b, sandbox.Limits{})
	dir := h.workingDir(t, box)
	h.install(t, box, dir, p.plants)
	ctx, cancel := context.WithTimeout(context.Background(), 8*h.Patience) // some attacks wait for what must not come
	defer cancel()
	out, err := h.Exec(ctx, box, path.Join(dir, "attack"), "all")
	if err != nil || out.Code != 0 || out.Err != "" {
		t.Fatalf("the attack program: %+v, %v", out, err)
	}
	count := 0
	for line := range strings.Lines(out.Text) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("the attack program said %q: %v", line, err)
		}
		h.findings = append(h.findings, f)
		count++
	}
	if count < 50 {
		t.Errorf("only %d attacks were tried", count)
	}
	h.signals(t, box, p)
	h.killsFirst(t, box)
}

// install writes the attack program and what it is to look for into a box.
func (h *hostile) install(t *testing.T, box sandbox.Box, dir string, p plants) {
	t.Helper()
	client := h.hands(t, box)
	if h.o.Attack == "" {
		h.o.Attack = BuildAttack(t)
	}
	program, err := os.ReadFile(h.o.Attack)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WriteFile(h.context(t), path.Join(dir, "attack"), program, tool.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatalf("install: %v", err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WriteFile(h.context(t), path.Join(dir, "attack.json"), data, tool.WriteOptions{}); err != nil {
		t.Fatalf("install: %v", err)
	}
}

// killsFirst: the first process of a process namespace is not killed from inside.
// A box whose first process dies of it harms itself, and must be known dead.
func (h *hostile) killsFirst(t *testing.T, box sandbox.Box) {
	if h.o.Open[HostProcesses] != "" {
		return // the first process is the machine's
	}
	const attack = "kill the first process"
	_, _ = h.Exec(h.context(t), box, "sh", "-c", "kill -KILL 1; kill -STOP 1")
	out, err := h.Exec(h.context(t), box, "true")
	h.found(HostProcesses, attack, err != nil || out.Code != 0, "the box does not answer any more")
	if err != nil && h.o.Harmless[attack] != "" {
		h.awaitDone(t, box)
	}
}

// documentedCapabilities are what installing packages needs.
func documentedCapabilities() []uintptr {
	return []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
		unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT}
}

func (h *hostile) capabilities() (mask uint64) {
	list := h.o.Capabilities
	if list == nil {
		list = documentedCapabilities()
	}
	for _, c := range list {
		mask |= 1 << c
	}
	return mask
}
