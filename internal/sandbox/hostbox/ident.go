package hostbox

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Ident names a process beyond the reuse of its number and beyond a reboot.
type Ident struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Boot  string `json:"boot"`  // the kernel's boot id
}

// Identify returns the identity of a live process.
func Identify(pid int) (Ident, error) {
	st, err := readStat(pid)
	if err != nil {
		return Ident{}, err
	}
	boot, err := bootID()
	return Ident{PID: pid, Start: st.start, Boot: boot}, err
}

// Alive reports whether the process still runs. A zombie does not.
func (i Ident) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != i.Boot {
		return false
	}
	st, err := readStat(i.PID)
	return err == nil && st.start == i.Start && !st.dead()
}

// signal sends sig to exactly this process; a dead one is not an error.
func (i Ident) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(i.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !i.Alive() { // checked after the open: the number may be another's by now
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// stat is what this package reads of /proc/PID/stat.
type stat struct {
	state byte
	ppid  int
	start uint64
}

func (s stat) dead() bool    { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }
func (s stat) stopped() bool { return s.state == 'T' || s.state == 't' }

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(data)
}

// parseStat reads proc_pid_stat(5). The command name may hold anything,
// brackets and line ends included: fields count from the last bracket.
func parseStat(data []byte) (stat, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, errors.New("stat: no command name")
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, errors.New("stat: too short")
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, errors.New("stat: bad parent")
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return stat{}, errors.New("stat: bad start time")
	}
	return stat{state: fields[0][0], ppid: ppid, start: start}, nil
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
