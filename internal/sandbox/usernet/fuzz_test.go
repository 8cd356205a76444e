package usernet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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

func FuzzWelcomeFrame(f *testing.F) {
	ping := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 2, 100, 10, 0, 2, 2, 8, 0, 0, 0, 0, 0, 0, 0}
	head := func(kind ...byte) []byte { return append(make([]byte, 12), kind...) }
	arp := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 2, 100, 0, 0, 0, 0, 0, 0, 10, 0, 2, 2}
	f.Add(append(head(8, 0), ping...))
	f.Add(append(head(8, 6), arp...))
	f.Add(append(head(0x86, 0xdd), ping...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if !welcomeFrame(frame) {
			return
		}
		packet := frame[14:]
		switch kind := binary.BigEndian.Uint16(frame[12:]); {
		case kind == 0x0800 && welcome(packet):
		case kind == 0x0806 && len(packet) >= 28 && [4]byte(packet[24:28]) != guestAddr.As4():
		default:
			t.Errorf("% x was let in", frame)
		}
	})
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3f"))
	f.Add(make([]byte, dnsHeaderSize))
	f.Fuzz(func(t *testing.T, query []byte) {
		if len(query) < dnsHeaderSize {
			return
		}
		before := bytes.Clone(query)
		a := failure(query, dnsmessage.RCodeNameError)
		if !bytes.Equal(before, query) {
			t.Error("the query was changed")
		}
		if len(a) > len(query) || !bytes.Equal(a[:2], query[:2]) || a[2]&0x80 == 0 || a[3]&0xf != 3 {
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

func FuzzParseQuery(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01A\x04test\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x04\x00\x0a\x00\x00"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, code := parseQuery(msg)
		if code != dnsmessage.RCodeSuccess {
			return
		}
		again, code := parseQuery(q.packed)
		if code != dnsmessage.RCodeSuccess || again.host != q.host || !bytes.Equal(again.packed, q.packed) {
			t.Errorf("%q is passed on as %q (%v)", msg, q.packed, code)
		}
		if len(q.packed) > len(msg)+256 || !bytes.Equal(q.packed[:2], msg[:2]) {
			t.Errorf("%q became %q", msg, q.packed)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x00\x01\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		addrs, life := query{host: "a"}.addresses(msg)
		if len(addrs) > maxAddrs || life < 0 || life > (1<<32)*time.Second {
			t.Errorf("%d addresses for %v", len(addrs), life)
		}
	})
}
