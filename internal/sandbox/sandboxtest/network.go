package sandboxtest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"parley/internal/sandbox"
)

// target is a TCP address that the daemon inside connects to.
type target struct {
	Address string
	Wait    time.Duration
}

// connect answers with what the other side says.
func connect(ctx context.Context, to target) Output {
	ctx, cancel := context.WithTimeout(ctx, to.Wait)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return Output{Err: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(to.Wait))
	text, err := io.ReadAll(io.LimitReader(conn, 100))
	if err != nil {
		return Output{Err: err.Error()}
	}
	return Output{Text: string(text)}
}

// dialFrom lets the daemon inside of a box connect to an address and read.
func dialFrom(ctx context.Context, box sandbox.Box, to target) (Output, error) {
	res, err := post(ctx, box, "/connect", to)
	if err != nil {
		return Output{}, err
	}
	defer func() { _ = res.Body.Close() }()
	var out Output
	return out, json.NewDecoder(res.Body).Decode(&out)
}

func serveConnect(w http.ResponseWriter, r *http.Request) {
	var to target
	if err := json.NewDecoder(r.Body).Decode(&to); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(connect(r.Context(), to))
}

// hostAddress is an address of this machine that is not loopback, "" if it has
// none.
func hostAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}

// network checks that policies hold. What exactly they allow is the business of
// those who read them.
func (s *suite) network(t *testing.T) {
	b := s.backend(t)
	if !b.Caps().NetworkPolicy {
		return // what it cannot do it refuses: see unsupported
	}
	host := hostAddress()
	if host == "" {
		t.Skip("this machine has no address beside loopback that boxes could connect to")
	}
	const greeting = "hello from the test"
	address := net.JoinHostPort(host, "0")
	listed, other := listen(t, "tcp", address, greeting), listen(t, "tcp", address, greeting)
	allow := sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{listed}}
	for _, c := range []struct {
		name    string
		network sandbox.Network
		listed  bool // reachable
	}{
		{"none", sandbox.Network{Mode: sandbox.NetworkNone}, false},
		{"open", sandbox.Network{}, false},
		{"open with a list", sandbox.Network{Mode: sandbox.NetworkOpen, Allow: []string{listed}}, true},
		{"allow", allow, true},
		{"allow something else", sandbox.Network{Mode: sandbox.NetworkAllow, Allow: []string{"192.0.2.77"}}, false},
		{"allow within none", sandbox.Network{Mode: allow.Mode, Allow: allow.Allow, Within: &sandbox.Network{Mode: sandbox.NetworkNone}}, false},
		{"allow within open", sandbox.Network{Mode: allow.Mode, Allow: allow.Allow, Within: &sandbox.Network{}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := s.box(t, b, sandbox.Spec{Network: c.network})
			s.reaches(t, box, listed, greeting, c.listed && outbound(b.Caps()))
			s.reaches(t, box, other, greeting, false)
		})
	}
}

// outbound reports whether boxes have any way out on this machine.
func outbound(caps sandbox.Caps) bool {
	i := slices.IndexFunc(caps.Guarantees, func(g sandbox.Guarantee) bool { return g.Name == "network_outbound" })
	return i < 0 || caps.Guarantees[i].Holds
}

// reaches compares whether a box gets the greeting.
func (s *suite) reaches(t *testing.T, box sandbox.Box, address, greeting string, want bool) {
	t.Helper()
	to := target{Address: address, Wait: s.Patience / 3}
	if !want {
		to.Wait = 2 * time.Second // nothing may come, however long
	}
	out, err := dialFrom(s.context(t), box, to)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if got := out.Text == greeting; got != want {
		t.Errorf("reaching %s: %v (%s), want %v", address, got, out.Err, want)
	}
}
