package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/internal/lazyre"
)

// maxWish bounds what a provider may ask for; a longer wish is a broken clock
// or header, and means the same to a caller: not now.
const maxWish = 30 * 24 * time.Hour

// retryAfter finds the provider's wish, from the most to the least explicit
// source; 0 if there is none.
func retryAfter(status int, h http.Header, r report, now time.Time) time.Duration {
	if d := headerWish(h, now); d > 0 {
		return d
	}
	if r.retry > 0 {
		return min(r.retry, maxWish)
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	if d := max(rateReset(h, now), pointReset(h, now)); d > 0 {
		return d
	}
	return spokenDelay(r.message)
}

// headerWish reads the headers that say when to ask again: retry-after-ms, and
// Retry-After as seconds (also fractions) or as an HTTP date. 0 = none, or in
// the past.
func headerWish(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return wish(ms * float64(time.Millisecond))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return wish(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return wish(float64(at.Sub(now)))
	}
	if d, err := time.ParseDuration(value); err == nil {
		return wish(float64(d))
	}
	return 0
}

// wish clamps a number of nanoseconds, NaN and infinities included.
func wish(ns float64) time.Duration {
	switch {
	case !(ns > 0):
		return 0
	case ns > float64(maxWish):
		return maxWish
	}
	return time.Duration(ns)
}

// budgets are the pairs of headers that say how much of a resource is left and
// when there is more.
func budgets() [][2]string {
	var pairs [][2]string
	for _, of := range []string{"", "-Requests", "-Tokens", "-Requests-Minute", "-Tokens-Minute", "-Requests-Day"} {
		pairs = append(pairs, [2]string{"X-Ratelimit-Remaining" + of, "X-Ratelimit-Reset" + of})
	}
	return append(pairs, [2]string{"Ratelimit-Remaining", "Ratelimit-Reset"})
}

// rateReset reads x-ratelimit-reset and its variants per provider and resource. A
// resource whose remaining count is not 0 is not what stopped the request.
func rateReset(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, pair := range budgets() {
		left := strings.TrimSpace(h.Get(pair[0]))
		if left != "" && left != "0" {
			continue
		}
		longest = max(longest, resetValue(strings.TrimSpace(h.Get(pair[1])), now))
	}
	return longest
}

// pointReset reads anthropic-ratelimit-*-reset, which are points in time, of the
// resources that are used up.
func pointReset(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, resource := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		prefix := "Anthropic-Ratelimit-" + resource
		if strings.TrimSpace(h.Get(prefix+"-Remaining")) != "0" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, strings.TrimSpace(h.Get(prefix+"-Reset"))); err == nil {
			longest = max(longest, wish(float64(at.Sub(now))))
		}
	}
	return longest
}

// resetValue reads a duration ("6m0s", "20ms"), a number of seconds from now,
// or a Unix time in seconds or milliseconds.
func resetValue(s string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return wish(float64(d))
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	switch {
	case n > 1e11:
		return wish(n*float64(time.Millisecond) - float64(now.UnixNano()))
	case n > 1e9:
		return wish(n*float64(time.Second) - float64(now.UnixNano()))
	}
	return wish(n * float64(time.Second))
}

var spoken = lazyre.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:[0-9.]+ ?(?:ms|h|m|s))+)`)

// spokenDelay reads "Please try again in 1m2.5s" out of a message.
func spokenDelay(message string) time.Duration {
	m := spoken.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	d, err := time.ParseDuration(strings.ReplaceAll(m[1], " ", ""))
	if err != nil {
		return 0
	}
	return wish(float64(d))
}
