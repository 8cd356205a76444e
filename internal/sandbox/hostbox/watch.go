package hostbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watch waits for the death of a process, child of this one or not, without
// holding a thread.
type watch struct {
	id    Ident
	pidfd *os.File
	dead  chan struct{} // closed when the process is dead
	ended chan struct{} // closed when the goroutine has ended
}

// newWatch starts to watch; an error says that the process is dead already or
// cannot be watched.
func newWatch(id Ident) (*watch, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	w := &watch{id: id, pidfd: os.NewFile(uintptr(fd), "pidfd"), dead: make(chan struct{}), ended: make(chan struct{})}
	conn, err := w.pidfd.SyscallConn()
	if err == nil && !id.Alive() {
		reap(fd)
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, errors.Join(err, w.pidfd.Close())
	}
	go func() {
		defer close(w.ended)
		if conn.Read(exited) == nil {
			close(w.dead)
		}
	}()
	return w, nil
}

// exited reports whether the process of the pidfd is dead, and takes its exit
// status if it was our child, so that no zombie is left.
func exited(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return false
	}
	reap(int(fd))
	return true
}

func reap(pidfd int) {
	// ECHILD: not our child, its parent reaps it.
	_ = unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
}

// reap takes the exit status of a dead child. The number still is that child's as
// long as it is a zombie.
func (i Ident) reap() {
	if st, err := readStat(i.PID); err == nil && st.start == i.Start && st.dead() {
		_, _ = unix.Wait4(i.PID, nil, unix.WNOHANG, nil) // ECHILD: not our child
	}
}

// close ends the watch and joins its goroutine. The process is left alone; if it
// is dead already, dead is closed all the same.
func (w *watch) close() {
	_ = w.pidfd.Close()
	<-w.ended
	select {
	case <-w.dead:
	default:
		if !w.id.Alive() {
			w.id.reap()
			close(w.dead)
		}
	}
}
