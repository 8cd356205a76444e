package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// Files of a box in its directory.
const (
	recordFile  = "spec.json"
	insideDir   = "inside"  // shown inside, read-only
	controlSock = "control" // in insideDir; exists while the box starts
	serveSock   = "sock"    // sandboxd; not shown inside
	deviceSock  = "net"     // hands out the network device; not shown inside
	memoryFile  = "meminfo" // shown inside as /proc/meminfo
)

// place is the directory of one box: what the server needs to reach it again.
// What the box is made of is the engine's.
type place struct{ path string }

// record is what a box was made from.
type record struct {
	Spec sandbox.Spec      `json:"spec"`
	Env  map[string]string `json:"env"`  // of programs: the image's and the spec's
	User string            `json:"user"` // of the image
}

func (p place) file(name string) string { return filepath.Join(p.path, name) }

// make makes an empty directory.
func (p place) make() error {
	if err := os.RemoveAll(p.path); err != nil {
		return err
	}
	if err := os.MkdirAll(p.path, 0o700); err != nil {
		return err
	}
	// The first process may have another number outside than inside.
	if err := os.Mkdir(p.file(insideDir), 0o755); err != nil {
		return err
	}
	return os.Chmod(p.file(insideDir), 0o755)
}

func (p place) remove() error { return os.RemoveAll(p.path) }

func (p place) save(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := p.file(recordFile + ".new")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p.file(recordFile))
}

func (p place) load() (record, error) {
	var r record
	data, err := os.ReadFile(p.file(recordFile))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fault.Wrap(err, fault.NotFound, codeNotFound, "Nothing usable is left of the sandbox.")
	}
	return r, nil
}

// sockets are what a box is started with, listening.
type sockets struct {
	control *net.UnixListener // of packets; the first process connects to it
	serve   *os.File          // nil: the first process makes its own
	device  *os.File          // nil: the box has no network device
}

// listen makes the sockets of a box that does not run.
func (p place) listen(device bool) (*sockets, error) {
	s := &sockets{}
	control, err := p.bind("unixpacket", filepath.Join(insideDir, controlSock), 0o666)
	if err != nil {
		return nil, err
	}
	s.control = control
	if s.serve, err = p.listenFile(serveSock); err == nil && device {
		s.device, err = p.listenFile(deviceSock)
	}
	if err != nil {
		s.close(p)
		return nil, err
	}
	return s, nil
}

// listenFile makes a listening socket to be handed to the first process.
func (p place) listenFile(name string) (*os.File, error) {
	lis, err := p.bind("unix", name, 0o600)
	if err != nil {
		return nil, err
	}
	f, err := lis.File()
	return f, errors.Join(err, lis.Close())
}

func (p place) bind(network, name string, mode os.FileMode) (lis *net.UnixListener, err error) {
	if err := os.Remove(p.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = hostbox.WithShortPath(p.file(name), func(path string) error {
		lis, err = net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		return err
	})
	if err != nil {
		return nil, err
	}
	lis.SetUnlinkOnClose(false)
	if err := os.Chmod(p.file(name), mode); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return lis, nil
}

// close lets go of the sockets: those of a box that runs are the box's. The
// control socket is removed, so that nothing inside can connect to it.
func (s *sockets) close(p place) {
	_ = s.control.Close()
	_ = os.Remove(p.file(filepath.Join(insideDir, controlSock)))
	for _, f := range []*os.File{s.serve, s.device} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// dial connects to a socket of the box.
func (p place) dial(ctx context.Context, name string) (net.Conn, error) {
	return dialUnix(ctx, p.file(name))
}

func dialUnix(ctx context.Context, path string) (conn net.Conn, err error) {
	err = hostbox.WithShortPath(path, func(path string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// nobodyListens reports whether a dial failed because the first process, the
// only one to hold the listening socket, is dead.
func nobodyListens(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
