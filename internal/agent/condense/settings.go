package condense

import (
	"slices"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// What holds where nothing else is said (agent protocol 4.6). DefaultMaxSize is how
// many events the model reads of a conversation whose owner said nothing.
const (
	DefaultMaxSize   = 80 // events; of the condenser that nobody configured
	defaultKeepFirst = 4
	planMaxSize      = 100 // of the planning agent's
	planKeepFirst    = 6
	bareMaxSize      = 240 // of an LLMSummarizingCondenser without numbers
	bareKeepFirst    = 2
	defaultProgress  = 0.1
	defaultResets    = 5
	defaultScaling   = 0.8
)

// Bounds of what may be asked for.
const (
	maxResets = 20 // each is a call that is paid for
	maxParts  = 16 // condensers in a pipeline, nested ones included
)

// Config is one summarising condenser, complete.
type Config struct {
	LLM             *account.LLM // that summarises; nil = the agent's
	MaxSize         int          // events the model reads at most
	MaxTokens       int64        // tokens the model reads at most; 0 = what its window holds
	KeepFirst       int          // events at the start that stay
	MinimumProgress float64      // part of the events that must go, between 0 and 1
	Resets          int          // attempts at a summary of everything, >= 1
	Scaling         float64      // how much of an event's text each further attempt shows, between 0 and 1
}

// Settings are the condensers of a conversation in the order in which they are
// asked. None means that nothing is condensed unless it is asked for.
type Settings []Config

// Handles reports whether a prompt that is too long is a reason to ask for a
// condensation (agent protocol 4.2). Where it is not, the user has turned
// condensing off; a request is met all the same.
func (s Settings) Handles() bool { return len(s) > 0 }

// Defaults are what decides about a condenser that the conversation does not
// configure itself.
type Defaults struct {
	Enabled  bool // account.Settings.EnableDefaultCondenser
	MaxSize  *int // account.Settings.CondenserMaxSize, raised to its minimum; nil = the default
	Planning bool // the planning agent's, which keeps more
}

// config is the condenser that nobody configured.
func (d Defaults) config() Config {
	c := Config{MaxSize: DefaultMaxSize, KeepFirst: defaultKeepFirst,
		MinimumProgress: defaultProgress, Resets: defaultResets, Scaling: defaultScaling}
	if d.Planning {
		c.MaxSize, c.KeepFirst = planMaxSize, planKeepFirst
	}
	if d.MaxSize != nil {
		c.MaxSize = max(*d.MaxSize, account.MinCondenserSize)
	}
	return c
}

// FromOptions returns the condensers that hold: the conversation's own, or else
// the default one as the owner's settings say. The error is Invalid and names the
// members; loc is where the condenser stands in the request.
func FromOptions(own *conversation.Condenser, d Defaults, loc ...any) (Settings, error) {
	r := &reader{}
	switch {
	case own != nil:
		r.read(own, loc)
	case d.Enabled:
		r.add(d.config(), loc)
	}
	if len(r.fields) > 0 {
		return nil, account.Invalid(r.fields)
	}
	return r.settings, nil
}

// reader reads a condenser, or a pipeline of them, and collects what is wrong.
type reader struct {
	settings Settings
	parts    int
	fields   []fault.Field
}

func (r *reader) read(c *conversation.Condenser, loc []any) {
	if r.parts++; r.parts > maxParts {
		if r.parts == maxParts+1 {
			r.wrong(loc, "too_long", nil, "Value error, A pipeline may have 16 condensers in all")
		}
		return
	}
	switch c.Kind {
	case conversation.CondenserNone:
	case conversation.CondenserSummarizing:
		r.add(configOf(c), loc)
	case conversation.CondenserPipeline:
		for i := range c.Condensers {
			r.read(&c.Condensers[i], at(loc, "condensers", i))
		}
	default:
		r.wrong(at(loc, "kind"), "value_error", c.Kind, "Value error, Unknown kind of condenser; known are "+
			conversation.CondenserSummarizing+", "+conversation.CondenserNone+" and "+conversation.CondenserPipeline)
	}
}

// configOf fills in what a condenser leaves out.
func configOf(c *conversation.Condenser) Config {
	out := Config{LLM: c.LLM, MaxSize: c.MaxSize, MaxTokens: c.MaxTokens, KeepFirst: bareKeepFirst,
		MinimumProgress: defaultProgress, Resets: defaultResets, Scaling: defaultScaling}
	if out.MaxSize == 0 {
		out.MaxSize = bareMaxSize
	}
	set(&out.KeepFirst, c.KeepFirst)
	set(&out.MinimumProgress, c.MinimumProgress)
	set(&out.Resets, c.ResetRetries)
	set(&out.Scaling, c.ResetScaling)
	return out
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// add checks a condenser and takes it.
func (r *reader) add(c Config, loc []any) {
	r.check(c.MaxSize > 0, loc, "max_size", c.MaxSize, "Input should be greater than 0")
	r.check(c.MaxTokens >= 0, loc, "max_tokens", c.MaxTokens, "Input should be greater than or equal to 0")
	r.check(c.KeepFirst >= 0, loc, "keep_first", c.KeepFirst, "Input should be greater than or equal to 0")
	r.check(c.MinimumProgress > 0 && c.MinimumProgress < 1, loc, "minimum_progress", c.MinimumProgress,
		"Input should be greater than 0 and less than 1")
	r.check(c.Resets > 0 && c.Resets <= maxResets, loc, "hard_context_reset_max_retries", c.Resets,
		"Input should be greater than 0 and at most 20")
	r.check(c.Scaling > 0 && c.Scaling < 1, loc, "hard_context_reset_context_scaling", c.Scaling,
		"Input should be greater than 0 and less than 1")
	if len(r.fields) == 0 { // then the numbers are sane
		r.check(c.MaxSize/2-c.KeepFirst-1 > 0, loc, "keep_first", c.KeepFirst,
			"Value error, keep_first must be less than max_size // 2 - 1 to leave room for condensation")
	}
	r.settings = append(r.settings, c)
}

func (r *reader) check(ok bool, loc []any, name string, input any, msg string) {
	if !ok {
		r.wrong(at(loc, name), "value_error", input, msg)
	}
}

func (r *reader) wrong(loc []any, rule string, input any, msg string) {
	r.fields = append(r.fields, fault.Field{Loc: loc, Type: rule, Msg: msg, Input: input,
		Ctx: map[string]any{"error": map[string]any{}}})
}

// at extends a location without sharing its memory.
func at(loc []any, more ...any) []any { return slices.Concat(loc, more) }
