package usernet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

func FuzzWelcome(f *testing.F) {
	ping := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 2, 100, 10, 0, 2, 2, 8, 0, 0, 0, 0, 0, 0, 0}
	f.Add(ping)
	f.Add(ping[:19])
	f.Add([]byte{0x60, 0, 0, 0})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if !welcome(packet) {
			return
		}
		from := netip.AddrFrom4([4]byte(packet[12:16]))
		if packet[0]>>4 != 4 || !subnet.Contains(from) || from == gatewayAddr {
			t.Errorf("a packet from %v was let in", from)
		}
		if to := netip.AddrFrom4([4]byte(packet[16:20])); packet[9] == 1 && to != gatewayAddr {
			t.Errorf("a ping of %v was let in", to)
		}
	})
}

func FuzzServerFailure(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3f"))
	f.Add(make([]byte, dnsHeaderSize))
	f.Fuzz(func(t *testing.T, query []byte) {
		if len(query) < dnsHeaderSize {
			return
		}
		before := bytes.Clone(query)
		a := serverFailure(query)
		if !bytes.Equal(before, query) {
			t.Error("the query was changed")
		}
		if len(a) > len(query) || !bytes.Equal(a[:2], query[:2]) || a[2]&0x80 == 0 || a[3]&0xf != 2 {
			t.Errorf("% x is no failure for % x", a, query)
		}
		if questions := binary.BigEndian.Uint16(a[4:]); (questions == 1) != (len(a) > dnsHeaderSize) {
			t.Errorf("%d questions in %d bytes", questions, len(a))
		}
	})
}

func FuzzParseServers(f *testing.F) {
	f.Add([]byte("nameserver 192.0.2.1\n#x\nnameserver fe80::1%eth0\nnameserver\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		servers := parseServers(text)
		if len(servers) == 0 {
			t.Error("no server")
		}
		for _, s := range servers {
			if _, err := netip.ParseAddrPort(s); err != nil {
				t.Errorf("server %q: %v", s, err)
			}
		}
	})
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte{0, 2, 'a', 'b'})
	f.Fuzz(func(t *testing.T, data []byte) {
		msg, err := readMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		var back bytes.Buffer
		if err := writeMessage(&back, msg); err != nil || !bytes.HasPrefix(data, back.Bytes()) {
			t.Errorf("% x came back as % x (%v)", data, back.Bytes(), err)
		}
	})
}
