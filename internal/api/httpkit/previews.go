package httpkit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/lazyre"
)

// How long a ticket waits to be used, and how long the session lasts that it opens.
const (
	TicketTime  = time.Minute
	SessionTime = 12 * time.Hour
)

// Bounds of what one user has at a time; beyond it the oldest ends.
const (
	maxTickets  = 100
	maxSessions = 200
)

// ticketPrefix tells our tickets from what programs call a ticket.
const ticketPrefix = "parley-ticket-"

// Preview is one port of one sandbox, as a user may look at it.
type Preview struct {
	Owner     string // user id
	SandboxID string
	Port      int
}

// PreviewURL is where a port of a sandbox is served below base, with a slash at its
// end.
func PreviewURL(base, sandboxID string, port int) string {
	return AgentURL(base, sandboxID) + "/ports/" + strconv.Itoa(port) + "/"
}

// ownLabel are the sandbox ids that can be in a host name. Names do not tell upper
// from lower case.
var ownLabel = lazyre.MustCompile(`^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$`)

// OwnPreviewURL is where a browser sees a port of a sandbox: at an origin of its own
// ({port}-{sandbox_id} below PreviewHost) where there can be one, else below the
// server's own paths.
func (u *URLs) OwnPreviewURL(r *http.Request, sandboxID string, port int) string {
	base := u.Base(r)
	at, err := url.Parse(base)
	if err != nil || u.PreviewHost == "" || !ownLabel.MatchString(sandboxID) {
		return PreviewURL(base, sandboxID, port)
	}
	return at.Scheme + "://" + withPort(strconv.Itoa(port)+"-"+sandboxID+"."+u.PreviewHost, at.Host) + "/"
}

// withPort adds the port of another "host:port", if that has one.
func withPort(host, other string) string {
	if _, port, err := net.SplitHostPort(other); err == nil {
		return net.JoinHostPort(host, port)
	}
	return host
}

// PreviewLabel returns what stands before the preview host in a host ("host:port"),
// false if that is not a name below it.
func (u *URLs) PreviewLabel(host string) (string, bool) {
	if u.PreviewHost == "" {
		return "", false
	}
	label, ok := strings.CutSuffix(hostName(host), "."+strings.ToLower(u.PreviewHost))
	return label, ok
}

// previewed reports whether an origin is that of a preview.
func (u *URLs) previewed(origin string) bool {
	at, err := url.Parse(origin)
	if err != nil {
		return false
	}
	_, ok := u.PreviewLabel(at.Host)
	return ok
}

// Origin is the server's own origin as the client sees it.
func (u *URLs) Origin(r *http.Request) string {
	at, err := url.Parse(u.Base(r))
	if err != nil {
		return ""
	}
	return at.Scheme + "://" + at.Host
}

// Previews let browsers see what programs in sandboxes serve without a key: a ticket,
// which works once and for a minute, opens a session of one port of one sandbox.
// Both are kept in memory, by their hash; they end with the server.
type Previews struct {
	mu       sync.Mutex
	tickets  grants
	sessions grants
}

// NewPreviews returns a register without tickets.
func NewPreviews() *Previews {
	return &Previews{tickets: grants{}, sessions: grants{}}
}

// Ticket lets whoever has it open a preview once.
func (p *Previews) Ticket(v Preview) (ticket string, expires time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tickets.add(ticketPrefix, v, TicketTime, maxTickets)
}

// IsTicket reports whether a text looks like a ticket of ours.
func IsTicket(text string) bool { return strings.HasPrefix(text, ticketPrefix) }

// Redeem uses a ticket up and opens a session of its preview. False if it is not
// known, used, too old, or of another sandbox or port; then it is used up, too.
func (p *Previews) Redeem(ticket, sandboxID string, port int) (session string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.tickets.find(ticket, sandboxID, port)
	delete(p.tickets, sha256.Sum256([]byte(ticket)))
	if !ok {
		return "", false
	}
	session, _ = p.sessions.add("", v, SessionTime, maxSessions)
	return session, true
}

// Find returns what a session opens, false if that is not this sandbox's port.
func (p *Previews) Find(session, sandboxID string, port int) (Preview, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions.find(session, sandboxID, port)
}

// grants are previews by the hash of the secret that opens them, so that the time a
// look-up takes says nothing about secrets.
type grants map[[sha256.Size]byte]grant

type grant struct {
	Preview
	ends time.Time
}

func (g grants) find(secret, sandboxID string, port int) (Preview, bool) {
	found, ok := g[sha256.Sum256([]byte(secret))]
	if !ok || found.SandboxID != sandboxID || found.Port != port || !time.Now().Before(found.ends) {
		return Preview{}, false
	}
	return found.Preview, true
}

// add makes a secret of 256 bits. Those that are over go, and the owner's oldest
// beyond most.
func (g grants) add(prefix string, v Preview, lasts time.Duration, most int) (secret string, ends time.Time) {
	now := time.Now()
	var oldest [sha256.Size]byte
	count := 0
	for key, old := range g {
		if !now.Before(old.ends) {
			delete(g, key)
			continue
		}
		if old.Owner != v.Owner {
			continue
		}
		if count++; count == 1 || old.ends.Before(g[oldest].ends) {
			oldest = key
		}
	}
	if count >= most {
		delete(g, oldest)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = prefix + hex.EncodeToString(random[:])
	ends = now.Add(lasts)
	g[sha256.Sum256([]byte(secret))] = grant{v, ends}
	return secret, ends
}
