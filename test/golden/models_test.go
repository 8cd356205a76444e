package golden_test

import "parley/test/testkit/openaitest"

// picture is a PNG of one pixel.
const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// models: what comes of a model that fails, cannot see, or is switched.
func models() []scenario {
	image := obj{"type": "image", "image_urls": []any{picture}}
	return []scenario{
		{name: "model_errors", rule: `A model that cannot be asked makes the status an error; a ConversationErrorEvent has
the name of the error as its code, and says who has to do what (3, 4.1, 4.12). A run
tries again.`,
			play: func(p *play) {
				p.replies(refuse(401, "Incorrect API key."), refuse(402, "Insufficient credits."), refuse(400, "Unknown parameter: colour."),
					refuse(503, "We are overloaded."), refuse(504, "The gateway timed out."), refuse(429, "Slow down."),
					reply{Reply: openaitest.Reply{Drop: true}}, text("There are three."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("error")
				for range 6 {
					p.run()
					p.await("error")
				}
				p.run()
				p.await("finished")
			}},
		{name: "model_retry", rule: `A failure that may pass is tried again (4.12); what the run waits for is in agent_state,
and gone with the answer. A step is one step, however often it was tried.`,
			play: func(p *play) {
				p.replies(refuse(503, "We are overloaded."), text("There are three."))
				p.start(nil, obj{"llm": obj{"num_retries": 2, "retry_min_wait": 1, "retry_max_wait": 1}})
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "content_policy", rule: `When the provider refuses the content, the agent reads a message that
asks it to rephrase (4.2).`,
			play: func(p *play) {
				p.replies(refuse(400, "Blocked by our content_policy."), text("Then I only list them."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
			}},
		{name: "content_policy_twice", rule: `A provider that refuses the content again ends the run: the user decides.`,
			play: func(p *play) {
				p.replies(refuse(400, "Blocked by our content_policy."), refuse(400, "Blocked by our content_policy."))
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("error")
			}},
		{name: "image_without_vision", rule: `An image for a model that cannot see is answered without asking it, and the run is
finished (4.2).`,
			play: func(p *play) {
				p.start(nil, obj{"llm": obj{"disable_vision": true}})
				p.ask("What is this?", image)
				p.await("finished")
			}},
		{name: "image_with_vision", rule: `A model that sees reads the image behind the text.`,
			play: func(p *play) {
				p.replies(text("A dot."))
				p.start(nil, obj{"llm": obj{"capability_overrides": obj{"supports_vision": true}}})
				p.ask("What is this?", image)
				p.await("finished")
			}},
		{name: "switch_model", rule: `The model can be switched at any time, which is a state update (1.3, 3). A call that
is under way comes to its end; the next one asks the new model.`,
			play: func(p *play) {
				answer, release := use(run("echo alpha")).held()
				p.replies(answer, text("There are three."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Count the files.")
				p.awaitAsked("r1")
				second := p.llm()
				second["model"] = "openai/second-model"
				p.do("switch to second-model", "POST", "/switch_llm", obj{"llm": second})
				release()
				p.await("finished")
			}},
		{name: "ask_agent", rule: `A question beside the run is one call of the model over the same view; no event enters
the log but its cost (1.3).`,
			play: func(p *play) {
				p.replies(text("There are three."), reply{Reply: openaitest.Text("I counted them."), show: []string{"I counted them."}})
				p.start(nil, nil)
				p.ask("Count the files.")
				p.await("finished")
				p.show("How do you know?")
				p.do("ask \"How do you know?\"", "POST", "/ask_agent", obj{"question": "How do you know?"})
			}},
	}
}
