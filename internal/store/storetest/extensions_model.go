package storetest

import (
	"cmp"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"parley/internal/extension"
	"parley/internal/fault"
)

// verdicts is the decisions of owners as their rules say it: lists without order.
type verdicts map[string][]extension.Decision

func (v verdicts) decide(owner string, d extension.Decision) {
	v[owner] = append(slices.DeleteFunc(v[owner], func(old extension.Decision) bool {
		return old.Subject == d.Subject && old.Hash == d.Hash
	}), d)
}

// forget reports whether there was anything.
func (v verdicts) forget(owner, subject string) bool {
	before := len(v[owner])
	v[owner] = slices.DeleteFunc(v[owner], func(d extension.Decision) bool { return d.Subject == subject })
	return len(v[owner]) < before
}

// newest lists as the seam does; those of one moment in an order of their own.
func (v verdicts) newest(owner string) []extension.Decision {
	return slices.SortedFunc(slices.Values(v[owner]), func(a, b extension.Decision) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Hash, b.Hash))
	})
}

// decisionsLikeModel drives the store and the lists with the same random history.
func decisionsLikeModel(s *suite) {
	run := 0
	names := func(list ...string) *rapid.Generator[string] { return rapid.SampledFrom(list) }
	rapid.Check(s.T, func(t *rapid.T) {
		run++
		model := verdicts{}
		owner := func() string { return fmt.Sprint("run", run, names("u", "v").Draw(t, "owner")) }
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				o, d := owner(), decision(names("r", "R", "r2").Draw(t, "subject"), names("", "1", "2").Draw(t, "hash"),
					rapid.Bool().Draw(t, "trusted"), rapid.IntRange(0, 4).Draw(t, "at"))
				model.decide(o, d)
				s.decide(o, d)
			},
			"forget": func(t *rapid.T) {
				o, subject := owner(), names("r", "R", "r2").Draw(t, "subject")
				err := s.Extensions().Forget(s.ctx, o, subject)
				if found := model.forget(o, subject); found != (err == nil) || !found && !fault.Is(err, fault.NotFound) {
					t.Fatalf("forget %s of %s: %v, in the model %v", subject, o, err, found)
				}
			},
			"": func(t *rapid.T) {
				for o := range model {
					if got := s.decisions(o); !slices.Equal(got, model.newest(o)) {
						t.Fatalf("decisions of %s:\n got %v\nwant %v", o, got, model.newest(o))
					}
				}
			},
		})
	})
}
