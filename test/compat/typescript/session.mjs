// A session of the published TypeScript client against a server: see compat_test.go
// for what it prints. The client's WebSocket code asks for a global require.
import { strict as assert } from 'node:assert';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

globalThis.require = createRequire(import.meta.url);
const sdk = await import('@openhands/typescript-client');
const clients = await import('@openhands/typescript-client/clients');

const host = process.env.COMPAT_HOST;
const apiKey = process.env.COMPAT_KEY;
const project = process.env.COMPAT_PROJECT;
const llm = {
  model: 'openai/test-model', base_url: process.env.COMPAT_MODEL, api_key: 'sk-of-the-client', usage_id: 'agent', stream: true,
};
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const replies = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const api = new clients.AgentServerClient({ host, apiKey });
const workspace = new sdk.RemoteWorkspace({ host, apiKey, workingDir: project });
const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// notBuilt finds the server's word, also in an error that wraps it.
function notBuilt(error) {
  for (let e = error; e; e = e.cause) if (e.status === 501) return true;
  return /not built yet/.test(String(error?.message));
}

async function step(name, work) {
  try {
    await work();
    say({ step: name, status: 'ok' });
  } catch (error) {
    const detail = `${error?.stack ?? error}`;
    say({ step: name, status: notBuilt(error) ? 'skipped' : 'failed', detail });
  }
}

async function eventually(what, ok) {
  for (let i = 0; i < 600; i++) {
    const got = await ok();
    if (got) return got;
    await delay(50);
  }
  throw new Error(`waited in vain for ${what}`);
}

const refused = (status) => (error) => {
  assert.equal(error.status, status, String(error));
  return true;
};

const events = []; // as the socket brought them
const errors = [];
const conversation = new sdk.Conversation(new sdk.Agent({ llm, tools: [{ name: 'terminal' }, { name: 'file_editor' }] }), workspace, {
  callback: (event) => events.push(event),
  onError: (error) => errors.push(error),
});
const status = async () => (await api.conversations.getConversation(conversation.id)).execution_status;
const until = (want) => eventually(`the status ${want}`, async () => (await status()) === want);
const kinds = () => events.map((e) => e.kind);
const live = (what, ok) => eventually(what, async () => events.find(ok));
async function message(text, want = 'finished') {
  await conversation.sendMessage(text);
  await conversation.run();
  await until(want);
}

await step('server', async () => {
  assert.equal((await api.server.getAlive()).status, 'ok');
  assert.equal((await api.server.getHealth()).status, 'ok');
  assert.equal((await api.server.getReady()).status, 'ready');
  const info = await api.server.getServerInfo();
  assert.ok(clients.compareAgentServerVersions(info.version, '1.31.0') >= 0, info.version);
  assert.deepEqual((await api.server.getRoot()).version, info.version);
});

await step('start a conversation and follow it', async () => {
  await conversation.start();
  await conversation.startWebSocketClient();
  await live('the first snapshot', (e) => e.kind === 'ConversationStateUpdateEvent' && e.key === 'full_state');
  await message(`write ${project}/a.txt`);
  await live('the tool call', (e) => sdk.isActionEvent(e) && e.tool_name === 'file_editor');
  await live('its result', (e) => sdk.isObservationEvent(e) && e.observation.kind === 'FileEditorObservation');
  await live('the answer', (e) => sdk.isMessageEvent(e) && e.source === 'agent');
  await live('the answer in pieces', (e) => e.kind === 'StreamingDeltaEvent');
  assert.equal(await conversation.getAgentFinalResponse(), 'It is done.');
  assert.deepEqual(errors, []);
});

await step('events over REST', async () => {
  const all = await conversation.state.events.getEvents();
  assert.equal(new Set(all.map((e) => e.id)).size, all.length);
  const page = await conversation.state.events.search({ kind: 'MessageEvent', sort_order: 'TIMESTAMP_DESC', limit: 1 });
  assert.equal(page.items.length, 1);
  assert.ok(page.next_page_id);
  const rest = await conversation.state.events.search({ kind: 'MessageEvent', sort_order: 'TIMESTAMP_DESC', page_id: page.next_page_id });
  assert.equal(rest.items.length, 1);
  assert.equal(await conversation.state.events.count({ kind: 'MessageEvent' }), 2);
  const [one, none] = await api.conversations.getEvents(conversation.id, [page.items[0].id, '00000000-0000-0000-0000-000000000000']);
  assert.equal(one.id, page.items[0].id);
  assert.equal(none, null);
});

await step('state', async () => {
  const state = conversation.state;
  assert.equal(await state.getExecutionStatus(), 'finished');
  assert.equal((await state.getConfirmationPolicy()).kind, 'NeverConfirm');
  assert.equal((await state.getWorkspace()).working_dir, project);
  assert.equal((await state.getAgent()).kind, 'Agent');
  assert.ok(await state.getPersistenceDir());
  assert.ok((await conversation.conversationStats()).usage_to_metrics);
  assert.doesNotMatch(await state.modelDumpJson(), /sk-of-the-client/);
});

