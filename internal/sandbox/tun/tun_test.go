package tun_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/tun"
)

// insideArg makes this test binary a program in a network namespace of its own.
const insideArg = "inside"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == insideArg {
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// furnish makes what a box has and looks at it.
func furnish() error {
	if err := tun.Loopback(); err != nil {
		return err
	}
	fd, err := unix.Open(tun.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("no device: %w", err)
	}
	if err := tun.Check(fd); err == nil {
		return fmt.Errorf("a node that is no device yet was taken for one")
	}
	if err := tun.Make(fd, "tun0"); err != nil {
		return err
	}
	if err := tun.Check(fd); err != nil {
		return err
	}
	if err := tun.Route("tun0", tun.MTU); err != nil {
		return err
	}
	device, err := net.InterfaceByName("tun0")
	if err != nil {
		return err
	}
	addrs, err := device.Addrs()
	if err != nil || len(addrs) == 0 || addrs[0].String() != "10.0.2.100/24" || device.MTU != tun.MTU {
		return fmt.Errorf("addresses %v, MTU %d, %w", addrs, device.MTU, err)
	}
	if _, err := net.Dial("udp", "203.0.113.1:9"); err != nil {
		return fmt.Errorf("no way out: %w", err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return conn.Close()
}

func TestFurnish(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", insideArg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "no device") {
		t.Skipf("this user may not make network devices: %s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCheckRefuses what is no network device.
func TestCheckRefuses(t *testing.T) {
	for _, path := range []string{"/dev/null", "/etc/passwd", t.TempDir()} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := tun.Check(int(f.Fd())); err == nil {
			t.Errorf("%s was taken for a network device", path)
		}
		_ = f.Close()
	}
}
