package golden_test

import (
	"os"
	"path/filepath"
	"strings"

	"parley/test/testkit/mcpserver"
	"parley/test/testkit/openaitest"
)

// hooked is a configuration with one command for an event.
func hooked(event, command string) obj {
	return obj{"hook_config": obj{event: []any{obj{"hooks": []any{obj{"command": command}}}}}}
}

// hooks: commands that see what happens, and may hold it back (4.9).
func hooks() []scenario {
	return []scenario{
		{name: "hook_blocks_call", rule: `A hook before a tool that ends with 2 blocks the call: its run is told, behind the
action and before what the action came to, which is a UserRejectObservation by a hook.
The model reads why and goes on. What the hook does not block runs (4.9).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), use(run("echo beta")), text("Done."))
				p.show("alpha", "beta", "Not alpha.")
				p.start(hooked("pre_tool_use", "case $(cat) in *alpha*) echo 'Not alpha.' >&2; exit 2;; esac"), nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "hook_behind_call", rule: `A hook behind a tool reads what came of it; it blocks nothing, but may add to what the
model reads (4.9).`,
			play: func(p *play) {
				p.replies(use(run("echo alpha")), text("Done."))
				p.show("alpha", "It was alpha.")
				p.start(hooked("post_tool_use", `cat >/dev/null; echo '{"additionalContext": "It was alpha."}'; exit 0`), nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "hook_blocks_message", rule: `A hook that blocks a message ends the run before it begins: the conversation is finished
and no model was asked. The next message is judged anew, and the model does not read the
one that was blocked (4.9).`,
			play: func(p *play) {
				p.replies(text("I see beta."))
				p.show("Not alpha.")
				p.start(hooked("user_prompt_submit", "case $(cat) in *alpha*) echo 'Not alpha.' >&2; exit 2;; esac"), nil)
				p.ask("Look at alpha.")
				p.await("finished")
				p.ask("Look at beta.")
				p.await("finished")
			}},
		{name: "hook_adds_to_message", rule: `What a hook adds to a message is its extended_content (4.9).`,
			play: func(p *play) {
				p.replies(text("I see."))
				p.show("The build is red.")
				p.start(hooked("user_prompt_submit", `echo '{"additionalContext": "The build is red."}'`), nil)
				p.ask("Look around.")
				p.await("finished")
			}},
		{name: "hook_pushes_back", rule: `A hook that blocks the end of a run sends the agent back to work: it reads why in a
message of the environment, and the run goes on (4.1, 4.9).`,
			play: func(p *play) {
				p.replies(text("All done."), text("Now with tests."))
				p.show("The tests are missing.", "[Stop hook feedback] The tests are missing.")
				p.start(hooked("stop", "test -e asked || { touch asked; echo 'The tests are missing.' >&2; exit 2; }"), nil)
				p.ask("Write it.")
				p.await("finished")
			}},
		{name: "hook_of_the_beginning", rule: `The hooks of the beginning run once in a conversation (4.9).`,
			play: func(p *play) {
				p.replies(text("One."), text("Two."))
				p.show("Welcome.")
				p.start(hooked("session_start", `echo '{"additionalContext": "Welcome."}'`), nil)
				p.ask("Say one.")
				p.await("finished")
				p.ask("Say two.")
				p.await("finished")
			}},
	}
}

// extensions: skills, sub-agents and MCP servers (4.8, 4.10).
func extensions() []scenario {
	skills := func(s obj) obj { return obj{"agent_context": obj{"skills": []any{s}}} }
	return []scenario{
		{name: "skill_activated", rule: `A keyword in a message brings the text of a skill in, beside the message, once in a
conversation; activated_skills names it (4.10).`,
			play: func(p *play) {
				p.replies(text("SQLite, then."), text("Still SQLite."))
				p.show("The base is SQLite.")
				p.start(nil, skills(obj{"name": "db", "content": "The base is SQLite.", "trigger": obj{"type": "keyword", "keywords": []any{"database"}}}))
				p.ask("Which DATABASE is it?")
				p.await("finished")
				p.ask("And which database now?")
				p.await("finished")
			}},
		{name: "invoke_skill", rule: `With a skill of the AgentSkills format the agent has invoke_skill, and reads the text
with it; a name that no skill has is answered with those that there are (4.10, 5).`,
			play: func(p *play) {
				p.replies(use(openaitest.ToolCall("invoke_skill", obj{"name": "reprot"})), use(openaitest.ToolCall("invoke_skill", obj{"name": "report"})), text("I know how."))
				p.show("Count the lines.")
				p.start(nil, skills(obj{"name": "report", "description": "Writes reports.", "content": "Count the lines.", "is_agentskills_format": true}))
				p.ask("Write a report.")
				p.await("finished")
			}},
		{name: "task", rule: `A task is worked on by a sub-agent in a conversation of its own; its last words are the
result. How the task is, is in agent_state (4.8).`,
			play: func(p *play) {
				p.replies(use(openaitest.ToolCall("task", obj{"prompt": "Count.", "description": "count", "subagent_type": "scout"})), text("One, it says."))
				p.model.ReplyWhen(func(r *openaitest.Request) bool { return strings.Contains(r.Messages[0].Text(), "You are the scout.") }, openaitest.Text("There is one."))
				p.show("There is one.")
				p.start(obj{"agent_definitions": []any{obj{"name": "scout", "description": "Counts.", "system_prompt": "You are the scout."}}},
					obj{"tools": []any{obj{"name": "task_tool_set"}}})
				p.ask("How many are there?")
				p.await("finished")
			}},
		{name: "mcp_tool", rule: `A tool of an MCP server is called like any other: the action is an MCPToolAction, the
observation's first text names the tool (5).`,
			play: func(p *play) {
				program := filepath.Join(p.house.dir, "mcpserver")
				if err := os.WriteFile(program, mcpserver.Program(p.t), 0o755); err != nil {
					p.t.Fatal(err)
				}
				p.replies(use(openaitest.ToolCall("remember", obj{"text": "the milk"})), text("Remembered."))
				p.show(`{"text":"the milk"}`)
				p.begin("> start with the MCP server notes", nil, obj{"mcp_config": obj{"notes": obj{"command": program, "args": []any{"-tools", "remember"}}}})
				p.connect()
				p.ask("Remember the milk.")
				p.await("finished")
			}},
	}
}
