package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/tun"
)

// connect asks a box for its network device and connects it.
func (b *Backend) connect(ctx context.Context, spec sandbox.Spec) (io.Closer, error) {
	conn, err := b.place(spec.ID).dial(ctx, deviceSock)
	if err != nil {
		return nil, fmt.Errorf("network device: %w", err)
	}
	device, err := receiveDevice(ctx, conn.(*net.UnixConn))
	if err != nil {
		return nil, fmt.Errorf("network device: %w", err)
	}
	return b.options.Network(ctx, device, spec.ID, spec.Network)
}

// receiveDevice takes the descriptor that the other side sends, and closes the
// connection. It waits for a box that is paused. Anything but a network device of
// the kind that is expected is refused: it will be read and written for ever.
func receiveDevice(ctx context.Context, conn *net.UnixConn) (int, error) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*8))
	_, n, flags, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	fds, err := descriptors(oob[:n])
	if err == nil && (len(fds) != 1 || flags&unix.MSG_CTRUNC != 0) {
		err = fmt.Errorf("%d descriptors instead of one", len(fds))
	}
	if err == nil {
		err = tun.Check(fds[0])
	}
	if err != nil {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return 0, err
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// descriptors returns those of control messages.
func descriptors(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// rightsTo is the control message that carries files.
func rightsTo(files []*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return unix.UnixRights(fds...)
}
