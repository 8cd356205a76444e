package docker

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
)

func TestReferences(t *testing.T) {
	id := "sha256:" + strings.Repeat("a", 64)
	for ref, want := range map[string]string{
		"debian":                             "debian latest",
		"debian:12":                          "debian 12",
		"library/debian":                     "library/debian latest",
		"localhost:5000/x":                   "localhost:5000/x latest",
		"localhost:5000/x:1.0":               "localhost:5000/x 1.0",
		"[::1]:5000/x":                       "[::1]:5000/x latest",
		"Registry.Example.com/a__b/c-d.e:V1": "Registry.Example.com/a__b/c-d.e V1",
		"x@" + id:                            "x " + id,
		"h:1/x:tag@" + id:                    "h:1/x " + id,
	} {
		name, tag := splitReference(ref)
		if err := checkReference(ref); err != nil || name+" "+tag != want {
			t.Errorf("%s: %s %s, %v, want %s", ref, name, tag, err, want)
		}
	}
	for _, ref := range []string{"", "Debian", "a b", "../x", "a/../b", "a//b", "/a", "a/", "-a", "a:", "a:b:c", "a@b", "a?b", "a%2fb", "a\nb",
		"http://a/b", strings.Repeat("a", maxReference+1)} {
		if checkReference(ref) == nil {
			t.Errorf("%q is accepted", ref)
		}
	}
}

func FuzzReference(f *testing.F) {
	for _, ref := range []string{"debian:12", "h:1/x:t@sha256:" + strings.Repeat("a", 64), "[::1]/a"} {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if checkReference(ref) != nil {
			return
		}
		name, tag := splitReference(ref)
		if name == "" || tag == "" || strings.Contains(ref, "..") || strings.ContainsAny(ref, " ?%#\\") || strings.HasPrefix(ref, "/") {
			t.Errorf("%q: %q %q", ref, name, tag)
		}
	})
}

const somePasswd = "root:x:0:0:root:/:/bin/sh\ngames:x:5:60:games:/usr/games:/bin/sh\nbuilder:x:1000:1000::/home/builder:/bin/sh\n" +
	"short:x:7\nodd:x:minus:1::/home/odd:/bin/sh\nmax:x:4294967295:1::/:/bin/sh\nescape:x:8:8::/home/../etc:/bin/sh\n"

func TestAccounts(t *testing.T) {
	a := parseAccounts(somePasswd, "root:x:0:\nstaff:x:50:games\nbad:x:many\n")
	for user, want := range map[string]account{
		"":              {"root", 0, 0, "/root"},
		"root":          {"root", 0, 0, "/root"},
		"0:50":          {"root", 0, 50, "/root"},
		"games":         {"games", 5, 60, "/home/games"},
		"5":             {"games", 5, 60, "/home/games"},
		"games:staff":   {"games", 5, 50, "/home/games"},
		"games:7":       {"games", 5, 7, "/home/games"},
		"builder":       {"builder", 1000, 1000, "/home/builder"},
		"1234":          {"sandbox", 1234, 0, "/home/sandbox"},
		"1234:1234":     {"sandbox", 1234, 1234, "/home/sandbox"},
		"nobody-knows":  {"sandbox", nobody, nobody, "/home/sandbox"},
		"max":           {"sandbox", nobody, nobody, "/home/sandbox"},
		"4294967295":    {"sandbox", nobody, nobody, "/home/sandbox"},
		"-1":            {"sandbox", nobody, nobody, "/home/sandbox"},
		"odd":           {"sandbox", nobody, nobody, "/home/sandbox"},
		"escape":        {"escape", 8, 8, "/home/escape"},
		"games:unknown": {"games", 5, 60, "/home/games"},
	} {
		if got := a.find(user); got != want {
			t.Errorf("%q: %+v, want %+v", user, got, want)
		}
	}
}

