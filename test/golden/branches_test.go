package golden_test

// branches: the events of a log are a tree (2.4).
func branches() []scenario {
	return []scenario{
		{name: "navigate", rule: `Navigating moves the leaf: the next event names it as its parent, and the model reads
the path from the start to it. The other branch stays in the log (1.3, 2.4).`,
			play: func(p *play) {
				p.replies(text("There are three."), text("Two of them."), text("One kilobyte."), text("Two, I said."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.ask("How many are empty?")
				p.await("finished")
				p.navigate(3)
				p.await("idle")
				p.ask("How large are they?")
				p.await("finished")
				p.navigate(5)
				p.await("idle")
				p.ask("How many did you say?")
				p.await("finished")
			}},
		{name: "navigate_to_the_start", rule: `From the very start everything begins anew; the first event's parent is the root, which
has a name of its own (2.4).`,
			play: func(p *play) {
				p.replies(text("There are three."), text("There are four."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.navigate(0)
				p.await("idle")
				p.ask("Count them again.")
				p.await("finished")
			}},
		{name: "navigate_before_a_result", rule: `A call whose result is on the other branch is answered there at once, so that the
history stays well-formed (docs/agent.md).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("Done."), text("Done again."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
				p.navigate(3)
				p.await("idle")
				p.run()
				p.await("finished")
			}},
		{name: "navigate_refused", rule: `During a run nobody navigates (docs/states.md), and only to events that are there.`,
			play: func(p *play) {
				answer, release := text("There are three.").held()
				p.replies(answer)
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.navigate(1)
				release()
				p.await("finished")
				p.do("navigate to nowhere", "POST", "/navigate", obj{"event_id": "00000000-0000-4000-8000-000000000000"})
			}},
		{name: "fork", rule: `A fork is a copy of a branch up to an event: the same events, idle, and a life of its own
(1.3).`,
			play: func(p *play) {
				p.replies(text("There are three."), text("Two of them."), text("One kilobyte."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.ask("How many are empty?")
				p.await("finished")
				p.fork(3)
				p.ask("How large are they?")
				p.await("finished")
			}},
		{name: "fork_before_a_result", rule: `A call that is open in a copy is answered there (docs/agent.md): it never runs twice.`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("Done."), text("Done again."))
				p.start(obj{"confirmation_policy": obj{"kind": "AlwaysConfirm"}}, nil)
				p.show("alpha")
				p.ask("Look around.")
				p.await("waiting_for_confirmation")
				p.accept()
				p.await("finished")
				p.fork(3)
				p.run()
				p.await("finished")
			}},
	}
}
