package golden_test

// judgements: critics and refinement (4.7).
func judgements() []scenario {
	return []scenario{
		{name: "critic", rule: `A critic's result is on the event that it judges: a message of the agent, or finish
(4.7). Without refinement it changes nothing.`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("There are three."), use(finish("Three.")))
				p.show("alpha", "Three.")
				p.start(nil, obj{"critic": obj{"kind": "AgentFinishedCritic"}})
				p.ask("Count the files.")
				p.await("finished")
				p.ask("And now finish.")
				p.await("finished")
			}},
		{name: "critic_all_actions", rule: `With the mode all_actions every answer is judged (4.7), by Parley on its last event.`,
			play: func(p *play) {
				p.replies(use(run("echo alpha"), run("echo beta")), text("There are three."))
				p.show("alpha", "beta")
				p.start(nil, obj{"critic": obj{"kind": "PassCritic", "mode": "all_actions"}})
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "critic_refines", rule: `With refinement a score below the threshold keeps the run from finishing: a message
of the user's source follows, the counter in agent_state goes up, and the agent works
on (4.7). A message of the user's own resets the counter.`,
			play: func(p *play) {
				p.replies(text("There are three."), use(finish("Three.")), text("Four."), use(finish("Really four.")))
				p.show("Three.", "Really four.")
				p.start(nil, obj{"critic": obj{"kind": "AgentFinishedCritic", "iterative_refinement": obj{"success_threshold": 0.6, "max_iterations": 3}}})
				p.ask("Count the files.")
				p.await("finished")
				p.ask("Look again.")
				p.await("finished")
			}},
		{name: "critic_gives_up", rule: `After max_iterations refinements the run finishes, whatever the score (4.7).`,
			play: func(p *play) {
				p.replies(text("There are three."), text("Still three."))
				p.start(nil, obj{"critic": obj{"kind": "AgentFinishedCritic", "iterative_refinement": obj{"max_iterations": 1}}})
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "critic_of_finish", rule: `So with finish: its observation is emitted, then comes the refinement (4.3, 4.7).`,
			play: func(p *play) {
				p.replies(use(finish("Three.")), text("There are three, see."))
				p.asides(text(`{"score": 0.2, "complete": false, "missing": "Show them."}`), text(`{"score": 0.9, "complete": true, "missing": ""}`))
				p.show("Three.", "Show them.")
				p.start(nil, obj{"critic": obj{"kind": "LLMCritic", "iterative_refinement": obj{}}})
				p.ask("Count the files.")
				p.await("finished")
			}},
	}
}

const (
	half = `{"score": 0.5, "complete": false, "missing": "The tests."}`
	full = `{"score": 1, "complete": true, "missing": ""}`
)

// goals: an objective over several runs (4.7).
func goals() []scenario {
	return []scenario{
		{name: "goal_complete", rule: `A goal sends its objective and runs. A judge looks at each run; what is missing is the
next message, until the goal is complete. The goal is told in state updates (3, 4.7).`,
			play: func(p *play) {
				first, release := text(half).held()
				second, releaseAgain := text(full).held()
				p.replies(text("The code is there."), text("The tests are there."))
				p.asides(first, second)
				p.show("The tests.")
				p.start(nil, nil)
				p.goal("Code with tests.", 3)
				p.awaitAsked("a1")
				p.awaitFull()
				release()
				p.awaitAsked("a2")
				p.awaitFull()
				releaseAgain()
				p.awaitGoal("complete")
			}},
		{name: "goal_capped", rule: `A goal that is not complete after its last run is capped (4.7).`,
			play: func(p *play) {
				verdict, release := text(half).held()
				p.replies(text("The code is there."))
				p.asides(verdict)
				p.show("The tests.")
				p.start(nil, nil)
				p.goal("Code with tests.", 1)
				p.awaitAsked("a1")
				p.awaitFull()
				release()
				p.awaitGoal("capped")
			}},
		{name: "goal_interrupted_by_message", rule: `A normal message of the user stops a goal (4.7).`,
			play: func(p *play) {
				answer, release := text("The code is there.").held()
				p.replies(answer, text("The book is there."))
				p.start(nil, nil)
				p.goal("Code with tests.", 3)
				p.awaitAsked("r1")
				p.ask("Write a book instead.")
				release()
				p.await("finished")
			}},
		{name: "goal_stopped_and_resumed", rule: `A goal can be stopped, which ends its run at the next step, and resumed (1.3, 4.7).
There is nothing to resume once it is complete.`,
			play: func(p *play) {
				answer, release := use(run("echo alpha")).held()
				verdict, judge := text(full).held()
				p.replies(answer, text("All is there."))
				p.asides(verdict)
				p.show("alpha")
				p.start(nil, nil)
				p.goal("Code with tests.", 3)
				p.awaitAsked("r1")
				p.goal("Another one.", 3)
				p.do("stop the goal", "POST", "/goal/stop", nil)
				p.await("running")
				release()
				p.await("paused")
				p.do("resume the goal", "POST", "/goal/resume", nil)
				p.awaitAsked("a1")
				p.awaitFull()
				judge()
				p.awaitGoal("complete")
				p.do("resume the goal", "POST", "/goal/resume", nil)
			}},
		{name: "goal_interrupted", rule: `An interrupt ends the work on a goal (4.7).`,
			play: func(p *play) {
				p.replies(never())
				p.start(nil, nil)
				p.goal("Code with tests.", 3)
				p.awaitAsked("r1")
				p.interrupt()
				p.await("paused")
			}},
	}
}
