package sandboxtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
)

// plants are what the attack program is to look for; it reads them as JSON.
type plants struct {
	Marker       string
	Files        []string
	Writable     []string
	Dirs         []string
	Shadow       string
	Abstract     string
	Socket       string
	Addresses    []string
	Private      []string
	Capabilities uint64
}

// planted are the plants and what lives for them.
type planted struct {
	plants
	canary *exec.Cmd
	dead   chan struct{} // closed when the canary is
}

// plant puts files, a process, sockets, a key, an open descriptor and a variable
// on the host that nobody inside may find.
func (h *hostile) plant(t *testing.T) *planted {
	t.Helper()
	marker := "canary-" + strings.ToLower(rand.Text()[:12]) // short: it stands in the path of a socket
	p := &planted{plants: plants{Marker: marker, Capabilities: h.capabilities(), Abstract: marker, Shadow: shadowLine(),
		Private: []string{"169.254.169.254:80", "10.0.2.2:22", "10.255.255.254:80", "[fd00:ec2::254]:80"}}}
	t.Setenv("PARLEY_CANARY", marker)
	dir, err := os.MkdirTemp("", marker) // of nobody but the server
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	places := []string{dir}
	if h.o.DataDir != "" {
		places = append(places, h.o.DataDir)
		p.Dirs = append(p.Dirs, h.o.DataDir)
	}
	for _, place := range places {
		for _, mode := range []os.FileMode{0o644, 0o600, 0o666} {
			p.file(t, filepath.Join(place, fmt.Sprintf(".%s-%o", marker, mode)), mode)
		}
	}
	p.leak(t, p.Files[0])
	p.process(t)
	p.sockets(t, filepath.Join(dir, "s"))
	return p
}

// file makes a file with the marker in its name and in it.
func (p *planted) file(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	err := errors.Join(os.WriteFile(name, []byte(p.Marker+"\n"), 0o600), os.Chmod(name, mode))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(name) })
	p.Files = append(p.Files, name)
	if mode == 0o666 {
		p.Writable = append(p.Writable, name)
	}
}

// leak opens a file as a careless parent of the server would have.
func (p *planted) leak(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}

// process starts a program with the marker in its arguments and environment.
func (p *planted) process(t *testing.T) {
	t.Helper()
	p.canary = exec.Command("sh", "-c", "while :; do sleep 1; done", p.Marker)
	if err := p.canary.Start(); err != nil {
		t.Fatal(err)
	}
	p.dead = make(chan struct{})
	go func() {
		defer close(p.dead)
		_ = p.canary.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = p.canary.Process.Kill()
		<-p.dead
	})
}

// sockets listens where nobody inside may connect, and says the marker.
func (p *planted) sockets(t *testing.T, path string) {
	t.Helper()
	p.Socket = path
	listen(t, "unix", path, p.Marker)
	listen(t, "unix", "@"+p.Abstract, p.Marker)
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	p.Addresses = append(p.Addresses, listen(t, "tcp", "127.0.0.1:0", p.Marker))
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			p.Addresses = append(p.Addresses, listen(t, "tcp", net.JoinHostPort(ip.IP.String(), "0"), p.Marker))
		}
	}
}

// listen greets whoever connects, and returns its address.
func listen(t *testing.T, network, address, greeting string) string {
	t.Helper()
	lis, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, greeting)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = lis.Close()
		<-ended
	})
	return lis.Addr().String()
}

// shadowLine is a line of the host's password file that holds a hash; "" if there
// is none or it cannot be read.
func shadowLine() string {
	data, err := os.ReadFile("/etc/shadow")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(line, ":"); len(fields) > 1 && strings.HasPrefix(fields[1], "$") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// signals tries to kill the canary by its number on the host.
func (h *hostile) signals(t *testing.T, box sandbox.Box, p *planted) {
	pid := p.canary.Process.Pid
	_, _ = h.Exec(h.context(t), box, "sh", "-c", fmt.Sprintf("kill -KILL %d", pid))
	wait := time.Duration(0)
	if h.o.Open[HostProcesses] != "" { // its death is on the way
		wait = h.Patience
	}
	killed := false
	select {
	case <-p.dead:
		killed = true
	case <-time.After(wait):
	}
	h.found(HostProcesses, "kill the canary", killed, "a process of the host was killed")
}
