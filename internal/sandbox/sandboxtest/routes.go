package sandboxtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// changes tries to change the host where a box has a file system of its own.
func (h *hostile) changes(t *testing.T) {
	b := h.backend(t)
	if !b.Caps().Isolated {
		return // the file system is the host's: see HostFiles
	}
	box := h.target(t, b, sandbox.Limits{})
	const name = "parley-hostile-new"
	dirs := []string{"/usr/bin", "/usr/lib", "/etc", "/opt", "/usr/local/bin", "/var/lib", "/tmp", "/var/tmp", "/root", "/home", "/", "/dev/shm"}
	for _, dir := range dirs {
		h.run(t, box, fmt.Sprintf("mkdir -p %[1]s; echo evil > %[1]s/%[2]s", dir, name))
	}
	h.run(t, box, `echo "1.2.3.4 parley-hostile" >> /etc/hosts; ln -s / up 2>/dev/null`)
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		_, err := os.Lstat(file)
		h.found(HostFiles, "make "+file, err == nil, "it is on the host")
		_ = os.Remove(file)
	}
	hosts, _ := os.ReadFile("/etc/hosts") // none: nothing was changed
	h.found(HostFiles, "change /etc/hosts", bytes.Contains(hosts, []byte("parley-hostile")), "the host's was changed")
}

// fileRoutes sends every route of the real daemon to what is no file.
func (h *hostile) fileRoutes(t *testing.T) {
	box := h.target(t, h.backend(t), sandbox.Limits{})
	dir := h.workingDir(t, box)
	client := h.hands(t, box)
	h.sh(t, box, "mkdir odd && mkfifo odd/pipe && ln -s pipe odd/to-pipe && ln -s loop odd/loop && ln -s /dev/zero odd/zero && echo text > odd/file")
	odd := path.Join(dir, "odd")
	for _, name := range []string{odd + "/pipe", odd + "/to-pipe", odd + "/loop", odd + "/zero", "/dev/zero", "/dev/null", "/dev/tty"} {
		_, err := client.ReadFile(h.context(t), name, 0)
		h.refusal("read "+path.Base(name), err)
		for _, opt := range []tool.WriteOptions{{}, {Append: true}} {
			h.refusal("write "+path.Base(name), client.WriteFile(h.context(t), name, []byte("x"), opt))
		}
		h.refusal("change "+path.Base(name), client.ChangeFiles(h.context(t), path.Dir(name),
			[]tool.FileChange{{Path: name, Before: sum("x"), Data: []byte("y")}}))
	}
	h.survives("list", func() error { _, err := client.ListDir(h.context(t), odd, 3, 100); return err })
	h.survives("search", func() error {
		_, err := client.Search(h.context(t), tool.SearchRequest{Root: odd, Text: "text"})
		return err
	})
	var archive bytes.Buffer
	h.survives("get tar", func() error { return client.GetTar(h.context(t), odd, &archive, nil, 1<<20) })
	h.refusal("put tar over a pipe", client.PutTar(h.context(t), odd+"/pipe", bytes.NewReader(hostileTar("x")), 1<<20))
	h.sh(t, box, "mkdir into victim && test -p odd/pipe && test -c /dev/null")
	for _, name := range []string{"../victim/evil", "/" + strings.TrimPrefix(dir, "/") + "/victim/evil", "a/../../victim/evil", "link/evil", "hard"} {
		err := client.PutTar(h.context(t), dir+"/into", bytes.NewReader(hostileTar(name)), 1<<20)
		out := h.sh(t, box, "ls -A victim; rm -rf victim into; mkdir victim into")
		h.found(FileRoutes, "archive with "+name, out != "", fmt.Sprintf("outside of the directory: %s (%v)", out, err))
	}
}

func sum(s string) []byte {
	digest := sha256.Sum256([]byte(s))
	return digest[:]
}

// refusal notes a route that did not refuse, or did not answer.
func (h *hostile) refusal(attack string, err error) {
	h.found(FileRoutes, attack, err == nil || slow(err), fmt.Sprint("want a refusal, got ", err))
}

// survives notes a route that failed where it must pass over what is no file.
func (h *hostile) survives(attack string, try func() error) {
	err := try()
	h.found(FileRoutes, attack, err != nil, fmt.Sprint("want an answer, got ", err))
}

func slow(err error) bool {
	return fault.Is(err, fault.Timeout) || fault.Is(err, fault.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
}

// hostileTar is an archive with one file of that name, below a link that leads out
// of the directory where it is unpacked.
func hostileTar(name string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	_ = w.WriteHeader(&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../victim", Mode: 0o777})
	if name == "hard" {
		_ = w.WriteHeader(&tar.Header{Name: "../victim/evil", Typeflag: tar.TypeLink, Linkname: "link"})
	} else {
		_ = w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 4, Mode: 0o644})
		_, _ = w.Write([]byte("evil"))
	}
	_ = w.Close() // into memory
	return buf.Bytes()
}

// swaps uses every route on paths that a program inside turns into links to the
// host and back, again and again.
func (h *hostile) swaps(t *testing.T) {
	victim, precious := t.TempDir(), "precious-"+t.Name()
	for d := victim; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(victim, "f"), []byte(precious), 0o666); err != nil {
		t.Fatal(err)
	}
	box := h.target(t, h.backend(t), sandbox.Limits{})
	dir, client := h.workingDir(t, box), h.hands(t, box)
	h.sh(t, box, fmt.Sprintf(`mkdir sw real && echo own > real/f && ln -s %s evil
		sh -c 'while :; do rm -rf sw; cp -r real sw; rm -rf sw; cp -P evil sw; done' >/dev/null 2>&1 &`, victim))
	seen := ""
	for range 40 {
		seen += useRoutes(t, h, client, path.Join(dir, "sw"))
	}
	h.found(HostFiles, "read through a swapped link", strings.Contains(seen, precious), "a file of the host was read")
	data, err := os.ReadFile(filepath.Join(victim, "f"))
	entries, lerr := os.ReadDir(victim)
	h.found(HostFiles, "write through a swapped link", errors.Join(err, lerr) != nil || string(data) != precious || len(entries) != 1,
		fmt.Sprintf("the host's directory has %v, the file %q", entries, data))
	h.sh(t, box, "true")
}