func FuzzAccounts(f *testing.F) {
	f.Add(somePasswd, "staff:x:50:", "games:staff")
	f.Add("evil\x00:x:0:0::/:/", "", "evil\x00")
	f.Fuzz(func(t *testing.T, passwd, group, user string) {
		who := parseAccounts(passwd, group).find(user)
		if !filepath.IsAbs(who.Home) || strings.ContainsRune(who.Home+who.Name, 0) || who.Name == "" || who.UID == 1<<32-1 || who.GID == 1<<32-1 {
			t.Errorf("%+v", who)
		}
		if who.UID != 0 && !strings.HasPrefix(who.Home, "/home/") {
			t.Errorf("home of an ordinary account: %+v", who)
		}
	})
}

func TestUnframe(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"\x01\x00\x00\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x00\x00\x00\x01!": "hi!",
		"plain text":                          "plain text",
		"\x01\x00\x00\x00\xff\xff\xff\xffcut": "cut",
		"\x01\x00\x00":                        "\x01\x00\x00",
	} {
		if got := unframe([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzUnframe(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02hi"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(unframe(data)) > len(data) {
			t.Error("it grew")
		}
	})
}

func FuzzJudge(f *testing.F) {
	for _, n := range []hostbox.Note{{Ready: true}, {Error: "no\x1b[31m"}, {Facts: json.RawMessage(`{"no_device":"x"}`)}} {
		data, err := json.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		done, err := judge(data)
		if done && err != nil {
			t.Errorf("ready, and %v", err)
		}
	})
}

func FuzzGroups(f *testing.F) {
	const id = "0123456789abcdef"
	f.Add("0::/system.slice/docker-" + id + ".scope\n")
	f.Add("4:memory:/docker/" + id + "\n3:cpu,cpuacct:/docker/" + id + "\n")
	root := f.TempDir()
	for _, dir := range []string{"memory/docker/" + id, "cpu,cpuacct/docker/" + id, "system.slice/docker-" + id + ".scope"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		g := groupIn(root, text, id)
		if g == nil {
			return
		}
		for name, dir := range g.Dirs {
			if !within(dir, root) || !strings.Contains(dir, id) {
				t.Errorf("%s: %s", name, dir)
			}
		}
	})
}

func TestGroups(t *testing.T) {
	const id = "0123456789abcdef"
	root := t.TempDir()
	for _, dir := range []string{"memory/docker/" + id, "cpu,cpuacct/docker/" + id, "unified/docker/" + id, "pids/docker/other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text := "4:memory:/docker/" + id + "\n3:cpu,cpuacct:/docker/" + id + "\n2:pids:/docker/other\n1:freezer:/docker/" + id + "\n0::/docker/" + id + "\n5:blkio:/../" + id
	g := groupIn(root, text, id)
	if g == nil || len(g.Dirs) != 4 || g.Dirs["memory"] != root+"/memory/docker/"+id || g.Dirs["cpuacct"] != root+"/cpu,cpuacct/docker/"+id ||
		g.Dirs["unified"] != root+"/unified/docker/"+id {
		t.Errorf("%+v", g)
	}
}

// TestDevicesOfHostileBoxes: only a network device is taken, whatever comes.
func TestDevicesOfHostileBoxes(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	attacks := map[string][]byte{
		"nothing":          nil,
		"a file":           unix.UnixRights(int(file.Fd())),
		"a device":         unix.UnixRights(int(null.Fd())),
		"two":              unix.UnixRights(int(null.Fd()), int(file.Fd())),
		"more than wanted": unix.UnixRights(repeat(int(null.Fd()), 50)...),
	}
	if tun, err := os.OpenFile(tunPath, os.O_RDWR, 0); err == nil {
		defer func() { _ = tun.Close() }()
		attacks["a device of nothing"] = unix.UnixRights(int(tun.Fd()))
	}
	for name, oob := range attacks {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			before := openFiles(t)
			if _, _, err := theirs.WriteMsgUnix([]byte{1}, oob, nil); err != nil {
				t.Fatal(err)
			}
			if fd, err := receiveDevice(t.Context(), ours); err == nil {
				t.Errorf("accepted: %d", fd)
			}
			if after := openFiles(t); after > before { // ours was closed, too
				t.Errorf("%d files are open, %d were", after, before)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		ours, _ := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := receiveDevice(ctx, ours); err == nil {
			t.Error("accepted")
		}
	})
}

func repeat(fd, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = fd
	}
	return list
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conns[0], conns[1]
}
