package golden_test

import "fmt"

// thoughts are n answers that think about different things: two events each.
func thoughts(n int) []reply {
	var all []reply
	for i := range n {
		all = append(all, use(think(fmt.Sprintf("Point %d.", i+1))))
	}
	return all
}

const tooLong = "This model's maximum context length is 8192 tokens."

// memories: how a history that is too long becomes shorter (4.6).
func memories() []scenario {
	small := obj{"kind": "LLMSummarizingCondenser", "max_size": 10, "keep_first": 2}
	return []scenario{
		{name: "condense_events", rule: `With more events than max_size (here 12 and 10) the events behind the first
keep_first ones are forgotten, but for max_size/2 - keep_first - 1 at the end (here 2).
A Condensation is a step of its own; the summary stands at its offset, as a message
of the user's role, and the log keeps everything (3, 4.6).`,
			play: func(p *play) {
				p.replies(append(thoughts(5), text("Done."))...)
				p.asides(text("Points one to four are settled."))
				p.start(nil, obj{"condenser": small})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "condense_soft_failure", rule: `Where only the number of events is the reason and there is no summary to be had, the
run goes on as it is (4.6).`,
			play: func(p *play) {
				p.replies(append(thoughts(5), text("Done."))...)
				p.asides(text(""))
				p.start(nil, obj{"condenser": small})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "condensation_is_a_step", rule: `A condensation counts as an iteration (4.6): here it is the sixth of six.`,
			play: func(p *play) {
				p.replies(thoughts(5)...)
				p.asides(text("Points one to four are settled."))
				p.start(obj{"max_iterations": 6}, obj{"condenser": small})
				p.ask("Think it over.")
				p.await("error")
			}},
		{name: "condense_events_again", rule: `The next summary takes in the one before it (4.6).`,
			play: func(p *play) {
				p.replies(append(thoughts(9), text("Done."))...)
				p.asides(text("Points one to four are settled."), text("Points one to eight are settled."))
				p.start(nil, obj{"condenser": small})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "condense_tokens", rule: `With more tokens than max_tokens the events are forgotten until half of that is
left (4.6): here all but the first ones, because the last result alone is larger.`,
			play: func(p *play) {
				p.replies(append(thoughts(2), use(run("head -c 24000 /dev/zero | tr '\\0' x")), text("Done."))...)
				p.asides(text("A large result was seen."))
				p.start(nil, obj{"condenser": obj{"kind": "LLMSummarizingCondenser", "max_tokens": 7000}})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "condense_on_demand", rule: `A condensation that was asked for is a CondensationRequest and one step (1.3, 4.6): it
forgets all but the first keep_first events and len/2 - keep_first - 1 at the end,
batches whole. The status stays as it was.`,
			play: func(p *play) {
				p.replies(append(thoughts(4), text("Done."), text("I remember."))...)
				p.asides(text("All points are settled."))
				p.start(nil, obj{"condenser": obj{"kind": "LLMSummarizingCondenser"}})
				p.ask("Think it over.")
				p.await("finished")
				p.condense()
				p.ask("Do you remember?")
				p.await("finished")
			}},
		{name: "condense_overflow", rule: `When the provider refuses the history as too long, a CondensationRequest of the
environment and a condensation follow, and the step is made again (4.2, 4.6). The
estimate was wrong then: Parley takes a part of it as the limit, so that TOKENS is a
reason too, and here nothing but the first events is left, because the last result
alone has more than half of it.`,
			play: func(p *play) {
				p.replies(append(thoughts(3), use(run("head -c 12000 /dev/zero | tr '\\0' x")), refuse(400, tooLong), text("Done."))...)
				p.asides(text("All points are settled."))
				p.start(nil, obj{"condenser": obj{"kind": "LLMSummarizingCondenser"}})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "condense_malformed", rule: `A history that the provider takes for malformed is condensed too (4.2).`,
			play: func(p *play) {
				p.replies(append(thoughts(4), refuse(400, "messages: roles must alternate"), text("Done."))...)
				p.asides(text("All points are settled."))
				p.start(nil, obj{"condenser": obj{"kind": "LLMSummarizingCondenser"}})
				p.ask("Think it over.")
				p.await("finished")
			}},
		{name: "overflow_without_condenser", rule: `Without a condenser the overflow is an error (4.2).`,
			play: func(p *play) {
				p.replies(refuse(400, tooLong))
				p.start(nil, obj{"condenser": obj{"kind": "NoOpCondenser"}})
				p.ask("Think it over.")
				p.await("error")
			}},
		{name: "condense_hard_reset", rule: `When a summary that is needed cannot be had in part, the whole view is summarised, at
offset 0 (4.6).`,
			play: func(p *play) {
				p.replies(append(thoughts(3), use(run("head -c 6000 /dev/zero | tr '\\0' x")), refuse(400, tooLong), text("Done."))...)
				p.asides(text(""), text("Everything is settled."))
				p.start(nil, obj{"condenser": obj{"kind": "LLMSummarizingCondenser"}})
				p.ask("Think it over.")
				p.await("finished")
			}},
	}
}
