package netpolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/ipaddr"
)

// Bounds of a policy.
const (
	maxDepth   = 4   // policies within each other
	maxEntries = 256 // of one policy
	maxEntry   = 512 // bytes
	maxName    = 253 // bytes of a host name (RFC 1035 2.3.4, without the dot at its end)
	maxLabel   = 63  // bytes of one part of it
	maxQuoted  = 80  // bytes of an entry that a text repeats
	leastBits  = 8   // of a network
)

// nameEntry allows a host, or all hosts below a domain.
type nameEntry struct {
	name  string // canonical; of a wildcard what follows "*."
	below bool
	port  uint16 // 0 = every port
}

func (e nameEntry) matches(host string) bool {
	if !e.below {
		return host == e.name
	}
	above, ok := strings.CutSuffix(host, "."+e.name)
	return ok && above != ""
}

// netEntry allows an address or a network.
type netEntry struct {
	net  netip.Prefix // IPv4
	port uint16       // 0 = every port
}

// opens says whether the entry has the target. This host's addresses, loopback
// and link-local ones are had only by an entry that means them: a network around
// the host does not open the host.
func (e netEntry) opens(to target) bool {
	if !e.net.Contains(to.Addr()) || e.port != 0 && e.port != to.Port() {
		return false
	}
	return to.public == nil || e.net.IsSingleIP() || e.meansHost() || ipaddr.Outbound(to.Addr()) == nil
}

// meansHost reports a network of loopback or link-local addresses.
func (e netEntry) meansHost() bool {
	a := e.net.Addr() // the bounds on networks are not wider than those of the kinds
	return a.IsLoopback() || a.IsLinkLocalUnicast() && e.net.Bits() >= 16
}

// add reads one entry. The error continues "The entry ...".
func (l *level) add(text string) error {
	if len(text) > maxEntry {
		return fmt.Errorf("is longer than %d bytes", maxEntry)
	}
	switch {
	case text == "":
		return errors.New("is empty")
	case !utf8.ValidString(text):
		return errors.New("is no text")
	case strings.Contains(text, "://"):
		return errors.New("is a URL; write the host alone, or host:port")
	case strings.ContainsAny(text, "@?#\\ \t\r\n"):
		return errors.New("has a character that is in no host name; write host, host:port, an address or a network")
	case strings.HasPrefix(text, "["), strings.Count(text, ":") > 1:
		return errors.New("is an IPv6 address; sandboxes have IPv4 only")
	}
	host, port, err := splitPort(text)
	if err != nil {
		return err
	}
	if strings.Contains(host, "/") {
		return l.addNetwork(host, port)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return l.addPrefix(netip.PrefixFrom(a, a.BitLen()), port)
	}
	return l.addName(host, port)
}

// splitPort returns port 0 if there is none.
func splitPort(text string) (string, uint16, error) {
	host, digits, found := strings.Cut(text, ":")
	if !found {
		return text, 0, nil
	}
	if host == "" {
		return "", 0, errors.New("has no host before the port")
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != digits {
		return "", 0, errors.New("has no single port from 1 to 65535 after the colon")
	}
	return host, uint16(port), nil
}

func (l *level) addNetwork(text string, port uint16) error {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return errors.New("has a slash and is no network such as 10.0.0.0/8")
	case p.Masked() != p:
		return fmt.Errorf("has bits beyond its network; write %v for the network or %v for the address", p.Masked(), p.Addr())
	case p.Bits() < leastBits:
		return fmt.Errorf("is wider than /%d; mode open allows all public addresses", leastBits)
	}
	return l.addPrefix(p, port)
}

func (l *level) addPrefix(p netip.Prefix, port uint16) error {
	a := p.Addr()
	switch {
	case !a.Is4():
		return errors.New("is an IPv6 address; sandboxes have IPv4 only")
	case a.As4()[0] == 0, a.As4()[0] >= 224 && a.As4()[0] < 240, a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("has no address of a single host")
	}
	l.nets = append(l.nets, netEntry{p, port})
	return nil
}

func (l *level) addName(text string, port uint16) error {
	name, below := strings.CutPrefix(text, "*.")
	name, err := canonicalName(name)
	if err != nil {
		return err
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return errors.New("leads to the server's own machine, which a name does not open; write 127.0.0.1:PORT for a port of it")
	}
	l.names = append(l.names, nameEntry{name, below, port})
	return nil
}

// profile maps names as programs do before they look one up (UTS 46). It leaves
// underscores and hyphens alone, which real names have where the rules have none.
var profile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// canonicalName returns a host name in lower-case ASCII without a dot at its end.
func canonicalName(text string) (string, error) {
	ascii, err := profile.ToASCII(text)
	if err != nil {
		return "", errors.New("is no host name")
	}
	name := strings.TrimSuffix(strings.ToLower(ascii), ".")
	if len(name) > maxName {
		return "", fmt.Errorf("is a name longer than %d bytes", maxName)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	// Programs read such a name as an address: 0x7f.1 is 127.0.0.1 to many.
	if numeric(labels[len(labels)-1]) {
		return "", errors.New("ends in a number and is no address in the usual notation, such as 10.0.0.5")
	}
	return name, nil
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("has an empty part; write a host, an address, a network, or *. and a domain")
	case len(label) > maxLabel:
		return fmt.Errorf("has a part longer than %d bytes", maxLabel)
	case strings.Contains(label, "*"):
		return errors.New("has a star elsewhere than in front; write *. and a domain")
	case strings.IndexFunc(label, notInNames) >= 0:
		return errors.New("has a character that is in no host name")
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("has a part that begins or ends with a hyphen")
	}
	return nil
}

func notInNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// numeric reports what programs take for a number at the end of an address (the
// URL standard's "ends in a number").
func numeric(label string) bool {
	digits := func(s, more string) bool { return strings.Trim(s, "0123456789"+more) == "" }
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return digits(hex, "abcdef")
	}
	return digits(label, "")
}

// quote shows what somebody wrote.
func quote(text string) string {
	return strconv.QuoteToASCII(content.Short(text, maxQuoted))
}

func invalid(where []any, format string, args ...any) error {
	text := fmt.Errorf(format, args...).Error()
	err := fault.New(fault.Invalid, "sandbox_spec", "%s", text)
	err.Fields = []fault.Field{{Loc: slices.Clone(where), Type: "value_error", Msg: text}}
	return err
}
