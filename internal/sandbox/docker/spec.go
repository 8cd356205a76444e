package docker

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/tun"
)

// Where our own things are inside.
const (
	insidePath = "/.parley"
	exePath    = insidePath + "/exe"
	runPath    = insidePath + "/run" // insideDir
	memoryPath = "/proc/meminfo"
	tunPath    = tun.Path
	hostname   = "sandbox"
)

// Defaults of Limits.
const (
	defaultMemory    = 4 << 30
	defaultProcesses = 1024
	defaultOpenFiles = 65536
)

// minMemory is the least that the first process and the engine's tools start in.
const minMemory = 16 << 20

// basePath is PATH inside of images that do not set one.
const basePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// masked and readOnly are what engines hide and protect by themselves, of all
// versions, and what else shows or changes the machine. Those of the control
// groups stay readable: runtimes look there for their limits.
var (
	masked = []string{"/proc/acpi", "/proc/asound", "/proc/cmdline", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/key-users",
		"/proc/keys", "/proc/kmsg", "/proc/latency_stats", "/proc/modules", "/proc/pagetypeinfo", "/proc/sched_debug", "/proc/scsi",
		"/proc/slabinfo", "/proc/swaps", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
		"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing"}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/sys/fs/cgroup"}
)

// check completes and validates a spec as far as no engine is needed.
func (b *Backend) check(spec *sandbox.Spec) error {
	if err := hostbox.CheckSpec(spec); err != nil {
		return err
	}
	if within(spec.WorkingDir, insidePath) {
		return invalid("The working directory is the server's own.")
	}
	for _, m := range spec.Mounts {
		if err := b.checkMount(m); err != nil {
			return err
		}
	}
	if spec.Runtime == "" {
		spec.Runtime = b.options.Runtime
	}
	if len(spec.Runtime) > 128 || strings.ContainsFunc(spec.Runtime, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("The runtime's name is not possible.")
	}
	if m := spec.Limits.MemoryBytes; m > 0 && m < minMemory {
		return invalid(fmt.Sprintf("A sandbox needs at least %d bytes of memory.", minMemory))
	}
	if spec.From == nil {
		if spec.Image == "" {
			spec.Image = b.options.DefaultImage
		}
		if spec.Image == "" {
			return invalid("No container image is named, and none is configured.")
		}
		if err := checkReference(spec.Image); err != nil {
			return err
		}
	}
	return sandbox.CheckLimits(Name, spec.Limits, b.limits())
}

// checkMount refuses to show what is the server's own, or the engine's socket:
// who can open it rules the machine.
func (b *Backend) checkMount(m sandbox.Mount) error {
	if within(m.Target, insidePath) {
		return invalid("A mount's target is the server's own.")
	}
	refused := invalid("A mount's source would show the server's own data.")
	for _, secret := range append([]string{b.options.Dir}, b.options.Hidden...) {
		for _, path := range spellings(secret) {
			if within(path, m.Source) || within(m.Source, path) {
				return refused
			}
		}
	}
	for _, path := range spellings(b.engine.socket) {
		if within(path, m.Source) {
			return invalid("A mount's source would show the container engine's socket.")
		}
	}
	for _, home := range b.options.Homes {
		if within(home, m.Source) {
			return refused
		}
	}
	return nil
}

// spellings are a path as it is written and as it resolves: sources are resolved.
func spellings(path string) []string {
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return []string{path, real}
	}
	return []string{path}
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func invalid(text string) error {
	return fault.New(fault.Invalid, "sandbox_spec", "%s", text)
}

// newRecord settles what programs inside get: of the image, and above it of the
// spec.
func newRecord(spec sandbox.Spec, img image) (record, error) {
	r := record{Spec: spec, User: img.Config.User, Env: map[string]string{
		"PATH": basePath, "LANG": "C.UTF-8", "TERM": "xterm-256color", "TMPDIR": "/tmp", "DEBIAN_FRONTEND": "noninteractive"}}
	size := 0
	for _, kv := range img.Config.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" && !strings.Contains(kv, "\x00") {
			r.Env[name] = value
		}
	}
	maps.Copy(r.Env, spec.Env)
	for name, value := range r.Env {
		size += len(name) + len(value)
	}
	if size > hostbox.MaxEnv || len(r.User) > 256 {
		return r, fault.New(fault.Invalid, "sandbox_image", "The image's environment or user name is too long.")
	}
	return r, nil
}

