package bedrock

import (
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

// vendor is whose model it is: Converse is one wire, but what models take beyond
// it is each vendor's own.
type vendor string

const (
	claude  vendor = "claude"
	nova    vendor = "nova"
	openai  vendor = "openai"
	mistral vendor = "mistral"
	other   vendor = "other"   // known to be none of these
	unknown vendor = "unknown" // an ARN that does not say
)

// family is what is known of a model by its name.
type family struct {
	vendor  vendor
	version float64 // of Claude and Nova: 4.5; 0 = unknown
	dated   string  // the rest of a Claude id
}

var (
	claudeVersion = lazyre.MustCompile(`claude-(?:opus-|sonnet-|haiku-)?([0-9]+)(?:[-.]([0-9]{1,2})(?:[^0-9]|$))?`)
	novaVersion   = lazyre.MustCompile(`nova-([0-9])-`)
)

// familyOf reads a model's id; canonical, where set, is what it really is.
func familyOf(id, canonical string) family {
	text := strings.ToLower(id)
	if canonical != "" {
		text = strings.ToLower(canonical)
	}
	switch {
	case strings.Contains(text, "claude"):
		return family{vendor: claude, version: versionIn(claudeVersion, text), dated: text}
	case strings.Contains(text, "nova-"):
		return family{vendor: nova, version: max(versionIn(novaVersion, text), 1)}
	case strings.Contains(text, "openai."), strings.Contains(text, "gpt-"):
		return family{vendor: openai}
	case strings.Contains(text, "mistral"):
		return family{vendor: mistral}
	case strings.Contains(text, "application-inference-profile/"), strings.Contains(text, "provisioned-model/"),
		strings.Contains(text, "prompt-router/"), strings.Contains(text, "custom-model-deployment/"):
		return family{vendor: unknown}
	}
	return family{vendor: other}
}

func versionIn(pattern *lazyre.Regexp, text string) float64 {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || v > 100 {
		return 0
	}
	if len(m) > 2 && m[2] != "" {
		if minor, err := strconv.ParseFloat(m[2], 64); err == nil {
			v += minor / 10
		}
	}
	return v
}

// caches reports whether cache points are worth a try. Only the first Claude 3
// models are known not to take them; what an ARN hides may take them, and if not
// says so.
func (f family) caches() bool {
	switch f.vendor {
	case claude:
		old := f.version > 0 && f.version <= 3 || strings.Contains(f.dated, "claude-3-5-sonnet-20240620") ||
			strings.Contains(f.dated, "instant") || strings.Contains(f.dated, "claude-v2")
		return !old
	case nova, unknown:
		return true
	}
	return false
}

// cachesTools: Nova keeps its cache points in the system prompt and the messages.
func (f family) cachesTools() bool { return f.caches() && f.vendor != nova }

// richResults reports whether tool results may hold images and a status.
func (f family) richResults() bool {
	return f.vendor == claude || f.vendor == nova || f.vendor == unknown
}

// adaptive reports whether a Claude model decides itself how long it thinks.
// Newer ones refuse to be told a number of tokens; those not known are taken for
// new, and learned otherwise.
func (f family) adaptive() bool { return f.version == 0 || f.version >= 4.6 }
