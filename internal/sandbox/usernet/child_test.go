package usernet_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"parley/internal/sandbox/usernet"
)

// The guest is a re-executed test binary in a network namespace of its own. It
// makes the TUN device, hands its descriptor over and then does what it is
// told: one JSON command per line, one JSON answer per line.
const guestVar = "USERNET_TEST_GUEST"

// The kinds of device a guest makes, the values of guestVar.
const (
	deviceTUN = "tun"
	deviceTAP = "tap"
)

type command struct {
	Do    string // what, see guestActions
	Addr  string
	Size  int
	Count int
	Name  string
	Net   string
}

type answer struct {
	Text  string
	Error string
	Errno syscall.Errno // 0 = none
}

// guest is the parent's side.
type guest struct {
	t    testing.TB
	tun  int
	in   io.WriteCloser
	out  *bufio.Scanner
	lock sync.Mutex
}

func newGuest(t testing.TB) *guest { t.Helper(); return newGuestWith(t, deviceTUN) }

func newGuestWith(t testing.TB, device string) *guest {
	t.Helper()
	if dev, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		t.Skipf("SKIPPED: this user may not use /dev/net/tun: %v", err)
	} else {
		_ = dev.Close()
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), guestVar+"="+device)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
			t.Skipf("this machine does not allow user namespaces: %v", err)
		}
		t.Fatal(err)
	}
	_ = theirs.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	g := &guest{t: t, in: in, out: bufio.NewScanner(out)}
	g.tun, err = receiveFD(pair[0])
	_ = unix.Close(pair[0])
	if err != nil {
		t.Fatalf("the guest made no device: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(g.tun) })
	return g
}

func receiveFD(sock int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return -1, fmt.Errorf("%d control messages: %w", len(msgs), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// run sends a command and waits for the answer.
func (g *guest) run(c command) answer {
	g.t.Helper()
	g.lock.Lock()
	defer g.lock.Unlock()
	line, err := json.Marshal(c)
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := g.in.Write(append(line, '\n')); err != nil {
		g.t.Fatal(err)
	}
	if !g.out.Scan() {
		g.t.Fatalf("the guest died: %v", g.out.Err())
	}
	var a answer
	if err := json.Unmarshal(g.out.Bytes(), &a); err != nil {
		g.t.Fatalf("answer %q: %v", g.out.Text(), err)
	}
	return a
}

// must is run for commands that have to work.
func (g *guest) must(c command) string {
	g.t.Helper()
	a := g.run(c)
	if a.Error != "" {
		g.t.Fatalf("%+v: %s", c, a.Error)
	}
	return a.Text
}

var guestActions = map[string]func(command) (string, error){
	"tcp-echo": guestTCPEcho, "tcp-dial": guestTCPDial, "tcp-refused": guestTCPRefused, "tcp-read": guestTCPRead, "tcp-late": guestTCPLate,
	"tcp-many": guestTCPMany, "tcp-hold": guestTCPHold, "tcp-held": guestTCPHeld, "tcp-load": guestTCPLoad,
	"udp-echo": guestUDPEcho, "udp-refused": guestUDPRefused, "dns": guestDNS, "dns-raw": guestDNSRaw, "ping": guestPing,
}

func guestMain() error {
	tun, err := makeTUN()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(tun)
	if err := unix.Sendmsg(3, []byte{0}, rights, nil, 0); err != nil {
		return err
	}
	_ = unix.Close(3)
	_ = unix.Close(tun) // the parent has it
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		text, err := guestActions[c.Do](c)
		a := answer{Text: text}
		if err != nil {
			a.Error = err.Error()
			errors.As(err, &a.Errno)
		}
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return lines.Err()
}

// makeTUN makes and configures the device, lo and the default route.
func makeTUN() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open tun: %w", err)
	}
	const name = "tun0"
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	kind := uint16(unix.IFF_TUN)
	if os.Getenv(guestVar) == deviceTAP {
		kind = unix.IFF_TAP
	}
	ifr.SetUint16(kind | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return -1, fmt.Errorf("make tun0: %w", err)
	}
	if err := configure(name); err != nil {
		return -1, err
	}
	return fd, addDefaultRoute()
}

func configure(name string) error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(sock) }()
	set := func(dev string, req uint, fill func(*unix.Ifreq) error) error {
		ifr, err := unix.NewIfreq(dev)
		if err == nil {
			err = fill(ifr)
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, req, ifr)
		}
		if err != nil {
			return fmt.Errorf("configure %s (%#x): %w", dev, req, err)
		}
		return nil
	}
	addr := netip.MustParseAddr(usernet.Guest).As4()
	mask := net.CIDRMask(usernet.Prefix, 32)
	up := func(i *unix.Ifreq) error { i.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	return errors.Join(
		set(name, unix.SIOCSIFADDR, func(i *unix.Ifreq) error { return i.SetInet4Addr(addr[:]) }),
		set(name, unix.SIOCSIFNETMASK, func(i *unix.Ifreq) error { return i.SetInet4Addr(mask) }),
		set(name, unix.SIOCSIFMTU, func(i *unix.Ifreq) error { i.SetUint32(usernet.MTU); return nil }),
		set(name, unix.SIOCSIFFLAGS, up), set("lo", unix.SIOCSIFFLAGS, up))
}

