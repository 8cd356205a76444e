package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cover is a small read-only file system of what is shown in the place of files
// and directories of the kernel's.
type cover struct{ fd int }

// Names in a cover beside those of its files.
const (
	coverFile = "nothing"
	coverDir  = "empty"
)

// newCover makes a cover, attached where clones of it can be made.
func newCover(files map[string][]byte) (cover, error) {
	fs, err := newFS("tmpfs", [][2]string{{"mode", "755"}, {"size", "4m"}})
	if err != nil {
		return cover{}, err
	}
	fd, err := fs.mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return cover{}, err
	}
	if err := unix.Mkdirat(fd, coverDir, 0o555); err != nil {
		return cover{}, os.NewSyscallError("mkdirat", err)
	}
	for name, data := range files {
		if err := writeBelow(fd, name, data); err != nil {
			return cover{}, err
		}
	}
	if err := setMount(fd, unix.MOUNT_ATTR_RDONLY); err != nil { // clones are read-only, too
		return cover{}, err
	}
	return cover{fd}, attach(fd, stage)
}

func writeBelow(dir int, name string, data []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// over returns a mount of one of the cover's entries for target.
func (c cover) over(target, name string) (mounted, error) {
	fd, err := cloneTree(fdPath(c.fd, name), 0)
	if err != nil {
		return mounted{}, fmt.Errorf("%s: %w", target, err)
	}
	return mounted{target: target, fd: fd, exists: true}, nil
}

// hidden is what /proc tells of the whole machine. Much of it only the host's
// root may read, who does not exist inside: it is hidden all the same.
var hidden = []string{"acpi", "asound", "cmdline", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg",
	"latency_stats", "modules", "mtrr", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats", "vmallocinfo"}

// fixed is what of /proc can be read, not written: the box's own namespaces own
// some of it.
var fixed = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/bus", "/proc/fs", "/proc/irq"}

// covers makes what hides or replaces files of /proc and /sys.
func (b *builder) covers() ([]mounted, error) {
	files := map[string][]byte{coverFile: nil}
	if b.config.CPUs != nil {
		files["online"] = []byte(ranges(b.config.CPUs) + "\n")
		if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
			files["cpuinfo"] = chosen(data, b.config.CPUs)
		}
	}
	c, err := newCover(files)
	if err != nil {
		return nil, err
	}
	var list []mounted
	put := func(target, name string) error {
		m, err := c.over(target, name)
		if err == nil {
			list = append(list, m)
		}
		return err
	}
	for _, name := range hidden {
		info, err := os.Lstat("/proc/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		with := coverFile
		if err == nil && info.IsDir() {
			with = coverDir
		}
		if err := put("/proc/"+name, with); err != nil {
			return nil, err
		}
	}
	for name, target := range map[string]string{"online": processorDir + "/online", "cpuinfo": "/proc/cpuinfo"} {
		if files[name] == nil {
			continue
		}
		if err := put(target, name); err != nil {
			return nil, err
		}
	}
	memory, err := b.meminfo()
	return append(list, memory...), err
}

// meminfo shows the file that the server keeps up to date.
func (b *builder) meminfo() ([]mounted, error) {
	if b.config.Meminfo == (source{}) {
		return nil, nil
	}
	fd, err := b.open(b.config.Meminfo)
	if err != nil {
		return nil, fmt.Errorf("meminfo: %w", err)
	}
	err = setMount(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	return []mounted{{target: "/proc/meminfo", fd: fd, exists: true}}, err
}

// ranges writes sorted processor numbers as the kernel does: 0-2,5.
func ranges(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// chosen leaves of /proc/cpuinfo what is about the given processors, or about
// none.
func chosen(cpuinfo []byte, cpus []int) []byte {
	var out []byte
	for stanza := range bytes.SplitSeq(cpuinfo, []byte("\n\n")) {
		first, _, _ := bytes.Cut(stanza, []byte("\n"))
		name, value, _ := bytes.Cut(first, []byte(":"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if string(bytes.TrimSpace(name)) == "processor" && err == nil && !slices.Contains(cpus, n) {
			continue
		}
		if len(bytes.TrimSpace(stanza)) > 0 {
			out = append(append(out, stanza...), "\n\n"...)
		}
	}
	return out
}
