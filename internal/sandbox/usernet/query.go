package usernet

import (
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"parley/internal/netpolicy"
)

const (
	maxRecords = 1024 // of an answer that are looked at
	maxAliases = 16   // that lead from a name to its addresses
	maxAddrs   = 64   // of an answer that are remembered
)

// typeIXFR asks for a part of a zone, as AXFR does for all of it: no question of a
// program that wants to connect.
const typeIXFR = dnsmessage.Type(251)

// query is a question that may be passed on.
type query struct {
	dnsmessage.Question
	host   string // canonical
	packed []byte // the question alone: what else the message held stays here
}

// parseQuery reads a message of the box. code is what to answer if it is none that
// may be passed on.
func parseQuery(msg []byte) (q query, code dnsmessage.RCode) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return q, dnsmessage.RCodeFormatError
	}
	if h.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 {
		return q, dnsmessage.RCodeFormatError
	}
	q.Question = questions[0]
	if q.Type == dnsmessage.TypeAXFR || q.Type == typeIXFR {
		return q, dnsmessage.RCodeRefused
	}
	q.host = netpolicy.Canonical(q.Name.String())
	if q.packed, err = pack(h, q.Question, extension(&p)); err != nil {
		return q, dnsmessage.RCodeFormatError
	}
	return q, dnsmessage.RCodeSuccess
}

// extension returns the header of a query's OPT record (RFC 6891), nil if it has
// none: it says how long answers may be.
func extension(p *dnsmessage.Parser) *dnsmessage.ResourceHeader {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return nil
	}
	for range maxRecords {
		h, err := p.AdditionalHeader()
		if err != nil {
			return nil
		}
		if h.Type == dnsmessage.TypeOPT {
			return &h
		}
		if p.SkipAdditional() != nil {
			return nil
		}
	}
	return nil
}

// pack writes the query anew, without what a program could have added to it.
func pack(h dnsmessage.Header, q dnsmessage.Question, opt *dnsmessage.ResourceHeader) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, RecursionDesired: h.RecursionDesired,
		AuthenticData: h.AuthenticData, CheckingDisabled: h.CheckingDisabled})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if opt != nil {
		if err := b.StartAdditionals(); err != nil {
			return nil, err
		}
		if err := b.OPTResource(*opt, dnsmessage.OPTResource{}); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// addresses returns the IPv4 addresses that an answer has for the name that was
// asked for, through its aliases, and how long they hold. What an answer has for
// other names counts for nothing.
func (q query) addresses(answer []byte) ([]netip.Addr, time.Duration) {
	aliases, found, ok := readAnswers(answer)
	if !ok {
		return nil, 0
	}
	name := q.host
	for range maxAliases {
		if next, ok := aliases[name]; ok {
			name = next
			continue
		}
		break
	}
	list := found[name]
	return list.addrs, list.life
}

// found are the addresses of one name.
type found struct {
	addrs []netip.Addr
	life  time.Duration // the shortest
}

func readAnswers(msg []byte) (aliases map[string]string, hosts map[string]found, ok bool) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || !h.Response || p.SkipAllQuestions() != nil {
		return nil, nil, false
	}
	aliases, hosts = map[string]string{}, map[string]found{}
	for range maxRecords {
		h, err := p.AnswerHeader()
		if err != nil {
			break
		}
		if readAnswer(&p, h, aliases, hosts) != nil {
			return nil, nil, false
		}
	}
	return aliases, hosts, true
}

func readAnswer(p *dnsmessage.Parser, h dnsmessage.ResourceHeader, aliases map[string]string, hosts map[string]found) error {
	name := netpolicy.Canonical(h.Name.String())
	switch {
	case h.Class != dnsmessage.ClassINET:
		return p.SkipAnswer()
	case h.Type == dnsmessage.TypeCNAME:
		r, err := p.CNAMEResource()
		if err == nil {
			aliases[name] = netpolicy.Canonical(r.CNAME.String())
		}
		return err
	case h.Type == dnsmessage.TypeA:
		r, err := p.AResource()
		if err != nil {
			return err
		}
		f, life := hosts[name], time.Duration(h.TTL)*time.Second
		if len(f.addrs) == 0 || life < f.life {
			f.life = life
		}
		if len(f.addrs) < maxAddrs {
			f.addrs = append(f.addrs, netip.AddrFrom4(r.A))
		}
		hosts[name] = f
		return nil
	}
	return p.SkipAnswer()
}