await step('confirm and reject', async () => {
  await conversation.setConfirmationPolicy({ kind: 'AlwaysConfirm' });
  await message('run echo first', 'waiting_for_confirmation');
  await conversation.sendConfirmationResponse(false, 'not this one');
  await until('idle');
  await live('the refusal', (e) => e.kind === 'UserRejectObservation' && e.rejection_reason === 'not this one');
  await message('run echo second', 'waiting_for_confirmation');
  await conversation.sendConfirmationResponse(true);
  await until('finished');
  await live('the output', (e) => sdk.isObservationEvent(e) && JSON.stringify(e.observation).includes('second'));
  await conversation.setConfirmationPolicy({ kind: 'NeverConfirm' });
  await conversation.setSecurityAnalyzer({ kind: 'LLMSecurityAnalyzer' });
  await conversation.setSecurityAnalyzer(null);
});

await step('interrupt and pause', async () => {
  await message('wait', 'running');
  await api.conversations.interruptConversation(conversation.id);
  await until('paused');
  await live('the interruption', (e) => e.kind === 'InterruptEvent');
  await message('wait', 'running');
  await assert.rejects(conversation.run(), refused(409));
  await conversation.pause();
  await api.conversations.interruptConversation(conversation.id);
  await until('paused');
  await message('hello again');
});

await step('secrets are masked', async () => {
  await conversation.updateSecrets({ DEPLOY_TOKEN: 'hush-1f6b', LATE_TOKEN: () => 'hush-2f6b' });
  await message('run echo "[$DEPLOY_TOKEN]"');
  const result = await live('the masked output', (e) => sdk.isObservationEvent(e) && e.observation.command?.includes('DEPLOY_TOKEN'));
  assert.doesNotMatch(JSON.stringify(result), /hush-1f6b/);
});

await step('title, tags and lists', async () => {
  await conversation.setTitle('A session');
  assert.deepEqual(await api.conversations.updateConversation(conversation.id, { tags: { origin: 'compat' } }), { success: true });
  const manager = new sdk.ConversationManager({ host, apiKey });
  const found = (await manager.getAllConversations()).find((c) => c.id === conversation.id);
  assert.equal(found.title, 'A session');
  assert.deepEqual(found.tags, { origin: 'compat' });
  assert.ok((await manager.countConversations()) >= 1);
  const batch = await manager.getConversations(['00000000-0000-0000-0000-000000000000', conversation.id]);
  assert.equal(batch[0], null);
  assert.equal(batch[1].id, conversation.id);
  const loaded = await manager.loadConversation(conversation.id, project);
  assert.equal(await loaded.getAgentFinalResponse(), 'It is done.');
});

await step('questions, models and branches', async () => {
  assert.equal(await conversation.askAgent('What is the answer?'), 'forty-two');
  await conversation.switchLlm({ ...llm, model: 'openai/test-model', usage_id: 'other' });
  await message('and now');
  const fork = await conversation.fork({ title: 'A branch' });
  assert.notEqual(fork.id, conversation.id);
  assert.equal(await fork.getAgentFinalResponse(), 'You said: and now');
  const first = (await conversation.state.events.getEvents()).find((e) => e.kind === 'MessageEvent' && e.source === 'user');
  await fork.close();
  await conversation.navigateTo(first.id);
  assert.equal((await api.conversations.getConversation(conversation.id)).leaf_event_id, first.id);
});

await step('reconnect after a crash of the server', async () => {
  const before = await conversation.state.events.getEvents();
  say({ do: 'restart' });
  await replies.next();
  // The client connects again by itself, nobody knows when: what it missed until then
  // it does not hear.
  let back = false;
  for (let i = 1; i <= 10 && !back; i++) {
    await message(`you are back ${i}`);
    const heard = () => events.some((e) => sdk.isMessageEvent(e) && JSON.stringify(e).includes(`You said: you are back ${i}`));
    for (let j = 0; j < 60 && !(back = heard()); j++) await delay(50);
  }
  assert.ok(back, 'no answer came over a new connection');
  const after = await conversation.state.events.getEvents();
  const ids = after.map((e) => e.id);
  assert.equal(new Set(ids).size, ids.length);
  const stored = before.filter((e) => e.kind !== 'StreamingDeltaEvent' && e.key !== 'full_state').map((e) => e.id);
  assert.deepEqual(stored.filter((id) => !ids.includes(id)), []);
});

await step('skills, hooks, sub-agents', async () => {
  assert.ok(Array.isArray((await api.skills.getSkills({ load_public: false, load_user: true, load_project: true, project_dir: project })).skills));
    assert.equal(await conversation.loadHooks(), null);
});

await step('profiles', async () => {
  await api.profiles.saveProfile('compat', { llm: { model: llm.model, base_url: llm.base_url, api_key: llm.api_key }, include_secrets: true });
  const { profiles } = await api.profiles.listProfiles();
  assert.ok(profiles.find((p) => p.name === 'compat').api_key_set);
  assert.doesNotMatch(JSON.stringify(await api.profiles.getProfile('compat')), /sk-of-the-client/);
  await api.profiles.renameProfile('compat', 'compat-2');
  await api.profiles.activateProfile('compat-2');
  await conversation.switchProfile('compat-2');
  await message('with a profile');
  await api.profiles.deleteProfile('compat-2');
});

