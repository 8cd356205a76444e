package usernet

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"parley/internal/sandbox"
)

var someAddr = netip.MustParseAddr("198.51.100.7")

func TestAnswersHoldForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNames()
		n.learn("short", []netip.Addr{someAddr}, 0)
		n.learn("long", []netip.Addr{someAddr}, time.Hour)
		n.learn("forever", []netip.Addr{someAddr}, 1<<62)
		for _, c := range []struct {
			wait time.Duration
			want []string
		}{
			{leastLife - time.Second, []string{"forever", "long", "short"}},
			{leastLife - time.Second, []string{"forever", "long", "short"}}, // used: it holds on
			{leastLife, []string{"forever", "long"}},
			{time.Hour, []string{"forever"}},
			{longestLife, nil},
		} {
			time.Sleep(c.wait)
			if got := n.hosts(someAddr); !slices.Equal(got, c.want) {
				t.Errorf("after %v: %v, want %v", c.wait, got, c.want)
			}
		}
		n.learn("short", []netip.Addr{someAddr, someAddr}, 0)
		if got := n.hosts(someAddr); !slices.Equal(got, []string{"short"}) {
			t.Errorf("asked for again: %v", got)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNames()
		spread := rapid.IntRange(1, 4000).Draw(t, "addresses")
		for i := range rapid.IntRange(0, 200).Draw(t, "answers") {
			var addrs []netip.Addr
			for j := range maxAddrs {
				a := (i*maxAddrs + j) % spread
				addrs = append(addrs, netip.AddrFrom4([4]byte{198, 51, byte(a >> 8), byte(a)}))
			}
			host := fmt.Sprint("h", i)
			n.learn(host, addrs, time.Duration(i)*time.Minute)
			if got := n.hosts(addrs[0]); len(got) == 0 || got[0] != host {
				t.Fatalf("the latest answer is not known: %v", got)
			}
		}
		total := 0
		for _, list := range n.of {
			if total += len(list); len(list) > maxHosts || len(list) == 0 {
				t.Fatalf("%d names of one address", len(list))
			}
		}
		if total != n.count || total > maxKnown {
			t.Fatalf("%d are known, counted as %d", total, n.count)
		}
	})
}

// The figures of a connection that is used are brought up to date.
func TestLongConnectionsAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []sandbox.Connection
		j := newJournal(func(c sandbox.Connection) { told = append(told, c) }, slog.New(slog.DiscardHandler))
		e := j.opened("tcp", "a.example", netip.AddrPortFrom(someAddr, 80))
		for range 25 {
			time.Sleep(time.Second)
			synctest.Wait()
			e.sent.Add(1)
			e.moved()
		}
		synctest.Wait()
		e.ended()
		j.close()
		sent := []int64{}
		for i, c := range told {
			if sent = append(sent, c.Sent); c.ID != told[0].ID || c.Open != (i < len(told)-1) {
				t.Errorf("%+v", c)
			}
		}
		if !slices.Equal(sent, []int64{0, 10, 20, 25}) || told[3].Lasted != 25*time.Second {
			t.Errorf("told %v, at last %+v", sent, told[3])
		}
	})
}

// A name that is refused once more is told again after a while, and an excess after
// a quiet time is another one.
func TestRefusedNamesAreToldOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[string]sandbox.Connection{}
		j := newJournal(func(c sandbox.Connection) { told[c.ID] = c }, slog.New(slog.DiscardHandler))
		ask := func(name string, times int, want int) {
			t.Helper()
			for range times {
				j.failed("dns", name, netip.AddrPort{}, sandbox.VerdictRefused, "not listed")
			}
			synctest.Wait()
			if len(told) != want {
				t.Errorf("%d entries, want %d", len(told), want)
			}
		}
		ask("a", 5, 1)
		ask("b", 5, 2)
		time.Sleep(sameAgain)
		ask("a", 5, 3)
		time.Sleep(newExcess)
		for round := range 2 {
			clear(told)
			for i := range 400 {
				j.failed("dns", fmt.Sprint(round, "-", i), netip.AddrPort{}, sandbox.VerdictRefused, "not listed")
			}
			ask("a", 1, 201) // 200 are listed, and one entry counts the others
			time.Sleep(newExcess + time.Second)
		}
		j.close()
	})
}
