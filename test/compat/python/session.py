"""A session of the published Python SDK against a server: see compat_test.go for
what it prints."""

import json
import os
import sys
import threading
import time
import traceback
import uuid

import httpx
from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.conversation.impl.remote_conversation import RemoteConversation
from openhands.sdk.event import (
    ActionEvent,
    ConversationStateUpdateEvent,
    InterruptEvent,
    MessageEvent,
    ObservationEvent,
    StreamingDeltaEvent,
    UserRejectObservation,
)
from openhands.sdk.security.confirmation_policy import AlwaysConfirm, NeverConfirm
from openhands.sdk.workspace import RemoteWorkspace
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

HOST, KEY, MODEL = (os.environ[f"COMPAT_{n}"] for n in ("HOST", "KEY", "MODEL"))
PROJECT = os.environ["COMPAT_PROJECT"]


def say(**line):
    print(json.dumps(line), flush=True)


def not_built(error):
    while error is not None:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 501:
            return True
        if "501" in str(error) and "Not Implemented" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def step(name):
    def run(work):
        try:
            work()
            say(step=name, status="ok")
        except BaseException as error:
            say(step=name, status="skipped" if not_built(error) else "failed", detail=traceback.format_exc())

    return run


def eventually(what, ok, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if got := ok():
            return got
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


events = []  # as the callback got them
workspace = RemoteWorkspace(host=HOST, api_key=KEY, working_dir=PROJECT)
llm = LLM(model="openai/test-model", base_url=MODEL, api_key="sk-of-the-client", usage_id="agent", stream=True)
agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])
conversation = None


def seen(kind, ok=lambda e: True):
    return eventually(kind.__name__, lambda: next((e for e in list(events) if isinstance(e, kind) and ok(e)), None))


def message(text, status="finished"):
    """Sends a message and runs; the SDK itself waits for the end."""
    conversation.send_message(text)
    started = time.monotonic()
    conversation.run()
    assert time.monotonic() - started < 20, "the end of the run was not told over the socket"
    assert conversation.state.execution_status.value == status, conversation.state.execution_status


@step("server")
def _():
    assert workspace.alive
    assert workspace.get_server_info()["version"].count(".") == 2


@step("start a conversation with an id of its own and run it")
def _():
    global conversation
    conversation = Conversation(
        agent=agent, workspace=workspace, conversation_id=uuid.uuid4(), callbacks=[events.append], visualizer=None,
        secrets={"DEPLOY_TOKEN": "hush-1f6b"}, tags={"origin": "compat"}, stuck_detection=True,
    )
    assert isinstance(conversation, RemoteConversation)
    message(f"write {PROJECT}/a.txt")
    action = seen(ActionEvent)
    result = seen(ObservationEvent)
    assert result.action_id == action.id
    assert result.observation.new_content == "made by a tool\n", result.observation
    seen(MessageEvent, lambda e: e.source == "agent")


@step("events and state")
def _():
    cached = [e.id for e in conversation.state.events]
    assert len(cached) == len(set(cached))
    state = conversation.state
    assert state.persistence_dir
    assert state.agent.kind == "Agent"
    assert isinstance(state.confirmation_policy, NeverConfirm)
    assert state.workspace["working_dir"] == PROJECT
    assert state.stats.usage_to_metrics["agent"].accumulated_token_usage.prompt_tokens > 0
    assert "sk-of-the-client" not in state.model_dump_json()
    assert state.activated_knowledge_skills == [] and state.security_analyzer is None


@step("confirm and reject")
def _():
    conversation.set_confirmation_policy(AlwaysConfirm())
    message("run echo first", status="waiting_for_confirmation")
    conversation.reject_pending_actions("not this one")
    seen(UserRejectObservation, lambda e: e.rejection_reason == "not this one")
    message("run echo second", status="waiting_for_confirmation")
    conversation.run()  # is consent
    seen(ObservationEvent, lambda e: "second" in str(e.observation))
    conversation.set_confirmation_policy(NeverConfirm())


@step("interrupt")
def _():
    conversation.send_message("wait")
    conversation.run(blocking=False)
    eventually("the run", lambda: conversation.state.execution_status.value == "running")
    conversation.interrupt()
    seen(InterruptEvent)
    eventually("the pause", lambda: conversation.state.execution_status.value == "paused")
    message("hello again")


