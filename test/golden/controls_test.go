package golden_test

// controls: pause and interrupt.
func controls() []scenario {
	return []scenario{
		{name: "pause_between_steps", rule: `A pause takes effect between steps: what the model answered is kept, its calls are
not started (2.3). Running on makes up for them first (4.2).`,
			play: func(p *play) {
				answer, release := use(run("echo alpha")).held()
				p.replies(answer, text("Done."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Look around.")
				p.awaitAsked("r1")
				p.pause()
				release()
				p.await("paused")
				p.run()
				p.await("finished")
			}},
		{name: "pause_in_a_batch", rule: `A call that runs when a pause is asked for comes to its end, and no other is started;
the rest runs when the user goes on (docs/agent.md).`,
			play: func(p *play) {
				p.replies(use(run("touch started; until [ -e go ]; do sleep 0.02; done; echo alpha"), run("echo beta")), text("Done."))
				p.show("alpha", "beta")
				p.start(nil, nil)
				p.ask("Look around.")
				p.awaitFile("started")
				p.pause()
				p.makeFile("go")
				p.await("paused")
				p.run()
				p.await("finished")
			}},
		{name: "pause_when_idle", rule: `An idle conversation can be paused. A message to a paused one leaves it paused; a run
takes it up (2.3).`,
			play: func(p *play) {
				p.replies(text("There are three."))
				p.start(nil, nil)
				p.pause()
				p.await("paused")
				p.say("Count the files.")
				p.run()
				p.await("finished")
				p.pause()
				p.await("finished")
			}},
		{name: "interrupt_model_call", rule: `An interrupt breaks a call of the model off: InterruptEvent, paused (2.3). Nothing of
its answer is in the log, and a run asks again.`,
			play: func(p *play) {
				p.replies(never(), text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.interrupt()
				p.await("paused")
				p.run()
				p.await("finished")
			}},
		{name: "interrupt_tool", rule: `An interrupt breaks a tool off: an AgentErrorEvent for each call without a result,
InterruptEvent, paused (2.3). What had ended is kept, and the model reads all of it.`,
			play: func(p *play) {
				p.replies(use(run("echo alpha"), run("touch started; sleep 300"), run("echo beta")), text("I see."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Look around.")
				p.awaitFile("started")
				p.awaitEvents(6)
				p.interrupt()
				p.await("paused")
				p.run()
				p.await("finished")
			}},
		{name: "interrupt_when_idle", rule: `Interrupting what does not run changes nothing; a full_state tells so (1.5).`,
			play: func(p *play) {
				p.start(nil, nil)
				p.interrupt()
				p.await("idle")
			}},
	}
}

// steering: messages during a run.
func steering() []scenario {
	return []scenario{
		{name: "steer", rule: `A message during a run is stored at once and read at the next step (4.1).`,
			play: func(p *play) {
				answer, release := use(run("echo alpha")).held()
				p.replies(answer, text("I took the other one."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Take the first one.")
				p.awaitAsked("r1")
				p.ask("No, the other one.")
				release()
				p.await("finished")
			}},
		{name: "late_message", rule: `A message that came while the model wrote its last answer is not lost: the run goes
on until the model has read it (1.4: the run is asked for again).`,
			play: func(p *play) {
				answer, release := text("There are three.").held()
				p.replies(answer, text("The empty ones are two."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.ask("Count the empty ones too.")
				release()
				p.await("finished")
			}},
		{name: "late_message_and_finish", rule: `So with finish: its result is recorded, and the run goes on.`,
			play: func(p *play) {
				answer, release := use(finish("There are three.")).held()
				p.replies(answer, text("The empty ones are two."))
				p.show("There are three.")
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.ask("Count the empty ones too.")
				release()
				p.await("finished")
			}},
	}
}
