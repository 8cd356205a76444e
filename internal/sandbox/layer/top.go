// Package layer decides what of the host's files a box sees and builds what all
// boxes share: the root file system's base (a copy of the public part of /etc,
// empty private directories) and, per visible directory, a thin layer that hides
// what an unprivileged account of the host could not read.
//
// It promises an allow-list: what is not named here is not visible. It does not
// judge world-readable files.
package layer

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Top is a directory of the host that boxes see at the same path, below a
// writable overlay.
type Top struct {
	Path string `json:"path"`
	Name string `json:"name"` // its directory among the layers
	// Deep says where below Path to look for what must be hidden; relative, "."
	// is all of it. Directories that the package manager fills are left out.
	Deep []string `json:"deep"`
	// Copy takes small files along, so that a box with a single user id can write
	// to them: the databases of package managers.
	Copy bool `json:"copy"`
}

// systemDirs may be links into /usr (merged) or directories (older systems).
var systemDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hiddenDirs never become visible, whatever PATH names.
var hiddenDirs = []string{"/root", "/home", "/tmp", "/var", "/run", "/dev", "/proc", "/sys",
	"/mnt", "/media", "/srv", "/boot", "/etc", "/lost+found"}

// Tops lists what is visible on this host. path is the server's PATH, whose
// directories outside of homes count as toolchain; hidden are further
// directories that must not be seen, such as the data directory.
func Tops(path string, hidden []string) []Top {
	tops := []Top{{Path: "/usr", Deep: []string{"local"}}, {Path: "/opt", Deep: []string{"."}}}
	for _, name := range systemDirs {
		tops = append(tops, Top{Path: "/" + name})
	}
	for _, dir := range []string{"/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dnf", "/var/lib/pacman"} {
		tops = append(tops, Top{Path: dir, Deep: []string{"."}, Copy: true})
	}
	tops = append(tops, Top{Path: "/nix/store"})
	for _, dir := range filepath.SplitList(path) {
		if dir = toolchain(dir); dir != "" && !within(dir, hiddenDirs) && !covered(dir, tops) {
			tops = append(tops, Top{Path: dir, Deep: []string{"."}})
		}
	}
	tops = append(tops, submounts(tops)...)
	tops = split(tops, hidden)
	slices.SortFunc(tops, func(a, b Top) int { return cmp.Compare(a.Path, b.Path) })
	tops = slices.CompactFunc(tops, func(a, b Top) bool { return a.Path == b.Path })
	for i := range tops {
		tops[i].Name = strings.ReplaceAll(strings.Trim(tops[i].Path, "/"), "/", "+")
	}
	return tops
}

// toolchain returns the directory that a PATH entry stands for: the parent of a
// bin directory, else the entry itself; "" if there is nothing sensible.
func toolchain(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if base := filepath.Base(dir); base == "bin" || base == "sbin" {
		dir = filepath.Dir(dir)
	}
	if dir == "/" {
		return ""
	}
	return dir
}

func covered(dir string, tops []Top) bool {
	return slices.ContainsFunc(tops, func(t Top) bool { return Within(dir, t.Path) })
}

func within(dir string, parents []string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return Within(dir, p) })
}

// split leaves out what is not public or hidden, and replaces a directory that
// contains a hidden one by its other subdirectories: an overlay cannot have a
// part of its lower side as its upper one, and the data directory is that.
func split(tops []Top, hidden []string) []Top {
	var list []Top
	for _, t := range tops {
		switch {
		case within(t.Path, hidden) || !public(t.Path):
		case slices.ContainsFunc(hidden, func(h string) bool { return Within(h, t.Path) }):
			list = append(list, split(children(t), hidden)...)
		default:
			list = append(list, t)
		}
	}
	return list
}

// children are the subdirectories of a top as tops of their own.
func children(t Top) []Top {
	entries, err := os.ReadDir(t.Path)
	if err != nil {
		return nil
	}
	var list []Top
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		child := Top{Path: filepath.Join(t.Path, e.Name()), Copy: t.Copy}
		for _, deep := range t.Deep {
			if first, rest, _ := strings.Cut(deep, "/"); deep == "." {
				child.Deep = append(child.Deep, ".")
			} else if first == e.Name() {
				child.Deep = append(child.Deep, filepath.Clean(rest))
			}
		}
		list = append(list, child)
	}
	return list
}

// Within reports whether path is parent or lies below it. Both are clean.
func Within(path, parent string) bool {
	return path == parent || parent == "/" || strings.HasPrefix(path, parent+"/")
}

// public reports whether path is a real directory that every account may read.
func public(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o005 == 0o005
}

// submounts lists file systems mounted below a top: an overlay does not cross
// into them, each needs its own. Only those that hold programs count.
func submounts(tops []Top) []Top {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var more []Top
	for line := range strings.Lines(string(data)) {
		head, tail, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(head), strings.Fields(tail)
		if len(fields) < 5 || len(kind) == 0 || !holdsPrograms(kind[0]) {
			continue
		}
		point := fields[4]
		if covered(point, tops) && !slices.ContainsFunc(tops, func(t Top) bool { return t.Path == point }) {
			more = append(more, Top{Path: point, Deep: []string{"."}})
		}
	}
	return more
}

func holdsPrograms(fsType string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "squashfs", "erofs"}, fsType)
}

// device returns the device that path lies on.
func device(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Dev, err //nolint:unconvert // 32 bits wide on some architectures
}
