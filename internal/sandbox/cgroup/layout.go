// Package cgroup bounds, freezes and kills groups of processes with control
// groups, version 1, version 2 or both at once (limits on 1, freeze and kill on
// 2), whichever the machine offers and this process may use.
//
// It promises limits only for controllers that Holds names. It never moves
// processes of others.
package cgroup

import (
	"path/filepath"
	"strings"
)

// unified is the key of the version 2 hierarchy; the others are named by their
// version 1 controller.
const unified = "unified"

// layout is where this process stands in each hierarchy: directories.
type layout struct {
	own  map[string]string // hierarchy -> the cgroup of this process
	root map[string]string // hierarchy -> its mount point
}

// parseLayout reads /proc/self/mountinfo and /proc/self/cgroup.
func parseLayout(mountinfo, selfCgroup string) layout {
	l := layout{own: map[string]string{}, root: map[string]string{}}
	paths := parseSelf(selfCgroup)
	for line := range strings.Lines(mountinfo) {
		mount, ok := parseMount(line)
		if !ok {
			continue
		}
		for _, name := range mount.hierarchies {
			path, member := paths[name]
			if _, seen := l.root[name]; seen || !member {
				continue
			}
			l.root[name] = mount.point
			l.own[name] = filepath.Join(mount.point, below(path, mount.root))
		}
	}
	return l
}

// parseSelf reads /proc/self/cgroup: "4:memory:/path" or "0::/path".
func parseSelf(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			paths[unified] = parts[2]
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			paths[name] = parts[2]
		}
	}
	return paths
}

type mount struct {
	root, point string
	hierarchies []string
}

// parseMount reads a line of proc_pid_mountinfo(5): optional fields end at "-".
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 5 || len(tail) < 3 {
		return mount{}, false
	}
	m := mount{root: unescape(head[3]), point: unescape(head[4])}
	switch tail[0] {
	case "cgroup2":
		m.hierarchies = []string{unified}
	case "cgroup":
		m.hierarchies = strings.Split(tail[len(tail)-1], ",")
	}
	return m, m.hierarchies != nil
}

// unescape turns the octal escapes of mountinfo back.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// below returns path relative to the hierarchy's directory that is mounted. A
// path outside of it (a cgroup namespace hides it) counts as the mounted one.
func below(path, root string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return rel
}
