package anthropic

import (
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

// family is what a model's name says about it.
type family struct {
	claude  bool
	always  bool // a line of models that only ever thought adaptively
	version int  // 406 = 4.6; 0 = the name does not say
}

// claudeName finds the line and the version in all the spellings: claude-opus-4-6,
// claude-3-7-sonnet-20250219, anthropic/claude-opus-4.6, anthropic.claude-opus-5-v1:0.
var claudeName = lazyre.MustCompile(`claude-(?:(\d)(?:[.-](\d))?-)?(opus|sonnet|haiku|fable|mythos)(?:-(\d{1,2})(?:[.-](\d{1,2}))?(?:\D|$))?`)

func familyOf(model string) family {
	model = strings.ToLower(model)
	f := family{claude: strings.Contains(model, "claude")}
	g := claudeName.FindStringSubmatch(model)
	if g == nil {
		return f
	}
	major, minor := g[4], g[5]
	if major == "" {
		major, minor = g[1], g[2]
	}
	f.version = number(major)*100 + number(minor)
	f.always = g[3] == "fable" || g[3] == "mythos"
	return f
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// since reports whether the model is of this version or later; so is one of
// Claude's whose name does not tell.
func (f family) since(version int) bool {
	return f.claude && (f.version == 0 || f.always || f.version >= version)
}

func (f family) style() style {
	if f.since(406) {
		return thinkAdaptively
	}
	return thinkByBudget
}

// thinksUnasked: a request without a word on thinking thinks.
func (f family) thinksUnasked() bool { return f.since(500) }

// canStop: thinking may be disabled.
func (f family) canStop() bool { return f.thinksUnasked() && !f.always && !f.since(505) }

// hidesThoughts: the text of thoughts comes only if it is asked for.
func (f family) hidesThoughts() bool { return f.since(407) }

// samples: temperature, top_p and top_k may be set. Where the name does not
// tell, the endpoint will.
func (f family) samples() bool { return !f.since(407) || (f.version == 0 && !f.always) }

// interleaves: thinks between tool calls, if a header asks for it.
func (f family) interleaves() bool { return f.claude && f.version >= 400 && f.version < 406 }
