package golden_test

// limits: what ends a run before the agent does.
func limits() []scenario {
	return []scenario{
		{name: "max_iterations", rule: `After max_iterations steps a run that is not finished ends with
MaxIterationsReached (4.1). A message leaves the error; a run counts anew (2.3), and so
Parley says that trying again helps.`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), use(run("echo beta")), use(run("echo gamma")), text("Done."))
				p.show("alpha", "beta", "gamma")
				p.start(obj{"max_iterations": 2}, nil)
				p.ask("Look around.")
				p.await("error")
				p.say("Go on.")
				p.run()
				p.await("finished")
			}},
		{name: "last_iteration_finishes", rule: `A run that finishes with its last step is finished (4.1).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("Done."))
				p.show("alpha")
				p.start(obj{"max_iterations": 2}, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "max_budget", rule: `A run that has used up its budget ends with MaxBudgetReached (4.1). Parley looks
before a call, so that a budget is never exceeded, and it is the owner's settings
that have it; raising it lets the run go on.`,
			env: []string{},
			play: func(p *play) {
				answer := use(run("echo alpha"))
				answer.Usage = usage(1000, 100)
				p.replies(answer, text("Done."))
				p.show("alpha")
				// The first answer takes 0.1 USD, whatever the prompt has; the rest is too little for another one.
				p.house.UseModel("http://127.0.0.1:9/v1", obj{"max_budget_per_task": 0.1001})
				p.start(nil, obj{"llm": obj{"input_cost_per_token": 1e-9, "output_cost_per_token": 0.001, "max_output_tokens": 100}})
				p.ask("Look around.")
				p.await("error")
				p.note("> the budget is raised in the settings")
				p.house.UseModel("http://127.0.0.1:9/v1", obj{"max_budget_per_task": 20})
				p.run()
				p.await("finished")
			}},
	}
}

// repetitions: when an agent is stuck (4.5).
func repetitions() []scenario {
	times := func(n int, r reply) []reply {
		var all []reply
		for range n {
			all = append(all, r)
		}
		return all
	}
	until := func(end string, replies ...reply) func(p *play) {
		return func(p *play) {
			p.replies(replies...)
			p.show("alpha", "beta")
			p.start(nil, nil)
			p.ask("Look around.")
			p.await(end)
		}
	}
	alpha, beta, wrong := use(run("echo alpha")), use(run("echo beta")), use(call("teleport", `{"to":"Mars"}`))
	again := func(p *play) {
		until("stuck", append(times(4, alpha), alpha, text("Done."))...)(p)
		p.say("Do something else.")
		p.run()
		p.await("finished")
	}
	return []scenario{
		{name: "stuck_same_result", rule: `Four equal actions with equal results: stuck (4.5). The reason is an event of Parley's.
A message makes the conversation idle, and what came before it does not count.`, play: again},
		{name: "stuck_same_error", rule: `Three equal actions that fail: the agent is told once, by the environment; a fourth
one: stuck (4.5).`, play: until("stuck", times(4, wrong)...)},
		{name: "stuck_error_mended", rule: `An agent that does something else after the hint goes on (4.5).`,
			play: until("finished", append(times(3, wrong), text("Done."))...)},
		{name: "stuck_monologue", rule: `Three messages of the agent in a row: stuck. The nudges between them are the
environment's and do not count as the user's (4.5, trap 20).`, play: until("stuck", times(3, reply{})...)},
		{name: "stuck_alternating", rule: `Two things that take turns three times, with equal results: stuck (4.5).`,
			play: until("stuck", alpha, beta, alpha, beta, alpha, beta)},
		{name: "stuck_off", rule: `Without stuck detection the agent may repeat itself (2.1).`,
			play: func(p *play) {
				p.replies(append(times(5, alpha), text("Done."))...)
				p.show("alpha")
				p.start(obj{"stuck_detection": false}, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
	}
}
