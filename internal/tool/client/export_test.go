package client

import "testing"

// Problems is the check alone, without mending.
func Problems(t testing.TB, raw string) func(any) []string {
	t.Helper()
	s, err := compile([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return func(v any) []string { return s.problems(v.(map[string]any)) }
}
