package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/seccomp"
)

// Stages of a box's first process, as arguments after InitArgs.
const (
	stageEnter = "enter" // has the rights that the container was given
	stageServe = "serve" // has what programs inside have: runs the daemon
)

// Numbers of the descriptors that the second stage gets, beside hostbox.FDControl.
const (
	fdServe  = 3
	fdDevice = 5 // the socket that hands out the device
	fdTun    = 6
)

// Init is the life of a box's first process; args are what follows InitArgs on
// the command line. It never returns. It must be called from the main goroutine
// before anything else is started.
//
// The first stage takes its orders, makes the network device, gives up its rights
// and executes the same program again, so that every thread of the second is
// without them. It trusts nothing of the image, and runs nothing of it.
func Init(args []string, serve hostbox.ServeFunc) {
	switch {
	case len(args) == 1 && args[0] == stageEnter:
		runtime.LockOSThread() // rights belong to a thread
		enter()
	case len(args) == 4 && args[0] == stageServe:
		beDaemon(account{Name: args[1], Home: args[2]}, args[3] == "device", serve)
	}
	fmt.Fprintln(os.Stderr, "this command is for the server's own use")
	os.Exit(2)
}

// enter is the first stage. It returns never.
func enter() {
	control, err := callServer()
	if err == nil {
		e := entry{control: control}
		if err = e.run(); err != nil {
			e.say(hostbox.Note{Error: err.Error()})
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// callServer connects to the server that starts the box.
func callServer() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(runPath, controlSock)})
	return fd, os.NewSyscallError("connect to the server", err)
}

// entry is what the first stage has.
type entry struct {
	control int
	fds     []int
	tun     int // 0: none
	orders  orders
}

func (e *entry) run() error {
	if err := e.receive(); err != nil {
		return err
	}
	if e.orders.Outbound {
		tun, err := openTun()
		if err != nil {
			e.fact(facts{NoDevice: err.Error()})
			return err
		}
		e.tun = tun
	}
	if err := nameServers(e.orders.Outbound); err != nil {
		return err
	}
	who := e.who()
	if err := e.furnish(who); err != nil {
		return err
	}
	limitOpenFiles(e.orders.OpenFiles)
	useProcessors(e.orders.CPUs)
	if err := dropRights(who, seccomp.Options{NoSetID: len(e.orders.Writable) > 0}); err != nil {
		return err
	}
	return e.serve(who)
}

// receive takes the orders and the listening sockets.
func (e *entry) receive() error {
	buf, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*8))
	n, oobn, flags, _, err := unix.Recvmsg(e.control, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("recvmsg", err)
	}
	if n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return errors.New("the server left, or its message is too long")
	}
	if e.fds, err = descriptors(oob[:oobn]); err != nil {
		return err
	}
	if err := json.Unmarshal(buf[:n], &e.orders); err != nil {
		return err
	}
	want := 1
	if e.orders.Outbound {
		want = 2
	}
	if len(e.fds) != want {
		return fmt.Errorf("%d descriptors came, not %d", len(e.fds), want)
	}
	return nil
}

func (e *entry) say(n hostbox.Note) {
	if data, err := json.Marshal(n); err == nil {
		_ = unix.Send(e.control, data, unix.MSG_NOSIGNAL)
	}
}

func (e *entry) fact(f facts) {
	if data, err := json.Marshal(f); err == nil {
		e.say(hostbox.Note{Facts: data})
	}
}

// who is the account of programs inside: the owner of the directory that is
// mounted writable, so that what they make there is that owner's; else the
// image's user.
func (e *entry) who() account {
	users := readAccounts()
	for _, path := range e.orders.Writable {
		var st unix.Stat_t
		// An owner without a number here is shown as nobody.
		if unix.Stat(path, &st) == nil && st.Uid != nobody {
			return users.byID(st.Uid, st.Gid)
		}
	}
	return users.find(e.orders.User)
}

