package usernet

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"parley/internal/sandbox"
)

const (
	dnsPort       = 53
	dnsHeaderSize = 12
	dnsMaxUDP     = 4096             // longest query or answer in a datagram, in bytes
	dnsTimeout    = 10 * time.Second // for one query
	dnsConnIdle   = 15 * time.Second // a TCP connection without a query
	maxQueries    = 64               // at once; more are dropped, the client asks again
)

// Resolver answers one DNS query, a message without length prefix. network is
// "udp" or "tcp", as the sandbox asked: over UDP the answer may be truncated
// (with the flag that says so). An error becomes SERVFAIL.
type Resolver func(ctx context.Context, network string, query []byte) ([]byte, error)

// nameServer is the UDP side of the sandbox's name server.
type nameServer struct {
	conn    *gonet.UDPConn
	queries chan struct{} // slots
}

func (s *Stack) serveDNS() error {
	at := tcpip.FullAddress{NIC: nicID, Addr: dnsAddress, Port: dnsPort}
	conn, err := gonet.DialUDP(s.net, &at, nil, ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	n := &nameServer{conn: conn, queries: make(chan struct{}, maxQueries)}
	s.goWork(func() { s.readQueries(n) })
	return nil
}

// readQueries starts a goroutine per query, up to the limit.
func (s *Stack) readQueries(n *nameServer) {
	defer func() { _ = n.conn.Close() }()
	stop := s.onClose(func() { _ = n.conn.Close() })
	defer stop()
	buf := make([]byte, dnsMaxUDP)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			if s.ctx.Err() == nil {
				s.cfg.Logger.Warn("the sandbox's name server stopped", "error", err)
			}
			return
		}
		query := append([]byte(nil), buf[:size]...)
		select {
		case n.queries <- struct{}{}:
		default:
			continue
		}
		s.goWork(func() {
			defer func() { <-n.queries }()
			if answer := s.resolve("udp", query); answer != nil {
				_, _ = n.conn.WriteTo(answer, from) // lost like any datagram
			}
		})
	}
}

// resolve returns the answer, an answer that says why there is none, or nil if the
// query is none. Names that the policy does not allow do not exist: every resolver
// takes that for an answer, while a refusal makes some wait and ask again.
func (s *Stack) resolve(network string, msg []byte) []byte {
	if len(msg) < dnsHeaderSize || msg[2]&0x80 != 0 {
		return nil
	}
	q, code := parseQuery(msg)
	if code != dnsmessage.RCodeSuccess {
		return failure(msg, code)
	}
	if err := s.cfg.Policy.Lookup(q.host); err != nil {
		s.log.failed("dns", q.host, netip.AddrPort{}, sandbox.VerdictRefused, err.Error())
		return failure(msg, dnsmessage.RCodeNameError)
	}
	ctx, cancel := context.WithTimeout(s.ctx, dnsTimeout)
	defer cancel()
	// The box must not choose the id: a friend of it outside could answer in the
	// place of the name server, and so give an address the name of a listed host.
	_, _ = rand.Read(q.packed[:2]) // never fails
	answer, err := s.cfg.Resolver(ctx, network, q.packed)
	if err != nil || len(answer) < dnsHeaderSize {
		s.cfg.Logger.Debug("name not resolved", "error", err)
		return failure(msg, dnsmessage.RCodeServerFailure)
	}
	if addrs, life := q.addresses(answer); len(addrs) > 0 {
		s.names.learn(q.host, addrs, life)
	}
	copy(answer, msg[:2])
	return answer
}

// failure answers a query with a code: the header and, if it can be found, the
// question.
func failure(query []byte, code dnsmessage.RCode) []byte {
	const flags2, questions = 3, 4
	size := dnsHeaderSize
	if end := questionEnd(query); end > 0 {
		size = end
	}
	answer := append([]byte(nil), query[:size]...)
	answer[2] = query[2]&0x79 | 0x80   // answer, same opcode and recursion flag
	answer[flags2] = 0x80 | byte(code) // recursion available
	clear(answer[questions:dnsHeaderSize])
	if size > dnsHeaderSize {
		answer[questions+1] = 1
	}
	return answer
}

// questionEnd returns where the only question of a query ends, 0 if there is
// not exactly one or it is malformed.
func questionEnd(query []byte) int {
	if binary.BigEndian.Uint16(query[4:]) != 1 {
		return 0
	}
	at := dnsHeaderSize
	for at < len(query) && query[at] != 0 {
		if query[at] > 63 {
			return 0
		}
		at += 1 + int(query[at])
	}
	if at += 5; at > len(query) { // the root label, type and class
		return 0
	}
	return at
}

// serveDNSConn answers queries on a TCP connection, one after the other.
func (s *Stack) serveDNSConn(conn insideConn) {
	defer func() { _ = conn.Close() }()
	stop := s.onClose(conn.reset)
	defer stop()
	for {
		if conn.SetDeadline(time.Now().Add(dnsConnIdle)) != nil {
			return
		}
		query, err := readMessage(conn)
		if err != nil {
			return
		}
		answer := s.resolve("tcp", query)
		if answer == nil || writeMessage(conn, answer) != nil {
			return
		}
	}
}

// readMessage reads a message with its length in front.
func readMessage(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(r, msg)
	return msg, err
}

func writeMessage(w io.Writer, msg []byte) error {
	if len(msg) > 0xffff {
		return errors.New("message too long")
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...))
	return err
}
