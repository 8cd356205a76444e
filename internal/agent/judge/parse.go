package judge

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// ErrUnreadable is what Parse says of an answer without a verdict.
var ErrUnreadable = errors.New("the judge's answer holds no verdict")

// Bounds of what is read.
const (
	maxAnswer  = 64 << 10 // bytes of the answer, from its end
	maxObjects = 200      // places where an object may begin, from the end
	maxMissing = 4_000    // bytes
	// leastComplete is the score below which "complete" is not believed.
	leastComplete = 0.5
)

// Parse reads a model's verdict. It finds the object in code fences and between
// words, the last one if there are several, and accepts what models write in place
// of the right types: a score as a percentage, a fraction or text, a truth value as
// a word, a list of what is missing. A verdict needs a score or says whether it is
// complete; "complete" with a score below one half is not. What cannot be
// understood is ErrUnreadable: nothing is guessed in favour of the agent.
func Parse(answer string) (conversation.GoalVerdict, error) {
	var found *conversation.GoalVerdict
	if len(answer) > maxAnswer {
		answer = answer[len(answer)-maxAnswer:]
	}
	end := 0 // of the last verdict: what is inside it is part of it
	for _, at := range openings(answer) {
		if at < end {
			continue
		}
		text := object(answer[at:])
		if text == "" {
			continue
		}
		if v, ok := verdict(text); ok {
			found, end = &v, at+len(text)
		}
	}
	if found == nil {
		return conversation.GoalVerdict{}, ErrUnreadable
	}
	return *found, nil
}

// openings returns where an object may begin, the last ones if there are many.
func openings(s string) []int {
	var at []int
	for i := len(s) - 1; i >= 0 && len(at) < maxObjects; i-- {
		if s[i] == '{' {
			at = append(at, i)
		}
	}
	slices.Reverse(at)
	return at
}

// object returns the text up to the brace that closes the first one, "" if none does.
func object(s string) string {
	depth, inString, escaped := 0, false, false
	for i := range len(s) {
		switch c := s[i]; {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s[:i+1]
			}
		}
	}
	return ""
}

// verdict reads an object, false if it is none or says nothing useful.
func verdict(text string) (conversation.GoalVerdict, bool) {
	var v conversation.GoalVerdict
	decoded, err := tool.DecodeArguments([]byte(text))
	if err != nil {
		return v, false
	}
	members := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(decoded)) { // "score" wins over "Score"
		if value := decoded[name]; value != nil {
			members[strings.ToLower(strings.TrimSpace(name))] = value
		}
	}
	rawScore, hasScore := members["score"]
	rawComplete, hasComplete := members["complete"]
	if !hasScore && !hasComplete {
		return v, false
	}
	var okScore, okComplete = true, true
	if hasScore {
		v.Score, okScore = score(rawScore)
	}
	if hasComplete {
		v.Complete, okComplete = truth(rawComplete)
	}
	switch {
	case !okScore, !okComplete:
		return v, false
	case !hasScore && v.Complete:
		v.Score = 1
	case !hasComplete:
		v.Complete = v.Score == 1
	}
	v.Complete = v.Complete && v.Score >= leastComplete
	v.Missing = missing(members["missing"])
	return v, true
}

// score reads a number between 0 and 1. Above 1 it is a percentage.
func score(raw any) (float64, bool) {
	switch raw := raw.(type) {
	case json.Number:
		f, err := raw.Float64()
		return unit(f, err == nil)
	case bool:
		return 0, false
	case string:
		return scoreText(raw)
	}
	return 0, false
}

// scoreText reads "0.8", "80%", "80 %", "8/10" and "8 out of 10".
func scoreText(s string) (float64, bool) {
	s = strings.TrimSpace(strings.ToLower(s))
	if number, ok := strings.CutSuffix(s, "%"); ok {
		f, ok := decimal(number)
		return within(f/100, ok)
	}
	if part, whole, ok := strings.Cut(strings.ReplaceAll(s, " out of ", "/"), "/"); ok {
		f, ok1 := decimal(part)
		of, ok2 := decimal(whole)
		return within(f/of, ok1 && ok2 && of > 0)
	}
	return unit(decimal(s))
}

func decimal(s string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return f, err == nil
}

func unit(f float64, ok bool) (float64, bool) {
	if f > 1 {
		f /= 100
	}
	return within(f, ok)
}

func within(f float64, ok bool) (float64, bool) {
	if !ok || math.IsNaN(f) || f < 0 || f > 1 {
		return 0, false
	}
	return f + 0, true // -0 is 0
}

// truth reads a truth value as models write it.
func truth(raw any) (value, ok bool) {
	switch raw := raw.(type) {
	case bool:
		return raw, true
	case json.Number:
		f, err := raw.Float64()
		return f == 1, err == nil && (f == 0 || f == 1)
	case string:
		switch strings.ToLower(strings.TrimSpace(raw)) {
		case "true", "yes", "1":
			return true, true
		case "false", "no", "0", "partial", "partially":
			return false, true
		}
	}
	return false, false
}

// missing reads a text, a list of texts, or whatever else as JSON.
func missing(raw any) string {
	return strings.TrimSpace(clip(strings.TrimSpace(clean(missingText(raw))), maxMissing))
}

func missingText(raw any) string {
	switch raw := raw.(type) {
	case nil, bool:
		return ""
	case string:
		return raw
	case []any:
		var items []string
		for _, item := range raw {
			if text := strings.TrimSpace(missingText(item)); text != "" {
				items = append(items, "- "+text)
			}
		}
		return strings.Join(items, "\n")
	}
	b, err := content.Marshal(raw)
	if err != nil { // a decoded value always encodes
		return ""
	}
	return string(b)
}
