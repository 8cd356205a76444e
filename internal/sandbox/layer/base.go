package layer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// DNS is the name server that boxes ask: the server's side of their network.
const DNS = "10.0.2.3"

// base builds the lower layer of the root file system.
func (w writer) base() error {
	w.dir = filepath.Join(w.dir, BaseDir)
	if err := w.mkdir(".", 0o755, 0, 0); err != nil {
		return err
	}
	for _, step := range []func() error{w.dirs, w.links, w.etc, w.accounts, w.settings, w.packageState, w.home} {
		if err := step(); err != nil {
			return err
		}
	}
	return w.mountPoints()
}

func (w writer) dirs() error {
	for _, dir := range []struct {
		path string
		mode uint32
	}{
		{"dev", 0o755}, {"etc", 0o755}, {"home", 0o755}, {"media", 0o755}, {"mnt", 0o755}, {"proc", 0o555},
		{"root", 0o700}, {"run", 0o755}, {"srv", 0o755}, {"sys", 0o555}, {"tmp", 0o1777}, {"workspace", 0o755},
		{"var", 0o755}, {"var/backups", 0o755}, {"var/cache", 0o755}, {"var/cache/apt", 0o755},
		{"var/cache/apt/archives", 0o755}, {"var/cache/apt/archives/partial", 0o700}, {"var/cache/debconf", 0o755},
		{"var/lib", 0o755}, {"var/local", 0o755}, {"var/log", 0o755}, {"var/log/apt", 0o755}, {"var/mail", 0o755},
		{"var/opt", 0o755}, {"var/spool", 0o755}, {"var/tmp", 0o1777},
	} {
		if err := w.mkdir(dir.path, dir.mode, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// links repeats the host's links of system directories into /usr.
func (w writer) links() error {
	for _, name := range systemDirs {
		if target, err := os.Readlink("/" + name); err == nil {
			if err := w.link(name, target); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.link("var/run", "/run"), w.link("var/lock", "/run/lock"))
}

// ownEtc are files of /etc that the box has for itself, or that tell of the host.
var ownEtc = map[string]bool{
	"hostname": true, "hosts": true, "resolv.conf": true, "machine-id": true, "mtab": true, "fstab": true,
	"shadow": true, "shadow-": true, "gshadow": true, "gshadow-": true, "ssh": true,
}

func (w writer) etc() error { return w.tree("/etc", "etc", ownEtc) }

// tree copies what every account may read below a directory of the host.
func (w writer) tree(from, to string, skip map[string]bool) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil //nolint:nilerr // unreadable is not shown
	}
	for _, e := range entries {
		if skip[e.Name()] {
			continue
		}
		if err := w.treeEntry(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (w writer) treeEntry(from, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil || !readable(&st) {
		return nil //nolint:nilerr // removed meanwhile, or not public
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(from)
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		return w.link(to, target)
	case unix.S_IFDIR:
		if err := w.mkdir(to, st.Mode, st.Uid, st.Gid); err != nil {
			return err
		}
		return w.tree(from, to, nil)
	}
	if st.Size > maxCopy {
		return nil
	}
	if err := w.copy(from, to, &st); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// accounts writes password files without passwords: nobody can log in, and tools
// that add accounts find what they expect.
func (w writer) accounts() error {
	shadow := locked(w.path("etc/passwd"), ":*:19000:0:99999:7:::\n")
	gshadow := locked(w.path("etc/group"), ":*::\n")
	return errors.Join(w.file("etc/shadow", 0o640, shadow), w.file("etc/gshadow", 0o640, gshadow))
}

func locked(path, rest string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "root" + rest
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			out.WriteString(name + rest)
		}
	}
	return out.String()
}

// Settings are the files of every box, by path, whatever it stands on: its names
// and its name server.
func Settings(hostname string) map[string]string {
	return map[string]string{
		"/etc/hostname":    hostname + "\n",
		"/etc/hosts":       "127.0.0.1\tlocalhost\n127.0.1.1\t" + hostname + "\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"/etc/resolv.conf": "nameserver " + DNS + "\n",
	}
}

// settings writes what differs from the host: names, name service, shells and
// package managers.
func (w writer) settings() error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	var files []struct{ path, text string }
	for path, text := range Settings(w.options.Hostname) {
		files = append(files, struct{ path, text string }{strings.TrimPrefix(path, "/"), text})
	}
	files = append(files, []struct{ path, text string }{
		{"etc/machine-id", hex.EncodeToString(id) + "\n"},
		{"etc/fstab", ""},
		// /etc/profile of most systems resets PATH.
		{"etc/profile.d/zz-sandbox.sh", "PATH='" + strings.ReplaceAll(w.options.Path, "'", `'\''`) + "'\nexport PATH\n"},
		// A box is disposable: waiting for the disk after each file buys nothing.
		{"etc/dpkg/dpkg.cfg.d/zz-sandbox", "force-unsafe-io\n"},
	}...)
	if w.options.Base < 0 {
		// apt drops to an account that does not exist where there is a single id.
		files = append(files, struct{ path, text string }{"etc/apt/apt.conf.d/zz-sandbox", "APT::Sandbox::User \"root\";\n"})
	}
	for _, f := range files {
		if dir := filepath.Dir(f.path); dir != "etc" && !w.has(dir) {
			continue // the host has no such program
		}
		if err := w.file(f.path, 0o644, f.text); err != nil {
			return err
		}
	}
	return w.link("etc/mtab", "/proc/self/mounts")
}

func (w writer) has(rel string) bool {
	_, err := os.Lstat(w.path(rel))
	return err == nil
}

// packageState copies what installation scripts expect to find in /var: small,
// public files.
func (w writer) packageState() error {
	for _, name := range []string{"ucf", "pam", "python", "python3", "sgml-base", "xml-core", "misc", "vim",
		"ca-certificates-java", "shells.state", "emacsen-common", "dictionaries-common", "aspell", "ghc",
		"alternatives", "tex-common", "texmf"} {
		if err := w.treeEntry("/var/lib/"+name, "var/lib/"+name); err != nil {
			return err
		}
	}
	return w.tree("/var/cache/debconf", "var/cache/debconf", nil)
}

// home fills the home directory with the files of a new account.
func (w writer) home() error { return w.tree("/etc/skel", "root", nil) }

// mountPoints makes a directory for every visible one.
func (w writer) mountPoints() error {
	for _, t := range w.options.Tops {
		rel := ""
		for part := range strings.SplitSeq(strings.Trim(t.Path, "/"), "/") {
			rel = filepath.Join(rel, part)
			if w.has(rel) {
				continue
			}
			if err := w.mkdir(rel, 0o755, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
