package hostbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/layer"
)

// MaxEnv bounds the environment of a box: names and values, in bytes. It travels
// in one message.
const MaxEnv = 48 << 10

// Home is the home directory inside of boxes that have their own file system.
const Home = "/root"

// CheckSpec completes a spec with the defaults and validates what does not depend
// on the backend. Errors are Invalid.
func CheckSpec(spec *sandbox.Spec) error {
	if spec.WorkingDir == "" {
		spec.WorkingDir = sandbox.WorkingDir
	}
	if !ValidTarget(spec.WorkingDir) {
		return invalid("working_dir", "The working directory must be an absolute, clean path that is not a system directory.")
	}
	if err := netpolicy.Check(spec.Network); err != nil {
		return err
	}
	if l := spec.Limits; l.CPUs < 0 || l.MemoryBytes < 0 || l.Processes < 0 || l.DiskBytes < 0 || l.Inodes < 0 {
		return invalid("limits", "Limits are not negative.")
	}
	if text := checkEnv(spec.Env); text != "" {
		return invalid("env", text)
	}
	for i := range spec.Mounts {
		if err := checkMount(&spec.Mounts[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse refuses what the backend cannot do.
func refuse(name string, caps sandbox.Caps, spec sandbox.Spec) error {
	if spec.Runtime != "" {
		return sandbox.Unsupported(name, "choose a runtime of a container engine")
	}
	if spec.Image != "" && !caps.Images {
		return sandbox.Unsupported(name, "start from container images")
	}
	if !caps.NetworkPolicy && spec.Network.Mode != "" && spec.Network.Mode != sandbox.NetworkOpen || !caps.NetworkPolicy && spec.Network.Within != nil {
		return sandbox.Unsupported(name, "keep a sandbox from the network")
	}
	return sandbox.CheckLimits(name, spec.Limits, caps.Limits)
}

// checkMount validates a mount and resolves the links of its source.
func checkMount(m *sandbox.Mount) error {
	if !ValidTarget(m.Target) {
		return invalid("mounts", "A mount's target must be an absolute, clean path that is not a system directory.")
	}
	if !filepath.IsAbs(m.Source) {
		return invalid("mounts", "A mount's source must be an absolute path.")
	}
	source, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return invalid("mounts", "A mount's source does not exist.")
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		return invalid("mounts", "A mount's source is not a directory.")
	}
	m.Source = source
	return nil
}

// ValidTarget refuses places for mounts and working directories that would replace
// what a box stands on.
func ValidTarget(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.Contains(path, "\x00") {
		return false
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return false
		}
	}
	return path != "/" && path != "/tmp" && path != "/var" && path != Home
}

// checkEnv says what is wrong with an environment, "" if nothing.
func checkEnv(env map[string]string) string {
	size := 0
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Sprintf("The name or the value of the environment variable %q is not possible.", name)
		}
		size += len(name) + len(value)
	}
	if size > MaxEnv {
		return fmt.Sprintf("The environment has %d bytes, %d are possible.", size, MaxEnv)
	}
	return ""
}

func invalid(field, text string) error {
	err := fault.New(fault.Invalid, "sandbox_spec", "%s", text)
	err.Fields = []fault.Field{{Loc: []any{field}, Type: "value_error", Msg: text}}
	return err
}

// CheckSource refuses a mount that would show what is the server's own: a hidden
// directory, what is in or around it, or a home as a whole; directories in a home may
// be shared. The source has no links in it, see CheckSpec.
func CheckSource(source string, hidden, homes []string) error {
	refused := fault.New(fault.Invalid, "sandbox_spec", "A mount's source would show the server's own data.")
	for _, secret := range hidden {
		if layer.Within(secret, source) || layer.Within(source, secret) {
			return refused
		}
	}
	for _, home := range homes {
		if layer.Within(home, source) {
			return refused
		}
	}
	return nil
}
