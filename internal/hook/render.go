package hook

import "parley/internal/content"

// MarshalJSON writes the canonical form: the six events, each with its list. Parse
// reads it.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config // without this method
	out := plain{}
	for _, event := range Events {
		*(*Config)(&out).matchers(event) = complete(*c.matchers(event))
	}
	return content.Marshal(out)
}

// complete has lists where a Config that was not parsed has none.
func complete(in []Matcher) []Matcher {
	out := make([]Matcher, len(in))
	for i, m := range in {
		out[i] = Matcher{Matcher: m.Matcher, Hooks: append([]Definition{}, m.Hooks...)}
		for k := range out[i].Hooks {
			d := &out[i].Hooks[k]
			d.Tools = append([]string{}, d.Tools...)
		}
	}
	return out
}
