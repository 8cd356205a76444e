package device

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"time"
	"unicode"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
)

const (
	lifetime     = 10 * time.Minute
	pollInterval = 5 * time.Second
	maxOpen      = 1000 // requests, of all clients
	maxOpenEach  = 10   // of one address
	codeLetters  = "BCDFGHJKLMNPQRSTVWXZ"
)

// grant is one request of a client.
type grant struct {
	user    string // code that the user enters, "ABCD-EFGH"
	device  [sha256.Size]byte
	address string
	client  string // as it names itself, cleaned
	expires time.Time
	earnest time.Time     // before this a poll is too early
	wait    time.Duration // between polls
	decided bool
	owner   string // user who agreed; "" of a decided one = refused
}

// keyName is how the user finds the key among the others.
func (g *grant) keyName() string {
	if g.client == "" {
		return "device login"
	}
	return "device login: " + g.client
}

// refusal is the body of a poll that gets no key.
type refusal struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Interval    int    `json:"interval,omitempty"` // seconds
}

// desk holds the open requests.
type desk struct {
	mu      sync.Mutex
	waiting map[[sha256.Size]byte]*grant // by the hash of the device code
}

// open adds a request and returns it with its device code.
func (d *desk) open(address, client string, now time.Time) (*grant, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := 0
	for key, g := range d.waiting {
		switch {
		case !now.Before(g.expires):
			delete(d.waiting, key)
		case g.address == address:
			own++
		}
	}
	if own >= maxOpenEach || len(d.waiting) >= maxOpen {
		err := fault.New(fault.RateLimited, "too_many_devices", "Too many logins of devices are waiting.").
			WithHint("They expire after %d minutes.", int(lifetime.Minutes()))
		err.RetryAfter = time.Minute
		return nil, "", err
	}
	device := account.NewKey("dc-")
	g := &grant{user: d.newCode(), device: sha256.Sum256([]byte(device)), address: address, client: cleanName(client),
		expires: now.Add(lifetime), earnest: now, wait: pollInterval}
	if d.waiting == nil {
		d.waiting = map[[sha256.Size]byte]*grant{}
	}
	d.waiting[g.device] = g
	return g, device, nil
}

// newCode is a code that no other request has.
func (d *desk) newCode() string {
	for {
		raw := make([]byte, 8)
		_, _ = rand.Read(raw) // never fails
		for i, b := range raw {
			raw[i] = codeLetters[int(b)%len(codeLetters)]
		}
		code := string(raw[:4]) + "-" + string(raw[4:])
		if d.byCode(code) == nil {
			return code
		}
	}
}

func (d *desk) byCode(code string) *grant {
	for _, g := range d.waiting {
		if g.user == code {
			return g
		}
	}
	return nil
}

// cleanName is what may be shown of a name that a stranger chose.
func cleanName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(name, ""))
	return content.Head(strings.TrimSpace(clean), 60)
}

// poll returns a request that its user agreed to, once, or what to tell the client.
func (d *desk) poll(device string, now time.Time) (*grant, *refusal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.waiting[sha256.Sum256([]byte(device))]
	switch {
	case g == nil || !now.Before(g.expires):
		return nil, &refusal{Error: "expired_token", Description: "The login expired, was used already, or never was. Begin again."}
	case g.decided && g.owner == "":
		delete(d.waiting, g.device)
		return nil, &refusal{Error: "access_denied", Description: "The user refused."}
	case now.Before(g.earnest):
		g.wait += pollInterval
		g.earnest = now.Add(g.wait)
		return nil, &refusal{Error: "slow_down", Description: "Asked too often.", Interval: int(g.wait.Seconds())}
	case !g.decided:
		g.earnest = now.Add(g.wait - time.Second) // clients' clocks and networks vary
		return nil, &refusal{Error: "authorization_pending", Description: "The user has not decided yet.", Interval: int(g.wait.Seconds())}
	}
	delete(d.waiting, g.device)
	return g, nil
}

// again takes back a request that was handed out and could not be served.
func (d *desk) again(g *grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[g.device] = g
}

// decide notes what a user says to a code, however it is written.
func (d *desk) decide(code, user string, approve bool, now time.Time) error {
	letters := strings.Map(func(r rune) rune {
		if r = unicode.ToUpper(r); strings.ContainsRune(codeLetters, r) {
			return r
		}
		return -1
	}, code)
	if len(letters) == 8 {
		letters = letters[:4] + "-" + letters[4:]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.byCode(letters)
	if g == nil || !now.Before(g.expires) || g.decided {
		return fault.New(fault.NotFound, "device_code", "No device waits with this code.").
			WithHint("Codes hold for %d minutes and for one answer; begin again on the device.", int(lifetime.Minutes()))
	}
	g.decided = true
	if approve {
		g.owner = user
	}
	return nil
}
