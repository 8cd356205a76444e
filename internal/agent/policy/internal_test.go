package policy

import (
	"testing"

	"parley/internal/conversation"
)

// A panic of an analyzer is a failure of it, also inside of an ensemble.
func TestPanicIsFailure(t *testing.T) {
	panics := func(*Call) (assessment, error) { panic("boom") }
	fine := func(*Call) (assessment, error) { return assessment{risk: conversation.RiskLow}, nil }
	for _, a := range []analyzer{panics, ensemble([]analyzer{fine, panics}, false), ensemble([]analyzer{panics, fine}, true)} {
		for kind, want := range map[string]bool{conversation.AlwaysConfirm: true, conversation.ConfirmRisky: true, conversation.NeverConfirm: false} {
			quiet := false
			j := judge{conversation.ConfirmationPolicy{Kind: kind, ConfirmUnknown: &quiet}.Canonical(), a}
			v := decideCall([]judge{j}, &Call{})
			if v.Risk != conversation.RiskHigh || !v.Failed || v.Confirm != want || v.Reason != "analyzer failed: panic: boom" {
				t.Errorf("%s: %+v", kind, v)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ cwd, path, want string }{
		{"", "a/../b", "b"}, {"", "", "."}, {"", "/", "/"}, {"/", "a", "/a"}, {"~", "a", "~/a"}, {"~/.ssh", "../x", "~/x"}, {"", "/home/me/.ssh/x", "~/.ssh/x"},
		{"", "/root/x", "~/x"}, {"", "~me/x", "~/x"}, {"", "/home/me", "/home/me"}, {"b", "/tmp/../etc", "/etc"}, {"", "//etc//x", "/etc/x"}, {"", "/home/*/x", "/home/*/x"}, {"", "../..", "../.."},
	} {
		if got := resolve(c.cwd, c.path); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.path, c.cwd, got, c.want)
		}
	}
}

func TestUnescapeC(t *testing.T) {
	for in, want := range map[string]string{`\x72\x6d`: "rm", `\162\155`: "rm", `\0162m`: "rm", `\u0072m`: "rm", `a\tb\n`: "a\tb\n", `\\x`: `\x`, `\q`: `\q`, `\`: `\`, `\x`: "", `\xff`: "?"} {
		if got := unescapeC(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
