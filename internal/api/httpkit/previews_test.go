package httpkit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/api/httpkit"
)

func TestTicketsWorkOnceForTheirPortAndAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := httpkit.NewPreviews()
		v := httpkit.Preview{Owner: "u", SandboxID: "sb", Port: 80}
		ticket, ends := p.Ticket(v)
		if !httpkit.IsTicket(ticket) || httpkit.IsTicket("ST-1-of-an-app") || time.Until(ends) != httpkit.TicketTime {
			t.Errorf("%q until %v", ticket, ends)
		}
		session, ok := p.Redeem(ticket, "sb", 80)
		if !ok {
			t.Fatal("a new ticket opens nothing")
		}
		if _, ok := p.Redeem(ticket, "sb", 80); ok {
			t.Error("a ticket works twice")
		}
		if got, ok := p.Find(session, "sb", 80); !ok || got != v {
			t.Errorf("%+v %v", got, ok)
		}
		for _, other := range []struct {
			secret, box string
			port        int
		}{{session, "sb", 81}, {session, "sb2", 80}, {ticket, "sb", 80}, {"", "sb", 80}} {
			if _, ok := p.Find(other.secret, other.box, other.port); ok {
				t.Errorf("a session opens %+v", other)
			}
		}
		elsewhere, _ := p.Ticket(v)
		if _, ok := p.Redeem(elsewhere, "sb", 81); ok {
			t.Error("a ticket opens another port")
		}
		if _, ok := p.Redeem(elsewhere, "sb", 80); ok {
			t.Error("a ticket that was tried elsewhere still works")
		}
		late, _ := p.Ticket(v)
		time.Sleep(httpkit.TicketTime)
		if _, ok := p.Redeem(late, "sb", 80); ok {
			t.Error("a ticket outlives its minute")
		}
		time.Sleep(httpkit.SessionTime)
		if _, ok := p.Find(session, "sb", 80); ok {
			t.Error("a session never ends")
		}
	})
}

// Who takes many tickets loses the oldest of them, and nobody else theirs.
func TestTicketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := httpkit.NewPreviews()
		other, _ := p.Ticket(httpkit.Preview{Owner: "other", SandboxID: "sb", Port: 80})
		var tickets []string
		for range 101 {
			ticket, _ := p.Ticket(httpkit.Preview{Owner: "u", SandboxID: "sb", Port: 80})
			tickets = append(tickets, ticket)
			time.Sleep(time.Millisecond)
		}
		for i, want := range map[int]bool{0: false, 1: true, 100: true} {
			if _, ok := p.Redeem(tickets[i], "sb", 80); ok != want {
				t.Errorf("ticket %d: %v", i, ok)
			}
		}
		if _, ok := p.Redeem(other, "sb", 80); !ok {
			t.Error("another user's ticket is gone")
		}
	})
}

func TestPreviewURL(t *testing.T) {
	got := httpkit.PreviewURL("https://x.org/par%20ley", "sb/1", 8080)
	if got != "https://x.org/par%20ley/agent/sb%2F1/ports/8080/" || strings.Contains(got, "//ports") {
		t.Error(got)
	}
}
