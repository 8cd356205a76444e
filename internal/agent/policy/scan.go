package policy

import (
	"parley/internal/conversation"
)

// Bounds of judging one call. What is beyond them is not judged, and the call is
// UNKNOWN unless what was judged is already HIGH.
const (
	maxShell  = 64 << 10  // bytes of one shell text; the parser is recursive
	maxParsed = 256 << 10 // bytes of shell text in all, with what is run by what is run
	maxSteps  = 50_000    // statements, words and expansions, longer texts counted more than once
	maxText   = 512 << 10 // bytes of text of one call
	maxNested = 500       // open brackets of a shell text
	maxLevel  = 400       // nested statements that are walked
	maxRuns   = 12        // shell texts in shell texts
)

// rule names what was found.
type rule string

// The rails: what is dangerous whatever the circumstances.
const (
	fetchToExec        rule = "fetch_to_exec"
	rawDisk            rule = "raw_disk_op"
	catastrophicDelete rule = "catastrophic_delete"
)

// isRail reports whether the rule is one of the rails.
func (r rule) isRail() bool {
	return r == fetchToExec || r == rawDisk || r == catastrophicDelete
}

// scan is the judging of one call: what was found so far, and what is left of the
// bounds.
type scan struct {
	risk  string
	rule  rule
	rail  rule   // "" = none
	doubt string // why a part could not be judged, "" = all was
	steps int
	bytes int
}

func newScan() *scan {
	return &scan{risk: conversation.RiskLow, steps: maxSteps, bytes: maxParsed}
}

// find notes something dangerous.
func (s *scan) find(r rule, risk string) {
	if rank(risk) > rank(s.risk) {
		s.risk, s.rule = risk, r
	}
	if r.isRail() && risk == conversation.RiskHigh && s.rail == "" {
		s.rail = r
	}
}

func (s *scan) high(r rule) { s.find(r, conversation.RiskHigh) }

func (s *scan) medium(r rule) { s.find(r, conversation.RiskMedium) }

// unclear notes that a part could not be judged. The first reason is kept.
func (s *scan) unclear(why string) {
	if s.doubt == "" {
		s.doubt = why
	}
}

// spend takes a step; false means that none is left.
func (s *scan) spend() bool {
	if s.steps <= 0 {
		s.unclear("too much to judge")
		return false
	}
	s.steps--
	return true
}

// bytesPerStep is how much text is worth a step.
const bytesPerStep = 64

// charge takes the steps that a text is worth which is looked at as a whole.
func (s *scan) charge(d ...data) {
	for _, d := range d {
		s.steps -= len(d.text) / bytesPerStep
	}
}

// aside judges something that does not count as done: its dangers do, but not
// that parts of it could not be judged.
func (s *scan) aside(judge func()) {
	before := s.doubt
	judge()
	if s.steps > 0 && s.bytes > 0 {
		s.doubt = before
	}
}

// pattern is what the pattern analyzer makes of what was found.
func (s *scan) pattern() assessment { return s.assessment(s.risk, s.rule) }

// rails is what the rails make of it.
func (s *scan) rails() assessment {
	if s.rail != "" {
		return s.assessment(conversation.RiskHigh, s.rail)
	}
	return s.assessment(conversation.RiskLow, "")
}

// assessment is LOW where all was judged and nothing was found, and no judgement
// where nothing was found in what could be judged.
func (s *scan) assessment(risk string, r rule) assessment {
	a := assessment{risk: risk, unclear: s.doubt != "", reason: string(r)}
	if a.unclear && risk != conversation.RiskHigh {
		a.reason = s.doubt
	}
	if a.unclear && risk == conversation.RiskLow {
		a.risk = ""
	}
	return a
}
