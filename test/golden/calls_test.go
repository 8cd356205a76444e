package golden_test

import (
	"parley/test/testkit/openaitest"
)

// calls: what happens to the tool calls of an answer.
func calls() []scenario {
	return []scenario{
		{name: "several_calls", rule: `The calls of one answer are announced in their order, with its thought on the first
only. Their results come in the order of the calls, whichever is ready first; for
the model they are one message with its results behind it (3, 4.3, trap 13).`,
			play: func(p *play) {
				p.replies(use(run("sleep 0.3; echo alpha"), think("Which is larger?"), run("echo beta")).saying("Let me look."), text("Done."))
				p.show("alpha", "beta")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "calls_after_finish", rule: `A batch ends with the first finish. Parley makes no ActionEvent of a call behind
it, so that nothing stays unanswered (4.3, open question 16).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha"), finish("All is seen."), run("echo beta")))
				p.show("alpha", "All is seen.")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "unknown_tool", rule: `A call of a tool that does not exist is an ActionEvent without action and an
AgentErrorEvent with its tool_call_id; the other calls go on (4.3, trap 15).`,
			play: func(p *play) {
				p.replies(use(call("teleport", `{"to":"Mars"}`), run("echo alpha")), text("Done."))
				p.show("alpha")
				p.start(nil, nil)
				p.ask("Go there.")
				p.await("finished")
			}},
		{name: "invalid_arguments", rule: `So is a call whose arguments do not fit the tool. Arguments that are no JSON are
replaced by a small object, because providers refuse a history with them (4.3).`,
			play: func(p *play) {
				p.replies(use(call("terminal", `{"comand":"echo alpha"}`), run("echo beta"), call("terminal", `{"command": "echo`)), text("Done."))
				p.show("beta")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "failed_tool", rule: `A failure that a tool expects is a result that says so; the model reads a header
before it. The exit code of a command is no failure (4.3, 5).`,
			play: func(p *play) {
				p.replies(use(call("terminal", `{"command":"y","is_input":true}`)), use(run("exit_with() { return 3; }; exit_with")), text("Done."))
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "risk_and_summary", rule: `security_risk and summary are taken out of the action and kept in the arguments of
the call. Without an analyzer the risk is UNKNOWN (4.3, 4.4, trap 14); without a
summary there is one made of the call.`,
			play: func(p *play) {
				p.replies(use(call("terminal", `{"security_risk":"HIGH","summary":"shows alpha","command":"echo alpha"}`),
					call("think", `{"summary":"thinks","thought":"So."}`), run("echo beta")), text("Done."))
				p.show("alpha", "beta")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "risk_of_the_model", rule: `With LLMSecurityAnalyzer the risk is the model's label, UNKNOWN without one and for
tools that change nothing (4.3, 4.4).`,
			play: func(p *play) {
				p.replies(use(call("terminal", `{"command":"echo alpha","security_risk":"LOW"}`), call("terminal", `{"command":"echo beta","security_risk":"HIGH"}`),
					run("echo gamma"), call("think", `{"thought":"So.","security_risk":"HIGH"}`)), text("Done."))
				p.show("alpha", "beta", "gamma")
				p.start(obj{"security_analyzer": obj{"kind": "LLMSecurityAnalyzer"}}, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "invalid_risk", rule: `A label that is none of the allowed ones: the protocol answers the call with an
error; Parley runs it where nothing is asked, and asks for it where something is
(4.3).`,
			play: func(p *play) {
				p.replies(use(call("terminal", `{"command":"echo alpha","security_risk":"harmless"}`)), text("Done."))
				p.show("alpha")
				p.start(obj{"security_analyzer": obj{"kind": "LLMSecurityAnalyzer"}, "confirmation_policy": obj{"kind": "ConfirmRisky", "confirm_unknown": false}}, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "client_tool", rule: `A tool of the client is answered at once; its kinds carry its name (5).`,
			play: func(p *play) {
				p.replies(use(call("show_page", `{"page":7}`)), text("Done."))
				p.start(obj{"client_tools": []any{obj{"name": "show_page", "description": "Shows a page.",
					"parameters": obj{"type": "object", "properties": obj{"page": obj{"type": "integer"}}, "required": []any{"page"}}}}}, nil)
				p.ask("Show page 7.")
				p.await("finished")
			}},
	}
}

// repairs: what models write wrongly and is understood all the same (4.3).
func repairs() []scenario {
	return []scenario{
		{name: "repaired_names", rule: `Names with garbage behind them and common names of the same tools are understood;
the model reads its own call again (4.3).`,
			play: func(p *play) {
				p.replies(use(call("bash", `{"command":"echo alpha"}`), openaitest.Call{Name: "git", Arguments: `{"command":"--version >/dev/null; echo beta"}`}), text("Done."))
				p.show("alpha", "beta")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "repaired_arguments", rule: `Control characters in strings are escaped, nulls are dropped, and values that were
written as text are read (4.3). The call in the log is as the model wrote it; where
that is no JSON the model reads a small object in its place.`,
			play: func(p *play) {
				p.replies(use(call("terminal", "{\"command\":\"printf 'alpha\tbeta'\",\"timeout\":null}"),
					call("terminal", `{"command":"echo gamma","is_input":"false"}`)), text("Done."))
				p.show("alpha", "beta", "gamma")
				p.start(nil, nil)
				p.ask("Look around.")
				p.await("finished")
			}},
	}
}
