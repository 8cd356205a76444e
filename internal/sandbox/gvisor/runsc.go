package gvisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
)

// containerID names the one container of a state directory: every box has a
// directory of its own. runsc takes prefixes of ids for ids; so nothing depends on
// those of boxes.
const containerID = "parley-sandbox"

// insideProgram is where this program lies in the box.
const insideProgram = "/.sandboxd"

// flags are those of every runsc command about a box. Access is
// shared, so that gVisor does not hold back what is written: the disk's limit and a
// crash are to find it at the host.
func (b *Backend) flags(d dir) []string {
	return []string{"--root=" + d.path(stateDir), "--log=" + d.path("runsc.log"), "--platform=systrap", "--overlay2=none",
		"--network=sandbox", "--file-access=shared", "--host-uds=none", "--ignore-cgroups", "--gso=false"}
}

// runsc runs a command about a box and waits for it.
func (b *Backend) runsc(ctx context.Context, d dir, args ...string) error {
	cmd := exec.CommandContext(ctx, b.options.Runsc, slices.Concat(b.flags(d), args)...)
	cmd.Env = []string{}
	out := &headBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("runsc %s: %w: %s", args[0], err, out))
	}
	return nil
}

// Bounds and words of what runsc answers.
const (
	maxState     = 1 << 20
	statusPaused = "paused"
)

// status asks runsc for the state of a box.
func (b *Backend) status(ctx context.Context, d dir) (string, error) {
	cmd := exec.CommandContext(ctx, b.options.Runsc, append(b.flags(d), "state", containerID)...)
	cmd.Env = []string{}
	out := &headBuffer{limit: maxState}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return "", errors.Join(ctx.Err(), fmt.Errorf("runsc state: %w", err))
	}
	return parseState(out.data)
}

// parseState reads the status in the state of a container, as the OCI runtime
// specification has it.
func parseState(text []byte) (string, error) {
	var state struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return "", fmt.Errorf("runsc state: %w", err)
	}
	if state.Status == "" {
		return "", errors.New("runsc state: no status")
	}
	return state.Status, nil
}

func runscVersion(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("runsc --version: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, "runsc version ")), nil
}

// headBuffer keeps the first bytes that are written to it.
type headBuffer struct {
	limit int // 0 = 2 KiB
	mu    sync.Mutex
	data  []byte
}

// Write implements io.Writer.
func (t *headBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := cmp.Or(t.limit, 2<<10)
	t.data = append(t.data, p[:min(len(p), limit-len(t.data))]...)
	return len(p), nil
}

// String returns the text so far.
func (t *headBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.data))
}

// keptCaps are what user 0 of a box may do, in the kernel of the box.
var keptCaps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT"}

// The parts of an OCI runtime configuration that boxes need; its specification
// names the members.
type (
	ociConfig struct {
		Version  string     `json:"ociVersion"`
		Process  ociProcess `json:"process"`
		Root     ociRoot    `json:"root"`
		Hostname string     `json:"hostname"`
		Mounts   []ociMount `json:"mounts"`
		Linux    ociLinux   `json:"linux"`
	}
	ociProcess struct {
		User            struct{ UID, GID int }
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		Capabilities    map[string][]string `json:"capabilities"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
		Rlimits         []ociRlimit         `json:"rlimits"`
	}
	ociRlimit struct {
		Type string `json:"type"`
		Hard uint64 `json:"hard"`
		Soft uint64 `json:"soft"`
	}
	ociRoot struct {
		Path string `json:"path"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	ociLinux struct {
		Namespaces []ociNamespace `json:"namespaces"`
	}
	ociNamespace struct {
		Type string `json:"type"`
		Path string `json:"path,omitempty"`
	}
)

// ociConfig writes the configuration of a box. Its network namespace is that of the
// process that runs runsc.
func (b *Backend) ociConfig(rec record, bundle string, mounts []mapped) ([]byte, error) {
	in := inside{Inside: hostbox.Inside{WorkingDir: rec.Spec.WorkingDir, Env: env(rec)}, Token: rec.Ground.Token}
	c := ociConfig{Version: "1.1.0", Hostname: hostname, Root: ociRoot{Path: rootfsDir}, Mounts: systemMounts()}
	c.Mounts = append(c.Mounts, ociMount{Destination: insideProgram, Type: "bind",
		Source: b.path(programsDir, rec.Ground.Program), Options: []string{"bind", "ro", "nosuid", "nodev"}})
	for i, m := range rec.Spec.Mounts {
		options := []string{"rbind", "nosuid", "nodev", "rw"}
		if m.ReadOnly {
			options[3] = "ro"
		} else {
			in.NoSetID = true // a set-user-id file of the mount's owner would work outside
		}
		c.Mounts = append(c.Mounts, ociMount{Destination: m.Target, Type: "bind", Source: mounts[i].At, Options: options})
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(bundle, "inside.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	c.Mounts = append(c.Mounts, ociMount{Destination: insideOrders, Type: "bind", Source: path, Options: []string{"bind", "ro", "nosuid", "nodev"}})
	files, processes := orElseLimit(rec.Spec.Limits.OpenFiles), uint64(processLimit(rec.Spec.Limits))
	caps := map[string][]string{}
	for _, set := range []string{"bounding", "effective", "permitted"} {
		caps[set] = slices.DeleteFunc(slices.Clone(keptCaps), func(name string) bool {
			return in.NoSetID && name == "CAP_SETFCAP" // what is given to a file of the host would work outside
		})
	}
	c.Process = ociProcess{Args: slices.Concat([]string{insideProgram}, b.options.InitArgs, []string{stageServe}),
		Env: []string{}, Cwd: "/", Capabilities: caps, NoNewPrivileges: true,
		Rlimits: []ociRlimit{{"RLIMIT_NOFILE", files, files}, {"RLIMIT_CORE", 0, 0}, {"RLIMIT_NPROC", processes, processes}}}
	for _, kind := range []string{"pid", "ipc", "uts", "mount"} {
		c.Linux.Namespaces = append(c.Linux.Namespaces, ociNamespace{Type: kind})
	}
	c.Linux.Namespaces = append(c.Linux.Namespaces, ociNamespace{Type: "network", Path: "/proc/self/ns/net"})
	return json.Marshal(c)
}

// orElseLimit is the limit of open files, within what this process itself may have.
func orElseLimit(n uint64) uint64 {
	if n == 0 {
		n = defaultOpenFiles
	}
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &own) == nil {
		n = min(n, own.Max)
	}
	return n
}

func systemMounts() []ociMount {
	return []ociMount{
		{"/proc", "proc", "proc", nil},
		{"/dev", "tmpfs", "tmpfs", nil},
		{"/dev/shm", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777", "size=536870912"}},
		{"/run", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=755", "size=268435456"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "nodev", "noexec", "ro"}},
	}
}
