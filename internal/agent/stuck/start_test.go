package stuck_test

import (
	"testing"

	"parley/internal/agent/stuck"
	"parley/internal/conversation"
)

// TestStart: where the loop of each pattern begins, by what comes first in it.
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		path func(*log)
		want int
		ok   bool
	}{
		"not stopped": {func(l *log) { l.user("go").times(4, func(l *log) { l.turn(ls("x")) }) }, 0, false},
		"same result": {func(l *log) {
			l.user("go").turn(view("a")).times(4, func(l *log) { l.turn(ls("x")) }).stopped(stuck.CodeStuck)
		}, 3, true},
		"from the start": {func(l *log) { l.user("go").times(4, func(l *log) { l.turn(ls("x")) }).stopped(stuck.CodeStuck) }, 1, true},
		"second loop": {func(l *log) {
			l.user("go").times(4, func(l *log) { l.turn(ls("x")) }).stopped(stuck.CodeStuck).turn(view("a")).times(4, func(l *log) { l.turn(ls("x")) }).stopped(stuck.CodeStuck)
		}, 12, true},
		"same error": {func(l *log) {
			l.user("go").turn(ls("x")).times(4, func(l *log) { l.turn(broken("{}")) }).stopped(stuck.CodeStuck)
		}, 3, true},
		"alternating": {func(l *log) {
			l.user("go").turn(view("z")).times(3, func(l *log) { l.turn(ls("x")).turn(view("a")) }).stopped(stuck.CodeStuck)
		}, 3, true},
		"monologue": {func(l *log) { l.user("go").turn(ls("x")).agent("a").agent("b").agent("c").stopped(stuck.CodeStuck) }, 3, true},
		"only condensing": {func(l *log) {
			l.user("go").turn(ls("x")).times(4, func(l *log) { l.condensed() }).stopped(stuck.CodeStuck)
		}, 3, true},
		"said since": {func(l *log) { l.user("go").times(4, func(l *log) { l.turn(ls("x")) }).stopped(stuck.CodeStuck).noise() }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			c.path(l)
			got, ok := stuck.Start(l.path, conversation.StuckDetection{})
			if ok != c.ok || got != c.want {
				t.Errorf("%d %v, want %d", got, ok, c.want)
			}
		})
	}
}