// addDefaultRoute sends one RTM_NEWROUTE.
func addDefaultRoute() error {
	sock, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(sock) }()
	gateway := netip.MustParseAddr(usernet.Gateway).As4()
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.NativeEndian, v) }
	const size = unix.SizeofNlMsghdr + unix.SizeofRtMsg + 8
	put(unix.NlMsghdr{Len: size, Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_REQUEST | unix.NLM_F_CREATE | unix.NLM_F_ACK})
	put(unix.RtMsg{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT,
		Scope: unix.RT_SCOPE_UNIVERSE, Type: unix.RTN_UNICAST})
	put(unix.RtAttr{Len: 8, Type: unix.RTA_GATEWAY})
	put(gateway)
	if err := unix.Sendto(sock, b.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(sock, reply, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("route: %d bytes: %w", n, err)
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return fmt.Errorf("route: %w", syscall.Errno(-code))
	}
	return nil
}

const patience = 20 * time.Second

func dialGuest(network, addr string) (net.Conn, error) {
	c, err := net.DialTimeout(network, addr, patience)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func digest(b []byte) string {
	h := sha256.Sum256(b)
	return fmt.Sprint(len(b), " ", hex.EncodeToString(h[:8]))
}

// guestTCPEcho sends Size bytes, ends its half, and reads everything back.
func guestTCPEcho(c command) (string, error) {
	conn, err := dialGuest("tcp", c.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(pattern(c.Size))
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	return digest(got), errors.Join(err, <-sent)
}

func guestTCPDial(c command) (string, error) {
	conn, err := dialGuest("tcp", c.Addr)
	if err != nil {
		return "", err
	}
	return "", conn.Close()
}

// guestTCPRefused makes Count connections, all of which must be refused.
func guestTCPRefused(c command) (string, error) {
	for range c.Count {
		if conn, err := dialGuest("tcp", c.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			if err == nil {
				err = errors.Join(errors.New("it was accepted"), conn.Close())
			}
			return "", err
		}
	}
	return "", nil
}

// guestTCPRead sends a byte, then reads until the end or an error.
func guestTCPRead(c command) (string, error) {
	conn, err := dialGuest("tcp", c.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		return "", err
	}
	got, err := io.ReadAll(conn)
	return string(got), err
}

// guestTCPLate reads until the other side has ended its half, and only then
// sends.
func guestTCPLate(c command) (string, error) {
	conn, err := dialGuest("tcp", c.Addr)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	_, err = conn.Write(pattern(c.Size))
	return string(got), errors.Join(err, conn.Close())
}

// guestTCPMany makes Count echo connections at once.
func guestTCPMany(c command) (string, error) {
	errs := make([]error, c.Count)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			text, err := guestTCPEcho(c)
			if err == nil && text != digest(pattern(c.Size)) {
				err = errors.New("wrong echo: " + text)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return "", errors.Join(errs...)
}

var held []net.Conn

// guestTCPHold opens Count connections and keeps them; the answer is how many
// were accepted.
func guestTCPHold(c command) (string, error) {
	n := 0
	for range c.Count {
		conn, err := dialGuest("tcp", c.Addr)
		if err != nil {
			continue
		}
		if _, err := conn.Write([]byte("x")); err == nil {
			if _, err = io.ReadFull(conn, make([]byte, 1)); err == nil {
				n++
			}
		}
		held = append(held, conn)
	}
	return fmt.Sprint(n), nil
}

// guestTCPHeld reads from a connection that is held.
func guestTCPHeld(command) (string, error) {
	_, err := held[0].Read(make([]byte, 1))
	return "", err
}

// guestTCPLoad sends Size bytes and waits for the end; the answer is the time
// it took, in nanoseconds.
func guestTCPLoad(c command) (string, error) {
	conn, err := dialGuest("tcp", c.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Time{})
	start := time.Now()
	if c.Name == "down" {
		_, err = io.Copy(io.Discard, conn)
		return fmt.Sprint(time.Since(start).Nanoseconds()), err
	}
	chunk := make([]byte, 128<<10)
	for left := c.Size; left > 0; left -= len(chunk) {
		if _, err := conn.Write(chunk[:min(len(chunk), left)]); err != nil {
			return "", err
		}
	}
	err = conn.(*net.TCPConn).CloseWrite()
	_, readErr := io.ReadAll(conn)
	return fmt.Sprint(time.Since(start).Nanoseconds()), errors.Join(err, readErr)
}

// guestUDPEcho sends Count datagrams of Size bytes, each after the answer to
// the one before.
func guestUDPEcho(c command) (string, error) {
	conn, err := dialGuest("udp", c.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 1<<16)
	for range c.Count {
		if _, err := conn.Write(pattern(c.Size)); err != nil {
			return "", err
		}
		n, err := conn.Read(buf)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(buf[:n], pattern(c.Size)) {
			return "", fmt.Errorf("wrong echo of %d bytes", n)
		}
	}
	return conn.LocalAddr().String(), nil
}

// guestUDPRefused sends one datagram and reports what comes back.
func guestUDPRefused(c command) (string, error) {
	conn, err := dialGuest("udp", c.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("x")); err != nil {
		return "", err
	}
	_, err = conn.Read(make([]byte, 10))
	return "", err
}

func guestDNS(c command) (string, error) {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if c.Net != "" {
			network = c.Net
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(usernet.DNS, "53"))
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := r.LookupHost(ctx, c.Name)
	return strings.Join(found, " "), err
}

// guestDNSRaw sends Name (hex) to the name server and returns the answer as hex.
func guestDNSRaw(c command) (string, error) {
	query, err := hex.DecodeString(c.Name)
	if err != nil {
		return "", err
	}
	conn, err := dialGuest("udp", net.JoinHostPort(usernet.DNS, "53"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(query); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	return hex.EncodeToString(buf[:n]), err
}

// guestPing sends one echo request; Count is the patience in milliseconds.
func guestPing(c command) (string, error) {
	conn, err := icmp.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	msg, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 7, Seq: 1, Data: []byte("hi")}}).Marshal(nil)
	if err != nil {
		return "", err
	}
	if _, err := conn.WriteTo(msg, &net.IPAddr{IP: net.ParseIP(c.Addr)}); err != nil {
		return "", err
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Duration(c.Count) * time.Millisecond))
	buf := make([]byte, 1500)
	n, from, err := conn.ReadFrom(buf)
	if err != nil {
		return "", err
	}
	reply, err := icmp.ParseMessage(1, buf[:n])
	if err != nil {
		return "", err
	}
	return fmt.Sprint(reply.Type, " ", from), nil
}
