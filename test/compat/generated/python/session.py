"""The session of a Python client that openapi-python-client made of the server's
document (package parley_api, which the test generates beside this file): settings, a
start, searches. All modules of the client are imported."""

import importlib
import json
import os
import pkgutil
import time
import uuid

import parley_api
from parley_api.api.v1 import (
    delete_app_conversation,
    get_app_conversation,
    get_start_tasks,
    search_app_conversations,
    start_app_conversation,
    v1_load_settings,
    v1_search_events,
    v1_store_settings,
)
from parley_api.models import (
    AppConversationStartRequest,
    SendMessageRequest,
    SettingsChange,
    TextContent,
)

client = parley_api.Client(
    base_url=os.environ["COMPAT_HOST"],
    headers={"X-Session-API-Key": os.environ["COMPAT_KEY"]},
    raise_on_unexpected_status=True,
)
conversation = ""


def until(what, look):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise TimeoutError(what)


def modules():
    for module in pkgutil.walk_packages(parley_api.__path__, "parley_api."):
        importlib.import_module(module.name)


def settings():
    v1_store_settings.sync(client=client, body=SettingsChange(git_user_name="Generated Python"))
    assert v1_load_settings.sync(client=client).git_user_name == "Generated Python"


def start():
    global conversation
    message = SendMessageRequest(content=[TextContent(text="hello there")])
    task = start_app_conversation.sync(
        client=client, body=AppConversationStartRequest(title="of generated Python", initial_message=message)
    )

    def ready():
        now = get_start_tasks.sync(client=client, ids=[uuid.UUID(task.id)])[0]
        assert now.status != "ERROR", now.detail
        return now.app_conversation_id

    conversation = until("READY", ready)


def search():
    page = search_app_conversations.sync(client=client, title_contains="GENERATED PY")
    assert [c.id for c in page.items] == [conversation], page
    assert page.next_page_id is None


def events():
    def answered():
        page = v1_search_events.sync(conversation, client=client, limit=50)
        return any(e.source == "agent" and "llm_message" in e.additional_properties for e in page.items)

    until("an answer", answered)


def errors():
    answer = get_app_conversation.sync_detailed(str(uuid.uuid4()), client=client)
    assert answer.status_code == 404 and answer.parsed.detail, answer


def delete():
    assert delete_app_conversation.sync(conversation, client=client).success


for step in [modules, settings, start, search, events, errors, delete]:
    said = {"step": step.__name__, "status": "ok"}
    try:
        step()
    except Exception as error:
        said.update(status="failed", detail=repr(error))
    print(json.dumps(said), flush=True)
print(json.dumps({"do": "end"}), flush=True)
