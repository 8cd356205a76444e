package failure

import (
	"encoding/json"
	"html"
	"strconv"
	"strings"
	"time"

	"parley/internal/lazyre"
)

// report is what an error body says, whatever its shape.
type report struct {
	message string
	codes   string // code, type and status members, for matching
	status  int    // an HTTP status inside the body; 0 = none
	retry   time.Duration
}

// text is everything the rules match on.
func (r report) text() string { return strings.ToLower(r.message + " " + r.codes) }

// maxDepth bounds how deep nested error objects are followed.
const maxDepth = 5

// parse reads an error body: the JSON shapes of the known endpoints, HTML of
// proxies, plain text.
func parse(body []byte) report {
	var v any
	if json.Unmarshal(body, &v) == nil {
		var r report
		r.take(v, 0)
		return r
	}
	return report{message: plainText(string(body))}
}

func (r *report) take(v any, depth int) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case string:
		r.takeString(v, depth)
	case []any:
		r.takeList(v, depth)
	case map[string]any:
		r.takeObject(v, depth)
	}
}

// takeString reads a message; some gateways put the upstream's JSON body in it.
func (r *report) takeString(s string, depth int) {
	var nested map[string]any
	if strings.HasPrefix(strings.TrimSpace(s), "{") && json.Unmarshal([]byte(s), &nested) == nil {
		before := r.message
		r.takeObject(nested, depth+1)
		if r.message != before {
			return
		}
	}
	r.say(plainText(s))
}

func (r *report) say(s string) {
	switch {
	case s == "" || strings.Contains(r.message, s):
	case r.message == "":
		r.message = s
	default:
		r.message += ": " + s
	}
}

// takeList reads the first few elements: error objects or validation findings.
func (r *report) takeList(list []any, depth int) {
	for i, v := range list {
		if i == 3 {
			return
		}
		r.take(v, depth+1)
	}
}

func (r *report) takeObject(o map[string]any, depth int) {
	if depth > maxDepth {
		return
	}
	if loc, ok := o["loc"].([]any); ok { // one finding of a validation error
		r.say(joinLoc(loc))
	}
	for _, key := range []string{"message", "Message", "msg", "error", "errors", "detail", "error_description", "error_message", "reason"} {
		r.take(o[key], depth+1)
	}
	for _, key := range []string{"code", "type", "__type", "status", "param"} {
		r.takeCode(o[key])
	}
	if meta, ok := o["metadata"].(map[string]any); ok { // a router's note on its upstream
		r.take(meta["raw"], depth+1)
	}
	r.takeDetails(o)
	if nested, ok := o["error"].(map[string]any); ok {
		r.takeDetails(nested)
	}
}

func (r *report) takeCode(v any) {
	switch v := v.(type) {
	case string:
		r.codes += " " + v
		if n, err := strconv.Atoi(v); err == nil {
			r.takeStatus(n)
		}
	case float64:
		r.takeStatus(int(v))
	}
}

func (r *report) takeStatus(n int) {
	if n >= 400 && n < 600 && r.status == 0 {
		r.status = n
	}
}

// takeDetails reads the details of a google.rpc.Status: RetryInfo, ErrorInfo and
// the quotas of QuotaFailure, whose names tell a daily one from one per minute.
func (r *report) takeDetails(o map[string]any) {
	details, _ := o["details"].([]any)
	for _, d := range details {
		m, _ := d.(map[string]any)
		s, _ := m["retryDelay"].(string)
		if wait, err := time.ParseDuration(s); err == nil && wait > 0 {
			r.retry = wait
		}
		r.takeCode(m["reason"])
		violations, _ := m["violations"].([]any)
		for _, v := range violations {
			violation, _ := v.(map[string]any)
			r.takeCode(violation["quotaId"])
		}
	}
}

func joinLoc(loc []any) string {
	parts := make([]string, 0, len(loc))
	for _, l := range loc {
		switch l := l.(type) {
		case string:
			parts = append(parts, l)
		case float64:
			parts = append(parts, strconv.Itoa(int(l)))
		}
	}
	return strings.Join(parts, ".")
}

var (
	titleTag = lazyre.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	noText   = lazyre.MustCompile(`(?is)<(script|style)[^>]*>.*?</(script|style)>`)
	anyTag   = lazyre.MustCompile(`(?s)<[^>]*>`)
)

// plainText reduces HTML to its title, or its text if it has none, and folds
// white space and control characters.
func plainText(s string) string {
	if low := strings.ToLower(s); strings.Contains(low, "<html") || strings.Contains(low, "<!doctype") {
		if m := titleTag.FindStringSubmatch(s); m != nil && strings.TrimSpace(m[1]) != "" {
			s = m[1]
		} else {
			s = anyTag.ReplaceAllString(noText.ReplaceAllString(s, " "), " ")
		}
		s = html.UnescapeString(s)
	}
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}
