package sandboxd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"parley/internal/tool"
)

const (
	maxListening   = 1000    // ports of one answer
	maxSocketTable = 8 << 20 // bytes read of one of the kernel's lists: 50,000 sockets
	maxListenBody  = 256 << 10
)

// listenState is TCP_LISTEN as the kernel prints it (proc_pid_net(5)).
const listenState = "0A"

func (d *daemon) listenPorts(w http.ResponseWriter, _ *http.Request) error {
	found := map[int]tool.ListeningPort{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if err := readSockets(path, found); err != nil {
			return err
		}
	}
	delete(found, d.own)
	return writeJSON(w, sortedPorts(found))
}

// readSockets adds what listens by one of the kernel's lists. A machine without
// IPv6 has no list of it.
func readSockets(path string, found map[int]tool.ListeningPort) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return addListening(io.LimitReader(f, maxSocketTable), found)
}

// addListening adds the listening sockets of a list that DialPort reaches. Lines
// that make no sense are left out.
func addListening(list io.Reader, found map[int]tool.ListeningPort) error {
	lines := bufio.NewReaderSize(list, 4<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if port, ok := listening(string(line)); ok {
			if there, twice := found[port.Port]; twice {
				port.Loopback = port.Loopback && there.Loopback
			}
			found[port.Port] = port
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// listening reads one line of /proc/net/tcp or tcp6: number, local address, remote
// address, state, queues, timer, retransmits, user.
func listening(line string) (tool.ListeningPort, bool) {
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[3] != listenState {
		return tool.ListeningPort{}, false
	}
	local, ok := socketAddress(fields[1])
	uid, err := strconv.ParseUint(fields[7], 10, 32)
	if !ok || err != nil || local.Port() == 0 {
		return tool.ListeningPort{}, false
	}
	addr := local.Addr()
	loopback := addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || addr == netip.IPv6Loopback()
	if !loopback && !addr.IsUnspecified() {
		return tool.ListeningPort{}, false // DialPort does not reach it
	}
	return tool.ListeningPort{Port: int(local.Port()), Loopback: loopback, UID: int64(uid)}, true
}

// socketAddress reads "0100007F:1F90": the address as the kernel holds it, in words
// of 32 bits of the machine's byte order, and the port, both hexadecimal.
func socketAddress(text string) (netip.AddrPort, bool) {
	host, digits, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(digits, 16, 16)
	if err != nil || len(digits) != 4 {
		return netip.AddrPort{}, false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return netip.AddrPort{}, false
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), true
}

func sortedPorts(found map[int]tool.ListeningPort) []tool.ListeningPort {
	all := make([]tool.ListeningPort, 0, len(found))
	for _, p := range found {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b tool.ListeningPort) int { return cmp.Compare(a.Port, b.Port) })
	return all[:min(len(all), maxListening)]
}

// portOf returns the port of a TCP address, 0 of any other.
func portOf(addr net.Addr) int {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// ListeningPorts lists the TCP ports that programs of the sandbox listen on and
// DialPort reaches, ascending: those on every address, 127.0.0.1 or ::1. Unsupported
// if the daemon is of a version that cannot tell.
func (c *Client) ListeningPorts(ctx context.Context) ([]tool.ListeningPort, error) {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: "/ports", repeatable: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxListenBody+1))
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return decodeListening(body)
}

// decodeListening reads a daemon's answer, and believes nothing that cannot be.
func decodeListening(body []byte) ([]tool.ListeningPort, error) {
	if len(body) > maxListenBody {
		return nil, badAnswer(errors.New("the list of ports is too long"))
	}
	var list []tool.ListeningPort
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, badAnswer(err)
	}
	found := map[int]tool.ListeningPort{}
	for _, p := range list {
		if p.Port < 1 || p.Port > 0xffff || p.UID < 0 {
			return nil, badAnswer(errors.New("there is no such port"))
		}
		found[p.Port] = p
	}
	return sortedPorts(found), nil
}
