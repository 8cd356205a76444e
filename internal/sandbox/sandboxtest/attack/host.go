package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func opens(path string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
}

// reads succeeds if a file has something in it.
func reads(path string) func() error {
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		n, err := f.Read(make([]byte, 64))
		if n == 0 {
			return errors.Join(err, errors.New("empty"))
		}
		return nil
	}
}

// kernelFiles are attacks by files in which the kernel shows itself.
func kernelFiles() []attack {
	return []attack{
		{kernel, "core pattern", opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY)},
		{kernel, "forwarding", opens("/proc/sys/net/ipv4/ip_forward", unix.O_WRONLY)},
		{kernel, "sysrq", opens("/proc/sysrq-trigger", unix.O_WRONLY)},
		{kernel, "interrupts", opens("/proc/irq/default_smp_affinity", unix.O_WRONLY)},
		{kernel, "kernel memory", reads("/proc/kcore")},
		{kernel, "kernel addresses", reads("/proc/kallsyms")},
		{kernel, "kernel command line", reads("/proc/cmdline")},
		{kernel, "kernel keys", reads("/proc/keys")},
		{kernel, "timers", reads("/proc/timer_list")},
		{kernel, "scheduler", reads("/proc/sched_debug")},
		{kernel, "kernel log", opens("/dev/kmsg", unix.O_RDONLY)},
		{kernel, "memory device", opens("/dev/mem", unix.O_RDONLY)},
		{kernel, "ports device", opens("/dev/port", unix.O_RDONLY)},
		{kernel, "disk vda", opens("/dev/vda", unix.O_RDONLY)},
		{kernel, "disk sda", opens("/dev/sda", unix.O_RDONLY)},
		{kernel, "disk nvme", opens("/dev/nvme0n1", unix.O_RDONLY)},
		{kernel, "virtual machines", opens("/dev/kvm", unix.O_RDWR)},
		{kernel, "network device node", opens("/dev/net/tun", unix.O_RDWR)},
		{kernel, "user file systems", opens("/dev/fuse", unix.O_RDWR)},
		{kernel, "firmware", lists("/sys/firmware")},
		{kernel, "uevents", opens("/sys/kernel/uevent_helper", unix.O_WRONLY)},
		{kernel, "device settings", opens("/sys/class/net/lo/mtu", unix.O_WRONLY)},
		{kernel, "power", opens("/sys/power/state", unix.O_WRONLY)},
		{kernel, "debugging", lists("/sys/kernel/debug")},
		{kernel, "security", lists("/sys/kernel/security")},
		{kernel, "control groups", makesGroup},
		{kernel, "release agent", opens("/sys/fs/cgroup/release_agent", unix.O_WRONLY)},
		{processes, "ptrace the first process", func() error { return unix.PtraceSeize(1) }},
		{processes, "memory of the first process", opens("/proc/1/mem", unix.O_RDWR)},
		{processes, "root of the first process", lists("/proc/1/root/etc")},
		{processes, "working directory of the first process", lists("/proc/1/cwd/")},
		{processes, "environment of the first process", reads("/proc/1/environ")},
		{processes, "descriptors of the first process", readsLinks},
		{processes, "steal a descriptor", stealsDescriptor},
		{processes, "read the first process's memory", readsMemory},
		{processes, "overwrite the program", overwrites},
	}
}

// lists succeeds if a directory has entries.
func lists(path string) func() error {
	return func() error {
		entries, err := os.ReadDir(path)
		if err == nil && len(entries) == 0 {
			err = errors.New("empty")
		}
		return err
	}
}

// readsLinks asks what the first process has open; that it has, shows nothing.
func readsLinks() error {
	var all []error
	for fd := range 16 {
		_, err := os.Readlink(fmt.Sprintf("/proc/1/fd/%d", fd))
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func makesGroup() error {
	dir := fmt.Sprintf("/sys/fs/cgroup/attack-%d", os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Remove(dir)
}

func stealsDescriptor() error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return err
}

// readsMemory asks for memory that is not there: only who may read gets so far.
func readsMemory() error {
	buf := make([]byte, 8)
	_, err := unix.ProcessVMReadv(1, []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: 8, Len: 8}}, 0)
	if err == nil || errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

// overwrites waits for nothing: a program that runs is busy, one that can be
// opened otherwise is not protected.
func overwrites() error {
	fd, err := unix.Open("/proc/1/exe", unix.O_WRONLY, 0)
	if errors.Is(err, unix.ETXTBSY) {
		return nil // protected by running only
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// host are attacks on what the test has planted.
func host(p plants) []attack {
	var list []attack
	add := func(guarantee, name string, try func() error) {
		list = append(list, attack{guarantee, name, try})
	}
	for _, path := range p.Files {
		for _, way := range []string{"", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../../..", "/../../.."} {
			add(files, "read "+way+path, has(way+path, p.Marker))
		}
	}
	for _, path := range p.Writable {
		add(files, "write "+path, opens(path, unix.O_WRONLY))
	}
	for _, path := range p.Dirs {
		add(files, "list "+path, lists(path))
	}
	if p.Shadow != "" {
		add(files, "passwords of the host", has("/etc/shadow", p.Shadow))
	}
	add(files, "find what is planted", func() error { return finds(p.Marker) })
	add(processes, "see the canary", func() error { return seen("cmdline", p.Marker) })
	add(processes, "read the canary's environment", func() error { return seen("environ", p.Marker) })
	add(environment, "the server's environment", has("/proc/self/environ", p.Marker))
	add(sockets, "abstract socket", greets("unix", "@"+p.Abstract, p.Marker))
	add(sockets, "socket "+p.Socket, greets("unix", p.Socket, p.Marker))
	for _, path := range []string{"/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
		"/run/dbus/system_bus_socket", "/run/systemd/private"} {
		add(sockets, "socket "+path, connects("unix", path))
	}
	for _, address := range p.Addresses {
		add(network, "reach "+address, greets("tcp", address, p.Marker))
	}
	for _, address := range p.Private {
		add(network, "reach "+address, connects("tcp", address))
	}
	return list
}

// has succeeds if a file holds a text.
func has(path, text string) func() error {
	return func() error {
		data, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(data), text) {
			err = errors.New("another file")
		}
		return err
	}
}

// finds looks for a file by its name where a box is not the host.
func finds(marker string) error {
	errFound := errors.New("found")
	for _, root := range []string{"/tmp", "/var", "/run", "/home", "/root", "/srv", "/mnt", "/media", "/dev/shm"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.Contains(e.Name(), marker) {
				fmt.Println(path)
				return errFound
			}
			return nil // what cannot be read is passed over
		})
		if errors.Is(err, errFound) {
			return nil
		}
	}
	return errors.New("nothing was found")
}

// seen succeeds if some other process has the marker in a file of /proc.
func seen(file, marker string) error {
	paths, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(marker)) {
			fmt.Println(path)
			return nil
		}
	}
	return fmt.Errorf("not among %d processes", len(paths))
}

// dialPatience is how long an address is tried.
const dialPatience = 3 * time.Second

func connects(kind, address string) func() error {
	return func() error {
		conn, err := net.DialTimeout(kind, address, dialPatience)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
}

// greets succeeds if the other side says the marker.
func greets(kind, address, marker string) func() error {
	return func() error {
		conn, err := net.DialTimeout(kind, address, dialPatience)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(dialPatience))
		data, err := io.ReadAll(io.LimitReader(conn, 1000))
		if strings.Contains(string(data), marker) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("another server: %q", data))
	}
}