await step('bash', async () => {
  const result = await workspace.executeCommand('echo out; echo err >&2; exit 3', project, 10);
  assert.deepEqual([result.exit_code, result.stdout.trim(), result.stderr.trim()], [3, 'out', 'err']);
  const seen = [];
  const socket = new sdk.BashWebSocketClient({ host, apiKey, callback: (event) => seen.push(event) });
  socket.start();
  await eventually('the socket to be open', async () => socket.ws?.readyState === 1);
  const command = await api.bash.startCommand('for i in 1 2 3; do echo $i; done', project, 10);
  const last = await eventually('its end', async () =>
    (await api.bash.searchEvents({ command_id__eq: command.id, kind__eq: 'BashOutput', sort_order: 'TIMESTAMP', limit: 100 })).items.find((e) => e.exit_code !== null));
  assert.equal(last.exit_code, 0);
  await eventually('its end on the socket', async () => seen.find((e) => e.command_id === command.id && e.exit_code === 0));
  socket.stop();
  assert.equal((await api.bash.getEvent(command.id)).kind, 'BashCommand');
  assert.deepEqual(await api.bash.getEvents(['0'.repeat(32)]), [null]);
  assert.ok((await api.bash.clearEvents()).cleared_count > 0);
});

await step('files', async () => {
  await workspace.uploadText('some text\n', `${project}/deep/b.txt`);
  assert.equal(await workspace.downloadAsText(`${project}/deep/b.txt`), 'some text\n');
  assert.equal(await api.files.downloadTextFile(`${project}/a.txt`), 'made by a tool\n');
  assert.ok((await api.files.getHome()).home.startsWith('/'));
  assert.ok((await api.files.searchSubdirectories(project)).items.find((d) => d.name === 'deep'));
  const zip = await conversation.downloadTrajectory();
  assert.equal((await zip.slice(0, 2).text()), 'PK');
});

await step('git', async () => {
  const changes = await workspace.gitChanges(project);
  assert.deepEqual(changes.find((c) => c.path.endsWith('a.txt'))?.status, 'ADDED', JSON.stringify(changes));
  const diff = await workspace.gitDiff(`${project}/a.txt`);
  assert.equal(diff.modified.trim(), 'made by a tool');
});

await step('settings', async () => {
  const before = await api.settings.getSettings();
  assert.ok(before.agent_settings && before.conversation_settings);
  const after = await api.settings.updateSettings({ conversation_settings_diff: { max_iterations: 77 } });
  assert.equal(after.conversation_settings.max_iterations, 77);
  assert.ok((await api.settings.getAgentSchema()).sections.length > 0);
  assert.ok((await api.settings.getConversationSchema()).sections.length > 0);
});

await step('settings secrets', async () => {
  await api.settings.upsertSecret({ name: 'COMPAT_TOKEN', value: 'hush-3f6b', description: 'for tests' });
  assert.ok((await api.settings.listSecrets()).secrets.find((s) => s.name === 'COMPAT_TOKEN'));
  assert.equal(await api.settings.getSecret('COMPAT_TOKEN'), 'hush-3f6b');
  await api.settings.deleteSecret('COMPAT_TOKEN');
});

await step('agent profiles', async () => {
  const list = await api.agentProfiles.listAgentProfiles();
  assert.ok(Array.isArray(list.profiles));
});

await step('workspaces', async () => {
  await api.workspaces.addWorkspaces([{ id: 'one', name: 'One', path: project }]);
  assert.ok((await api.workspaces.listWorkspaces()).workspaces.find((w) => w.path === project));
  await api.workspaces.deleteWorkspace(project);
});

await step('model lists', async () => {
  assert.ok(Array.isArray(await api.llm.getProviders()));
  assert.ok(Array.isArray(await api.llm.getModels()));
  assert.equal(typeof (await api.llm.getVerifiedModels()), 'object');
});

await step('workspace session', async () => {
  await workspace.startWorkspaceSession(conversation.id);
  await workspace.deleteWorkspaceSession();
});

await step('wrong keys and unknown conversations', async () => {
  const stranger = new clients.AgentServerClient({ host, apiKey: 'wrong' });
  await assert.rejects(stranger.conversations.searchConversations(), refused(401));
  await assert.rejects(api.conversations.getConversation('00000000-0000-0000-0000-000000000000'), refused(404));
  await assert.rejects(api.conversations.pauseConversation('00000000-0000-0000-0000-000000000000'), refused(400));
  await assert.rejects(api.conversations.searchConversations({ limit: 101 }), refused(422));
});

await step('delete', async () => {
  await conversation.stopWebSocketClient();
  await api.conversations.deleteConversation(conversation.id);
  await assert.rejects(api.conversations.getConversation(conversation.id), refused(404));
  await conversation.close();
});

say({ do: 'end' });
process.exit(0);