@step("secrets are masked")
def _():
    conversation.update_secrets({"LATE_TOKEN": "hush-2f6b"})
    message('run echo "[$DEPLOY_TOKEN][$LATE_TOKEN]"')
    result = seen(ObservationEvent, lambda e: "DEPLOY_TOKEN" in str(getattr(e.observation, "command", "")))
    assert "hush-" not in result.model_dump_json(), result


@step("secrets by their address")
def _():
    answer = httpx.put(f"{HOST}/api/settings/secrets", headers={"X-Session-API-Key": KEY}, json={"name": "KEPT_TOKEN", "value": "hush-3f6b"})
    assert answer.status_code == 200, answer
    secrets = workspace.get_secrets()
    assert secrets["KEPT_TOKEN"].get_value() == "hush-3f6b"
    conversation.update_secrets(secrets)  # by their addresses
    message('run echo "[$KEPT_TOKEN]" | rev')
    result = seen(ObservationEvent, lambda e: "KEPT_TOKEN" in str(getattr(e.observation, "command", "")))
    assert "b6f3-hsuh" in result.model_dump_json(), result


@step("questions and branches")
def _():
    assert conversation.ask_agent("What is the answer?") == "forty-two"
    conversation.set_security_analyzer(None)
    fork = conversation.fork(title="A branch")
    assert fork.id != conversation.id
    fork.delete_on_close = True
    fork.close()
    first = next(e for e in conversation.state.events if isinstance(e, MessageEvent) and e.source == "user")
    conversation.navigate_to(first.id)


@step("reconnect after a crash of the server")
def _():
    before = [e.id for e in conversation.state.events]
    say(do="restart")
    sys.stdin.readline()
    # The client connects again by itself, nobody knows when.
    for attempt in range(10):
        try:
            message(f"you are back {attempt}")
            eventually("the answer", lambda: any(
                isinstance(e, MessageEvent) and f"You said: you are back {attempt}" in e.model_dump_json() for e in list(events)), 3)
            break
        except AssertionError:
            if attempt == 9:
                raise
    after = [e.id for e in conversation.state.events]
    assert set(before) <= set(after) and len(after) == len(set(after))


@step("attach to a conversation")
def _():
    again = Conversation(agent=agent, workspace=workspace, conversation_id=conversation.id, visualizer=None)
    lossy = (ConversationStateUpdateEvent, StreamingDeltaEvent)
    assert {e.id for e in conversation.state.events if not isinstance(e, lossy)} <= {e.id for e in again.state.events}
    again.close()


@step("two conversations at once")
def _():
    def one():
        other = Conversation(agent=agent, workspace=workspace, visualizer=None, delete_on_close=True)
        other.send_message("hello")
        other.run()
        assert other.state.execution_status.value == "finished"
        other.close()
        done.append(True)

    done = []
    threads = [threading.Thread(target=one) for _ in range(2)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert len(done) == 2


def result_of(outcome, text):
    """The SDK's workspace reports errors as values."""
    if "501" in text:
        raise RuntimeError(f"501 Not Implemented: {text}")
    return outcome


@step("commands")
def _():
    got = workspace.execute_command("echo out; echo err >&2; exit 3", cwd=PROJECT, timeout=10)
    result_of(got, got.stderr)
    assert (got.exit_code, got.stdout.strip(), got.stderr.strip()) == (3, "out", "err"), got


@step("files")
def _():
    with open("up.txt", "w") as f:
        f.write("some text\n")
    up = workspace.file_upload("up.txt", f"{PROJECT}/deep/b.txt")
    result_of(up, up.error or "")
    assert up.success, up
    down = workspace.file_download(f"{PROJECT}/deep/b.txt", "down.txt")
    assert down.success and open("down.txt").read() == "some text\n", down


@step("git")
def _():
    changes = workspace.git_changes(PROJECT)
    assert "a.txt" in str(changes), changes
    assert workspace.git_diff(f"{PROJECT}/a.txt").modified


@step("settings")
def _():
    got = workspace.get_llm(usage_id="agent")
    assert got.model


@step("secrets of the settings")
def _():
    assert isinstance(workspace.get_secrets(), dict)


@step("delete")
def _():
    conversation.delete_on_close = True
    conversation.close()
    answer = httpx.get(f"{HOST}/api/conversations/{conversation.id}", headers={"X-Session-API-Key": KEY})
    assert answer.status_code == 404, answer


say(do="end")
sys.stdout.flush()
os._exit(0)
