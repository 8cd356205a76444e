package near_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/near"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b        string
		bound, want int
	}{
		{"", "", 2, 0}, {"listen", "listen", 2, 0}, {"lisen", "listen", 2, 1}, {"kitten", "sitting", 5, 3},
		{"ab", "ba", 5, 2}, {"", "abc", 5, 3}, {"a", strings.Repeat("x", 1000), 3, 4},
	} {
		if got := near.Distance(tt.a, tt.b, tt.bound); got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 8, -1)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		d := func(x, y string) int { return near.Distance(x, y, 100) }
		if d(a, b) != d(b, a) || (d(a, b) == 0) != (a == b) || d(a, c) > d(a, b)+d(b, c) {
			t.Fatalf("%q %q %q: %d %d %d", a, b, c, d(a, b), d(b, c), d(a, c))
		}
	})
}