// memory is the limit of a box's memory: the default is bounded by the machine.
func (b *Backend) memory(spec sandbox.Spec) int64 {
	switch {
	case spec.Limits.MemoryBytes > 0:
		return spec.Limits.MemoryBytes
	case b.machine.MemTotal > 0:
		return min(defaultMemory, b.machine.MemTotal)
	}
	return defaultMemory
}

// outbound reports whether a box gets a network device.
func (b *Backend) outbound(spec sandbox.Spec) bool {
	return b.options.Network != nil && !spec.Network.Offline()
}

// config describes the container of a box.
func (b *Backend) config(p place, r record, img image) (config, error) {
	labels := map[string]string{labelInstallation: b.options.Installation, labelBox: r.Spec.ID, labelVersion: strconv.Itoa(handleVersion)}
	c := config{
		Image: img.ID, Hostname: hostname, User: "0:0", WorkingDir: "/", Labels: labels,
		Entrypoint: append(append([]string{exePath}, b.options.InitArgs...), stageEnter), Cmd: []string{},
		// A health check would run a program of the image with the rights that the
		// first process has given up.
		Healthcheck: healthcheck{Test: []string{"NONE"}},
		HostConfig: hostConfig{
			NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private",
			Runtime: r.Spec.Runtime,
			CapDrop: []string{"ALL"}, CapAdd: enterCaps(b.outbound(r.Spec)),
			SecurityOpt: []string{"no-new-privileges"},
			MaskedPaths: masked, ReadonlyPaths: readOnly,
			LogConfig: logConfig{Type: "json-file", Config: map[string]string{"max-size": "64k", "max-file": "1"}},
		},
	}
	b.configLimits(&c.HostConfig, r.Spec)
	if b.outbound(r.Spec) {
		c.HostConfig.Devices = []device{{tunPath, tunPath, "rwm"}}
	}
	var err error
	c.HostConfig.Mounts, err = b.mounts(p, r.Spec)
	return c, err
}

func (b *Backend) configLimits(h *hostConfig, spec sandbox.Spec) {
	held := b.limits()
	if has(held, sandbox.LimitMemory) {
		h.Memory = b.memory(spec)
		if b.machine.SwapLimit {
			h.MemorySwap = h.Memory // together: no swap
		}
	}
	if has(held, sandbox.LimitProcesses) {
		h.PidsLimit = defaultProcesses
		if spec.Limits.Processes > 0 {
			h.PidsLimit = spec.Limits.Processes
		}
	}
	if spec.Limits.CPUs > 0 {
		h.NanoCPUs = int64(min(spec.Limits.CPUs, float64(max(1, b.machine.NCPU))) * 1e9)
	}
	if spec.Limits.DiskBytes > 0 {
		h.StorageOpt = map[string]string{"size": strconv.FormatInt(spec.Limits.DiskBytes, 10)}
	}
}

// mounts lists what is shown inside: what is ours, read-only, and the spec's.
func (b *Backend) mounts(p place, spec sandbox.Spec) ([]bindMount, error) {
	ours := func(source, target string) bindMount {
		return bindMount{Type: "bind", Source: source, Target: target, ReadOnly: true,
			BindOptions: bindOptions{Propagation: "rprivate", NonRecursive: true}}
	}
	list := []bindMount{ours(b.options.Exe, exePath), ours(p.file(insideDir), runPath)}
	if spec.Runtime == "" && has(b.limits(), sandbox.LimitMemory) { // other runtimes have a kernel or a /proc of their own
		if err := os.WriteFile(p.file(memoryFile), meminfo(b.memory(spec)), 0o444); err != nil {
			return nil, err
		}
		list = append(list, ours(p.file(memoryFile), memoryPath))
	}
	for _, m := range spec.Mounts {
		// Not recursive where it is read-only: what is mounted below would stay
		// writable.
		list = append(list, bindMount{Type: "bind", Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
			BindOptions: bindOptions{Propagation: "rprivate", NonRecursive: m.ReadOnly}})
	}
	return list, nil
}

// meminfo is what programs read of the machine's memory: the limit. What of it is
// in use is not known here, so all of it is said to be free.
func meminfo(limit int64) []byte {
	var text strings.Builder
	for _, line := range []struct {
		name string
		size int64
	}{
		{"MemTotal", limit}, {"MemFree", limit}, {"MemAvailable", limit}, {"Buffers", 0}, {"Cached", 0}, {"SwapCached", 0},
		{"SwapTotal", 0}, {"SwapFree", 0}, {"Shmem", 0}, {"SReclaimable", 0},
	} {
		fmt.Fprintf(&text, "%-15s %8d kB\n", line.name+":", line.size>>10)
	}
	return []byte(text.String())
}
