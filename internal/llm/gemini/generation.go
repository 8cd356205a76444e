package gemini

import (
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

// generation is what a model's name tells of its abilities. The API has other
// rules for each generation and does not say which ones hold.
type generation struct {
	number float64 // 2.5; 0 = unknown
	pro    bool
	lite   bool
	flash  bool
	gemini bool // it is a Gemini at all, not a Gemma or a name of the user's own
}

var generationNumber = lazyre.MustCompile(`gemini-([0-9]+(?:\.[0-9]+)?)`)

func generationOf(model string) generation {
	name := strings.ToLower(model)
	g := generation{pro: strings.Contains(name, "-pro"), lite: strings.Contains(name, "flash-lite"),
		flash: strings.Contains(name, "flash"), gemini: strings.Contains(name, "gemini")}
	if m := generationNumber.FindStringSubmatch(name); m != nil {
		g.number, _ = strconv.ParseFloat(m[1], 64) // the expression is a number
	}
	return g
}

// signs reports whether the first call of a step must carry a signature. Names
// without a number ("gemini-flash-latest") mean the newest.
func (g generation) signs() bool { return g.gemini && (g.number == 0 || g.number >= 3) }

// levels reports whether thinking is set by a level instead of a budget.
func (g generation) levels() bool { return g.signs() }

// knowsNoThinking reports whether the model is too old to think.
func (g generation) knowsNoThinking() bool { return g.number > 0 && g.number < 2.5 }

// showsImagesInResults reports whether a function response may hold images.
func (g generation) showsImagesInResults() bool { return g.number >= 3 }

// fetches reports whether the model takes the address of an image.
func (g generation) fetches() bool { return g.number == 0 || g.number >= 2.5 }

// Thinking levels, as the definitions of both Google APIs spell them.
const (
	levelMinimal = "MINIMAL"
	levelLow     = "LOW"
	levelMedium  = "MEDIUM"
	levelHigh    = "HIGH"
)

// level returns the nearest thinking level to an effort that the model has; "" =
// its default.
func (g generation) level(effort string) string {
	switch effort {
	case "none", "minimal":
		if g.lite || (g.flash && g.number >= 3 && g.number < 3.7) {
			return levelMinimal
		}
		return levelLow
	case "low":
		return levelLow
	case "medium":
		if g.pro && g.number == 3 {
			return levelHigh // it has two levels only
		}
		return levelMedium
	case "high", "xhigh":
		return levelHigh
	}
	return ""
}

// levelOfBudget is the level nearest to a number of tokens.
func (g generation) levelOfBudget(tokens int64) string {
	switch {
	case tokens <= 2048:
		return g.level("low")
	case tokens <= 12288:
		return g.level("medium")
	}
	return levelHigh
}

// budgets are the bounds of a thinking budget, in tokens. Where low is above 0,
// thinking cannot be turned off, or (off) only by 0 itself.
func (g generation) budgets() (low, high int64, off bool) {
	switch {
	case g.pro:
		return 128, 32768, false
	case g.lite:
		return 512, 24576, true
	}
	return 1, 24576, true
}

// budgetOf turns an effort into tokens; -1 = the model decides.
func (g generation) budgetOf(effort string) int64 {
	_, high, _ := g.budgets()
	switch effort {
	case "none":
		return 0
	case "minimal":
		return 512
	case "low":
		return 1024
	case "medium":
		return 8192
	case "high":
		return 24576
	case "xhigh":
		return high
	}
	return -1
}

// clampBudget makes a budget one that the model takes. output bounds the whole
// answer, of which thinking may have half; 0 = no bound.
func (g generation) clampBudget(tokens, output int64) int64 {
	low, high, off := g.budgets()
	switch {
	case tokens < 0:
		return tokens
	case tokens == 0 && off:
		return 0
	}
	if output > 0 {
		tokens = min(tokens, output/2)
	}
	return min(max(tokens, low), high)
}
