package local

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
)

// namespaces are what every box has of its own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// spawn gets the first process of a box, in its namespaces; it waits for orders.
func (d *driver) spawn(dir *hostbox.Dir) (*hostbox.Child, error) {
	if child := d.spare.take(); child != nil {
		if child.Settle(dir) == nil {
			return child, nil
		}
		child.Abort() // it was killed meanwhile: the box gets another one
	}
	return d.first(stageEnter).Start(dir)
}

// first describes a first process.
func (d *driver) first(stage string) hostbox.Spawn {
	attr := &syscall.SysProcAttr{Cloneflags: namespaces}
	if d.mode.ranged() {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: d.mode.base, Size: idCount}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = ids, ids, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	} else {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	args := append(append([]string{}, d.options.InitArgs...), stage)
	return hostbox.Spawn{Exe: d.exe, Args: args, Env: startEnv, Attr: attr}
}

// spare is a first process that was started before a box needs it: the namespaces
// and the start of the program are most of what a start takes. Nothing of it is on
// disk, and it is in no group: it ends when the server does, however that ends.
//
// It has the host's mounts as they were when it started. So it is only for boxes
// that get all they show from the server, as detached mounts.
type spare struct {
	start func() (*hostbox.Child, error) // nil: there are no spare ones
	wg    sync.WaitGroup

	mu      sync.Mutex
	child   *hostbox.Child // nil: none is there
	filling bool
	closed  bool
}

// take returns the spare process, nil if there is none. It is the caller's.
func (s *spare) take() *hostbox.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	child := s.child
	s.child = nil
	return child
}

// fill starts one in the background, if none is there. Where that fails boxes
// start without, and say what is wrong.
func (s *spare) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil || s.closed || s.filling || s.child != nil {
		return
	}
	s.filling = true
	s.wg.Go(func() {
		child, err := s.start()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.filling = false
		if err == nil {
			s.child = child
		}
	})
}

// close ends the spare process.
func (s *spare) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
	if child := s.take(); child != nil {
		child.Abort()
	}
}
