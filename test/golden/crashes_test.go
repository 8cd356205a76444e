package golden_test

// crashes: what a killed server finds when it starts again. The protocol makes the
// conversation an error; Parley goes on (docs/states.md, docs/agent.md).
func crashes() []scenario {
	own := []string{}
	return []scenario{
		{name: "crash_in_a_tool", env: own, rule: `A call that ran when the server was killed is answered with an AgentErrorEvent whose
classification is internal (2.4). Its outcome is unknown, so it is never repeated. The
protocol makes the status an error; Parley's run goes on (docs/states.md).`,
			play: func(p *play) {
				after, release := text("I see.").held()
				p.replies(use(run("echo alpha"), run("touch started; sleep 300"), run("echo beta")), after)
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Look around.")
				p.awaitFile("started")
				p.awaitEvents(6)
				p.kill()
				p.awaitAsked("r2")
				p.connect()
				release()
				p.await("finished")
			}},
		{name: "crash_in_a_model_call", env: own, rule: `A call of the model that was under way is made again (docs/states.md).`,
			play: func(p *play) {
				after, release := text("There are three.").held()
				p.replies(never(), after)
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.kill()
				p.awaitAsked("r2")
				p.connect()
				release()
				p.await("finished")
			}},
		{name: "crash_again_and_again", env: own, rule: `After three restarts without an answer of the model in between the run ends, so that a
run which brings the server down does not do so for ever (docs/states.md).`,
			play: func(p *play) {
				p.replies(never(), never(), never(), never(), text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				for _, asked := range []string{"r1", "r2", "r3", "r4"} {
					p.awaitAsked(asked)
					if asked != "r1" {
						p.connect()
					}
					p.kill()
				}
				p.awaitStatus("error")
				p.connect()
				p.say("Try once more.")
				p.run()
				p.await("finished")
			}},
		{name: "crash_while_waiting", env: own, rule: `What waits for the user goes on waiting, and nothing of it has run (2.3).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("Done."))
				p.show("alpha")
				p.start(obj{"confirmation_policy": obj{"kind": "AlwaysConfirm"}}, nil)
				p.ask("Look around.")
				p.await("waiting_for_confirmation")
				p.kill()
				p.connect()
				p.accept()
				p.await("finished")
			}},
	}
}
