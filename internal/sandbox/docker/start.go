package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// maxMessage bounds a message on the control socket.
const maxMessage = 96 << 10

// orders tell a first process what to become. They come with its listening
// sockets: sandboxd's, and with Outbound that of the network device.
type orders struct {
	User       string   `json:"user"` // of the image
	WorkingDir string   `json:"working_dir"`
	Writable   []string `json:"writable"` // mounts, the one with the working directory first
	OpenFiles  uint64   `json:"open_files"`
	CPUs       int      `json:"cpus"` // processors to use; 0 = all
	Outbound   bool     `json:"outbound"`
}

// facts are what a first process found out.
type facts struct {
	NoDevice string `json:"no_device"` // why there is no network device
}

// start starts the container of a box and returns when sandboxd answers and the
// network is there.
func (b *Backend) start(ctx context.Context, r record) (*Box, error) {
	ctx, cancel := context.WithTimeout(ctx, b.waits.start)
	defer cancel()
	name, p := b.container(r.Spec.ID), b.place(r.Spec.ID)
	s, err := p.listen(b.outbound(r.Spec))
	if err != nil {
		return nil, err
	}
	defer s.close(p)
	greeted := make(chan error, 1)
	hands, hang := context.WithCancel(ctx)
	defer hang()
	go func() {
		greeted <- s.greet(hands, b.orders(r), hostbox.Inside{WorkingDir: r.Spec.WorkingDir, Env: r.Env})
	}()
	if err := b.engine.start(ctx, name); err != nil {
		hang()
		return nil, b.notStarted(errors.Join(err, benign(<-greeted)), r.Spec)
	}
	if err := b.awaitGreeting(ctx, name, greeted, hang); err != nil {
		return nil, notServed(err, r.Spec)
	}
	c, err := b.look(ctx, r.Spec.ID)
	if err != nil {
		return nil, err
	}
	var network io.Closer
	if b.outbound(r.Spec) {
		if network, err = b.connect(ctx, r.Spec); err != nil {
			return nil, err
		}
	}
	return b.attach(r.Spec, c, network), nil
}

// benign leaves out that a conversation was broken off: that was us.
func benign(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// awaitGreeting waits until the first process serves, or has died.
func (b *Backend) awaitGreeting(ctx context.Context, name string, greeted <-chan error, hang func()) error {
	watch, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var watcher sync.WaitGroup
	watcher.Go(func() { ended <- b.engine.wait(watch, name) })
	defer watcher.Wait()
	defer stop()
	var err error
	select {
	case err = <-greeted:
	case broken := <-ended:
		if broken == nil {
			hang() // nobody is there to answer
		}
		err = <-greeted
		if broken == nil && fault.KindOf(err) != fault.Unsupported { // else it said why
			err = errDied
		}
	}
	if errors.Is(err, errDied) {
		return died(b.engine.logs(ctx, name))
	}
	return err
}

// notStarted says what an engine's refusal to start a container means.
func (b *Backend) notStarted(err error, spec sandbox.Spec) error {
	var no *refusal
	if !errors.As(err, &no) {
		return err
	}
	text := strings.ToLower(no.message)
	switch {
	case strings.Contains(text, tunPath):
		return noDevice(words(err))
	case spec.Runtime != "" && strings.Contains(text, "runtime"):
		return badRuntime(err, spec.Runtime)
	}
	return err
}

// notServed says what it may mean that the first process ran and did not serve.
func notServed(err error, spec sandbox.Spec) error {
	var known *fault.Error
	if spec.Runtime == "" || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Wrap(err, fault.Unsupported, codeRuntime, "The sandbox does not come up with the runtime %q.", quotable(spec.Runtime)).
		WithHint("Runtimes with a kernel of their own (runsc, kata) take no sockets of the server. For gVisor use the gvisor backend.")
}

func noDevice(why string) error {
	return fault.New(fault.Unsupported, "sandbox_network", "The sandbox cannot be connected under a network policy, and without one it is not connected: %s.", why).
		WithHint("Load the kernel's tun module on the engine's machine (modprobe tun), or use the network policy none.")
}

// orders are for the first process of a box.
func (b *Backend) orders(r record) orders {
	o := orders{User: r.User, WorkingDir: r.Spec.WorkingDir, OpenFiles: r.Spec.Limits.OpenFiles, Outbound: b.outbound(r.Spec)}
	if o.OpenFiles == 0 {
		o.OpenFiles = defaultOpenFiles
	}
	if cpus := r.Spec.Limits.CPUs; cpus > 0 {
		o.CPUs = int(min(cpus, 1<<16))
		if float64(o.CPUs) < cpus {
			o.CPUs++
		}
	}
	for _, m := range r.Spec.Mounts {
		switch {
		case m.ReadOnly:
		case within(r.Spec.WorkingDir, m.Target):
			o.Writable = append([]string{m.Target}, o.Writable...)
		default:
			o.Writable = append(o.Writable, m.Target)
		}
	}
	return o
}

// greet accepts the first process, hands it its orders and sockets, and returns
// when it serves.
func (s *sockets) greet(ctx context.Context, o orders, in hostbox.Inside) error {
	stop := context.AfterFunc(ctx, func() { _ = s.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := s.control.AcceptUnix()
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	defer func() { _ = conn.Close() }()
	unhook := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer unhook()
	files := slices.DeleteFunc([]*os.File{s.serve, s.device}, func(f *os.File) bool { return f == nil })
	if err := send(conn, o, files...); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err := send(conn, in); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err := awaitReady(conn); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

func send(conn *net.UnixConn, v any, files ...*os.File) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("control message of %d bytes", len(data))
	}
	_, _, err = conn.WriteMsgUnix(data, rightsTo(files), nil)
	return hungUp(err)
}

// awaitReady reads what the first process says until it serves.
func awaitReady(conn *net.UnixConn) error {
	const most = 16 // notes; two are usual
	buf := make([]byte, maxMessage)
	for range most {
		n, err := conn.Read(buf)
		if err == nil && n == 0 {
			return errDied
		}
		if err != nil {
			return hungUp(err)
		}
		done, err := judge(buf[:n])
		if done || err != nil {
			return err
		}
	}
	return errors.New("the first process talks and does not serve")
}

// hungUp tells the end of the first process from other failures of the control
// socket: what it had not read yet makes the end a reset.
func hungUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return errDied
	}
	return err
}

// judge reads a note; done says that the first process serves.
func judge(data []byte) (done bool, err error) {
	var note hostbox.Note
	if err := json.Unmarshal(data, &note); err != nil {
		return false, fmt.Errorf("the first process: %w", err)
	}
	if note.Facts != nil {
		var f facts
		if err := json.Unmarshal(note.Facts, &f); err != nil {
			return false, fmt.Errorf("the first process: %w", err)
		}
		if f.NoDevice != "" {
			return false, noDevice(quotable(f.NoDevice))
		}
	}
	if note.Error != "" {
		return false, fmt.Errorf("the first process: %s", quotable(note.Error))
	}
	return note.Ready, nil
}