// furnish makes the working and the home directory.
func (e *entry) furnish(who account) error {
	for _, dir := range []string{e.orders.WorkingDir, who.Home} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Lchown(dir, int(who.UID), int(who.GID)); err != nil {
			return err
		}
	}
	return nil
}

// limitOpenFiles sets the limit, or leaves the inherited one if that is lower:
// the engine may not raise it.
func limitOpenFiles(n uint64) {
	var old unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &old) == nil && old.Max < n {
		n = old.Max
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}) // lowering is always allowed
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// useProcessors narrows the processors to as many as the limit on CPU time is
// worth, so that programs which count them start as many threads. Which ones is
// left to chance. It is no limit, the control group is.
func useProcessors(n int) {
	var all, some unix.CPUSet
	if n <= 0 || unix.SchedGetaffinity(0, &all) != nil || all.Count() <= n {
		return
	}
	var list []int
	for i := range len(all) * 64 {
		if all.IsSet(i) {
			list = append(list, i)
		}
	}
	first := rand.IntN(len(list))
	for i := range n {
		some.Set(list[(first+i)%len(list)])
	}
	_ = unix.SchedSetaffinity(0, &some)
}

// serve executes the second stage. It returns on failure only.
func (e *entry) serve(who account) error {
	if err := os.Chdir(e.orders.WorkingDir); err != nil {
		return err
	}
	moves := []struct{ from, to int }{{e.fds[0], fdServe}, {e.control, hostbox.FDControl}}
	kind := "none"
	if e.tun > 0 {
		moves = append(moves, struct{ from, to int }{e.fds[1], fdDevice}, struct{ from, to int }{e.tun, fdTun})
		kind = "device"
	}
	const away = 64 // above every number that is used here or by the runtime
	for i := range moves {
		fd, err := unix.FcntlInt(uintptr(moves[i].from), unix.F_DUPFD_CLOEXEC, away)
		if err != nil {
			return os.NewSyscallError("dup", err)
		}
		moves[i].from = fd
	}
	e.control = moves[1].from
	for _, m := range moves {
		if err := unix.Dup3(m.from, m.to, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	args := append(append([]string{}, os.Args[:len(os.Args)-1]...), stageServe, who.Name, who.Home, kind)
	return os.NewSyscallError("exec", unix.Exec("/proc/self/exe", args, []string{}))
}

// beDaemon is the second stage.
func beDaemon(who account, device bool, serve hostbox.ServeFunc) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // its descriptors are not for programs inside
	control := hostbox.OpenControl()
	if device {
		unix.CloseOnExec(fdDevice)
		unix.CloseOnExec(fdTun)
		lis, err := deviceListener()
		if err != nil {
			control.Fail(err)
		}
		go handOut(lis)
	}
	if err := hostbox.RunDaemon(control, fdServe, who.complete(serve)); err != nil {
		control.Fail(err)
	}
	os.Exit(0)
}

func deviceListener() (*net.UnixListener, error) {
	f := os.NewFile(fdDevice, "device")
	lis, err := net.FileListener(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	unixLis, ok := lis.(*net.UnixListener)
	if !ok {
		return nil, errors.New("the device's socket is of another kind")
	}
	return unixLis, nil
}

// handOut gives the network device to every server that asks: a restarted one
// asks again. Only the server can reach the socket.
func handOut(lis *net.UnixListener) {
	for {
		conn, err := lis.AcceptUnix()
		if err != nil {
			return
		}
		_, _, _ = conn.WriteMsgUnix([]byte{1}, unix.UnixRights(fdTun), nil)
		_ = conn.Close()
	}
}

// nameServers writes who answers questions for names. The engine's own files name
// servers of the host, which boxes do not reach.
func nameServers(outbound bool) error {
	resolv := "# offline\n"
	if outbound {
		resolv = "nameserver " + nameServer + "\n"
	}
	hosts := "127.0.0.1\tlocalhost " + hostname + "\n::1\tlocalhost\n"
	for path, text := range map[string]string{"/etc/resolv.conf": resolv, "/etc/hosts": hosts} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
