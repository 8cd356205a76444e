package golden_test

import (
	"parley/test/testkit/openaitest"
)

// answers: what an answer of the model without work means.
func answers() []scenario {
	return []scenario{
		{name: "first_message", rule: `The log is empty until the first message, which brings the system prompt. A message
does not run by itself (4.1, trap 9). A run makes the conversation running; an
answer of text finishes it (4.2), and a full_state follows its last event (1.5,
trap 4).`,
			play: func(p *play) {
				p.replies(text("There are three."))
				p.start(nil, nil)
				p.say("Count the files.")
				p.run()
				p.await("finished")
			}},
		{name: "initial_message", rule: `A first message in the request to start always runs (2.1). Who connects during a
run sees a full_state first and then the history that was asked for (1.5, trap 3).`,
			play: func(p *play) {
				answer, release := text("There are three.").held()
				p.replies(answer)
				p.show("Count the files.")
				p.begin("> start with the first message \"Count the files.\"", obj{"initial_message": message("Count the files.")}, nil)
				p.awaitAsked("r1")
				p.connect()
				release()
				p.await("finished")
			}},
		{name: "second_message", rule: `A message to a finished conversation makes it idle; it runs when it is told to
(2.3). The model reads the whole conversation.`,
			play: func(p *play) {
				p.replies(text("There are three."), text("Two of them."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.say("How many are empty?")
				p.run()
				p.await("finished")
			}},
		{name: "message_on_the_socket", rule: `A message on the event socket always runs, whatever it says about that (1.5).`,
			play: func(p *play) {
				p.replies(text("There are three."))
				p.start(nil, nil)
				p.show("Count the files.")
				p.note("> a frame with \"Count the files.\"")
				p.talk().ws.send(message("Count the files."))
				p.await("finished")
			}},
		{name: "finish", rule: `The tool finish ends the run once its result is there (4.3).`,
			play: func(p *play) {
				p.replies(use(finish("All is counted.")).saying("That is it."))
				p.show("All is counted.")
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "think", rule: `think only leaves a trace; the run goes on (4.3, 5).`,
			play: func(p *play) {
				p.replies(use(think("Three or four?")), text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "empty_answer", rule: `An answer without text and calls stays in the log; a nudge follows it, whose source
is the environment and whose role is the user's, and the run goes on (4.2, traps
12 and 20).`,
			play: func(p *play) {
				p.replies(reply{}, text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "only_reasoning", rule: `An answer that only thinks is an empty one; its reasoning is kept (4.2).`,
			play: func(p *play) {
				p.replies(reply{Reply: openaitest.Reply{Reasoning: "I wonder about this."}, show: []string{"I wonder about this."}},
					text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
			}},
	}
}

// runs: runs that have nothing to do, or are there already.
func runs() []scenario {
	return []scenario{
		{name: "run_when_finished", rule: `A run of a finished conversation without a new message makes no step and calls no
model; it succeeds at once, and a full_state follows (2.3, trap 10).`,
			play: func(p *play) {
				p.replies(text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.run()
				p.await("finished")
			}},
		{name: "run_when_running", rule: `A run of a running conversation is refused (1.3). One that was never told anything
has nothing to do (trap 4).`,
			play: func(p *play) {
				answer, release := text("There are three.").held()
				p.replies(answer)
				p.start(nil, nil)
				p.run()
				p.await("idle")
				p.ask("Count the files.")
				p.awaitAsked("r1")
				p.run()
				release()
				p.await("finished")
			}},
	}
}