// useRoutes uses all routes once, whatever comes of it, and returns what they gave.
func useRoutes(t *testing.T, h *hostile, client *sandboxd.Client, dir string) string {
	t.Helper()
	ctx := h.context(t)
	var all bytes.Buffer
	if data, err := client.ReadFile(ctx, dir+"/f", 0); err == nil {
		all.Write(data)
	}
	list, _ := client.ListDir(ctx, dir, 1, 10)
	found, _ := client.Search(ctx, tool.SearchRequest{Root: dir, Text: "precious"})
	_, _ = fmt.Fprint(&all, list, found)
	_ = client.GetTar(ctx, dir, &all, nil, 1<<20)
	_ = client.WriteFile(ctx, dir+"/f", []byte("evil"), tool.WriteOptions{})
	_ = client.WriteFile(ctx, dir+"/new", []byte("evil"), tool.WriteOptions{Parents: true})
	_ = client.WriteFile(ctx, dir+"/f", []byte("evil"), tool.WriteOptions{Append: true})
	_ = client.PutTar(ctx, dir, bytes.NewReader(hostileTar("new")), 1<<20)
	_ = client.ChangeFiles(ctx, dir, []tool.FileChange{{Path: dir + "/f", Before: sum("own\n"), Data: []byte("evil")}})
	_ = client.Remove(ctx, dir+"/f")
	return all.String()
}

// neighbours lets a box take all that it can get, and works in another.
func (h *hostile) neighbours(t *testing.T) {
	b := h.backend(t)
	caps := b.Caps()
	limits := sandbox.Limits{}
	script := "true"
	add := func(limit string, set func(), greedy string) {
		if has(caps, limit) { // else nothing would stop it, as Caps say
			set()
			script += "\nsh -c '" + greedy + "' >/dev/null 2>&1 &"
		}
	}
	add(sandbox.LimitDisk, func() { limits.DiskBytes = 64 << 20 }, `while :; do head -c 200000000 /dev/zero > full; done`)
	add(sandbox.LimitInodes, func() { limits.Inodes = 2000 }, `mkdir -p many; while :; do i=0; while [ $i -lt 3000 ]; do : > many/$i; i=$((i+1)); done; rm -rf many/*; done`)
	add(sandbox.LimitMemory, func() { limits.MemoryBytes = 256 << 20 }, `while :; do head -c 1000000000 /dev/zero | tail -n 1; done`)
	add(sandbox.LimitCPU, func() { limits.CPUs = 1 }, `while :; do :; done`)
	add(sandbox.LimitProcesses, func() { limits.Processes = 128 }, `bomb() { bomb | bomb & }; while :; do bomb; done`)
	greedy := h.target(t, b, limits)
	neighbour := h.target(t, b, sandbox.Limits{})
	h.sh(t, greedy, script)
	began, failed := time.Now(), 0
	const commands = 20
	for range commands {
		out, err := h.Exec(h.context(t), neighbour, "sh", "-c", "echo works > file && cat file")
		if err != nil || strings.TrimSpace(out.Text) != "works" {
			failed++
		}
	}
	t.Logf("%d commands of a neighbour took %v", commands, time.Since(began))
	h.found(OtherSandboxes, "take all there is", failed > 0, fmt.Sprintf("%d of %d commands of a neighbour failed", failed, commands))
	err := b.Destroy(h.context(t), greedy.Handle())
	h.found(OtherSandboxes, "refuse to die", err != nil, fmt.Sprint("destroy: ", err))
}

// ownSocket replaces the socket that the server dials with links to a socket of
// the host, and with what is no socket.
func (h *hostile) ownSocket(t *testing.T) {
	if h.o.SocketDir == "" {
		return // there is none to replace
	}
	dir, err := os.MkdirTemp("", "s") // short: paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	victim := filepath.Join(dir, "s")
	const greeting = "a server of the host"
	listen(t, "unix", victim, greeting)
	for name, replace := range map[string]string{
		"a link to a socket of the host": `rm -rf "$f"; ln -s ` + victim + ` "$f"`,
		"a pipe":                         `rm -rf "$f"; mkfifo "$f"`,
		"a directory":                    `rm -rf "$f"; mkdir "$f"`,
		"nothing":                        `rm -rf "$f"`,
	} {
		b := h.backend(t)
		box := h.target(t, b, sandbox.Limits{})
		h.run(t, box, `cd `+h.o.SocketDir+` && for f in * .[!.]*; do `+replace+`; done; true`)
		h.found(OwnSocket, name, reads(t, h, box, greeting), "the server was sent to a socket of the host")
		if err := b.Destroy(h.context(t), box.Handle()); err != nil {
			t.Errorf("%s: destroy: %v", name, err)
		}
	}
}

// reads reports whether a dial of the box ends at whoever says the greeting, or
// does not end at all.
func reads(t *testing.T, h *hostile, box sandbox.Box, greeting string) bool {
	t.Helper()
	conn, err := box.Dial(h.context(t))
	if err != nil {
		return slow(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(standstill))
	buf := make([]byte, len(greeting))
	n, _ := conn.Read(buf)
	return string(buf[:n]) == greeting
}
