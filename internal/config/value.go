package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/internal/account"
)

// value is one member of a Config as text.
type value interface {
	Set(text string) error
	String() string // Set(String()) changes nothing
	Type() string   // for help and the reference
}

// textValue is a string with a rule that may also normalise it.
type textValue struct {
	p    *string
	typ  string
	rule func(string) (string, error)
}

func (v textValue) String() string { return *v.p }
func (v textValue) Type() string   { return v.typ }
func (v textValue) Set(s string) error {
	s, err := v.rule(s)
	if err == nil {
		*v.p = s
	}
	return err
}

// enumValue is one of a few words.
type enumValue[T ~string] struct {
	p     *T
	words []string
}

func (v enumValue[T]) String() string { return string(*v.p) }
func (v enumValue[T]) Type() string   { return strings.Join(v.words, ", ") }
func (v enumValue[T]) Set(s string) error {
	for _, w := range v.words {
		if s == w {
			*v.p = T(s)
			return nil
		}
	}
	return fmt.Errorf("%s is none of %s%s", quote(s), strings.Join(v.words, ", "), didYouMean(s, v.words))
}

// boolValue is true or false.
type boolValue struct{ p *bool }

func (v boolValue) String() string { return strconv.FormatBool(*v.p) }
func (v boolValue) Type() string   { return "true, false" }
func (v boolValue) Set(s string) error {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		*v.p = true
	case "false", "no", "off", "0":
		*v.p = false
	default:
		return fmt.Errorf("%s is neither true nor false", quote(s))
	}
	return nil
}

// numberValue is a whole number within bounds.
type numberValue[T ~int | ~int64 | ~uint64] struct {
	p        *T
	min, max int64
}

func (v numberValue[T]) String() string { return strconv.FormatInt(int64(*v.p), 10) }
func (v numberValue[T]) Type() string   { return fmt.Sprintf("%d to %d", v.min, v.max) }
func (v numberValue[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no whole number", quote(s))
	}
	if n < v.min || n > v.max {
		return fmt.Errorf("%d is outside %d to %d", n, v.min, v.max)
	}
	*v.p = T(n)
	return nil
}

// dollarValue is an amount of USD, at least nothing.
type dollarValue struct {
	p   *float64
	max float64
}

func (v dollarValue) String() string { return strconv.FormatFloat(*v.p, 'f', -1, 64) }
func (v dollarValue) Type() string   { return fmt.Sprintf("USD such as 12.50, 0 to %.0f", v.max) }
func (v dollarValue) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) {
		return fmt.Errorf("%s is no amount of USD, such as 12.50", quote(s))
	}
	if n < 0 || n > v.max {
		return fmt.Errorf("%s is outside 0 to %.0f", quote(s), v.max)
	}
	*v.p = n
	return nil
}

// byteUnits are the suffixes of a size, longest first.
var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1},
}

// bytesValue is a size such as 512MiB.
type bytesValue struct {
	p   *int64
	min int64
}

func (v bytesValue) String() string { return FormatBytes(*v.p) }
func (v bytesValue) Type() string   { return "size such as 512MiB, at least " + FormatBytes(v.min) }
func (v bytesValue) Set(s string) error {
	n, err := parseBytes(s)
	if err != nil {
		return err
	}
	if n < v.min {
		return fmt.Errorf("%s is less than %s", quote(s), FormatBytes(v.min))
	}
	*v.p = n
	return nil
}

func parseBytes(s string) (int64, error) {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.factor {
			break
		}
		return n * u.factor, nil
	}
	return 0, fmt.Errorf("%s is no size; write a whole number with B, KiB, MiB, GiB or TiB", quote(s))
}

// FormatBytes writes a size in the largest unit that divides it.
func FormatBytes(n int64) string {
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n != 0 && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// durationValue is a length of time.
type durationValue struct {
	p        *time.Duration
	min, max time.Duration
}

func (v durationValue) String() string { return shortDuration(*v.p) }
func (v durationValue) Type() string {
	return fmt.Sprintf("duration such as 90s or 20m, %s to %s", shortDuration(v.min), shortDuration(v.max))
}

func (v durationValue) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%s is no duration; write it with a unit, such as 90s, 20m or 2h", quote(s))
	}
	if d < v.min || d > v.max {
		return fmt.Errorf("%s is outside %s to %s", s, shortDuration(v.min), shortDuration(v.max))
	}
	*v.p = d
	return nil
}

// shortDuration drops the zero parts that Duration.String appends.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// listValue is a list, in one text separated by commas.
type listValue struct {
	p    *[]string
	typ  string
	rule func(string) (string, error)
}

func (v listValue) String() string { return strings.Join(*v.p, ",") }
func (v listValue) Type() string   { return v.typ }
func (v listValue) Set(s string) error {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		item, err := v.rule(item)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	*v.p = items
	return nil
}

// levelValue is a log level.
type levelValue struct{ p *slog.Level }

func (v levelValue) String() string { return strings.ToLower(v.p.String()) }
func (v levelValue) Type() string   { return "debug, info, warn, error" }
func (v levelValue) Set(s string) error {
	words := []string{"debug", "info", "warn", "error"}
	for i, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if s == words[i] {
			*v.p = level
			return nil
		}
	}
	return fmt.Errorf("%s is none of %s%s", quote(s), strings.Join(words, ", "), didYouMean(s, words))
}

// secretValue is never shown: errors do not repeat it and String masks it.
type secretValue struct {
	p   *account.Secret
	min int // characters
}

func (v secretValue) String() string { return v.p.String() }
func (v secretValue) Type() string   { return "secret" }
func (v secretValue) Set(s string) error {
	if err := checkKey(s, v.min); err != nil {
		return err
	}
	*v.p = account.NewSecret(s)
	return nil
}

// MinKey is how many characters a key that opens the server has at least.
const MinKey = 8

// CheckKey refuses what cannot be a key that opens the server. The error does not
// repeat it.
func CheckKey(key string) error { return checkKey(key, MinKey) }

func checkKey(s string, atLeast int) error {
	if len(s) < atLeast || len(s) > 1024 {
		return fmt.Errorf("the key has %d characters, not %d to 1024; make one with: openssl rand -hex 32", len(s), atLeast)
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return errors.New("the key has a character that cannot travel in an HTTP header (allowed: visible ASCII without spaces)")
		}
	}
	return nil
}

// quote shows a value in a message, bounded.
func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "..."
	}
	return strconv.Quote(s)
}

// coresValue is a number of processor cores; 0 = all.
type coresValue struct{ p *float64 }

func (v coresValue) String() string { return strconv.FormatFloat(*v.p, 'f', -1, 64) }
func (v coresValue) Type() string   { return "cores such as 0.5 or 2, 0 to 1024" }
func (v coresValue) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) {
		return fmt.Errorf("%s is no number of cores, such as 0.5", quote(s))
	}
	if n < 0 || n > 1024 || n > 0 && n < 0.05 {
		return fmt.Errorf("%s is neither 0 nor between 0.05 and 1024", quote(s))
	}
	*v.p = n
	return nil
}
