// A session of the published Socket.IO client against the real server, as the web UI
// of the legacy API uses it, in Node.js and in a browser: see compat_test.go for what
// it says.

const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const patience = 30000;

function check(ok, what) {
  if (!ok) throw new Error(what);
}

function equal(got, want, what = 'got') {
  check(JSON.stringify(got) === JSON.stringify(want), `${what} ${JSON.stringify(got)?.slice(0, 500)}, want ${JSON.stringify(want)?.slice(0, 500)}`);
}

async function eventually(what, ok) {
  for (const end = Date.now() + patience; Date.now() < end; await delay(20)) {
    const got = await ok();
    if (got) return got;
  }
  throw new Error(`waited in vain for ${what}`);
}

const isEvent = (e) => ['id', 'source', 'message', 'timestamp'].every((key) => key in e);
const isState = (e) => e.observation === 'agent_state_changed';
const stateOf = (e) => isState(e) && e.extras.agent_state;

// run runs all steps. env has host, key and model; restart kills the server like a
// crash and starts it again.
export async function run(io, env, say, restart) {
  const { host, key } = env;
  let opened = [];
  async function step(name, work) {
    try {
      await work();
      say({ step: name, status: 'ok' });
    } catch (error) {
      const last = opened.flatMap((room) => room.got.slice(-12).map(brief)).join('\n');
      say({ step: name, status: 'failed', detail: `${error?.stack ?? error}\nthe last that came:\n${last}` });
    }
    for (const room of opened) room.socket.disconnect();
    opened = [];
  }
  const brief = (e) => (isEvent(e) ? `${e.id} ${e.source} ${e.action ?? `obs ${e.observation}`} ${stateOf(e) || e.message.slice(0, 60)}` : JSON.stringify(e).slice(0, 200));

  async function api(method, route, body) {
    const answer = await fetch(host + route, { method, headers: { 'X-Session-API-Key': key, 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, body: text ? JSON.parse(text) : null };
  }
  async function make(initial_user_msg) {
    const made = await api('POST', '/api/conversations', initial_user_msg ? { initial_user_msg } : {});
    equal([made.status, made.body.status], [200, 'ok'], JSON.stringify(made.body));
    return made.body.conversation_id;
  }
  const record = async (id) => (await api('GET', `/api/conversations/${id}`)).body;
  const ready = (id) => eventually('the runtime', async () => {
    const conversation = await record(id);
    return conversation.status === 'RUNNING' && conversation.runtime_status === 'STATUS$READY';
  });
  const settings = (more) => api('POST', '/api/settings', { llm_model: 'openai/test-model', llm_api_key: 'sk-of-the-client', llm_base_url: env.model, agent: 'CodeActAgent', language: 'en', ...more });

  // join connects to a conversation, and notes all that comes. After a broken
  // connection it goes on behind the last event that it has, as the UI does.
  function join(id, query = {}, options = {}) {
    const socket = io(host, { path: '/socket.io', forceNew: true, transports: ['websocket'], reconnectionDelay: 20, reconnectionDelayMax: 200,
      query: { latest_event_id: -1, conversation_id: id, providers_set: '', session_api_key: key, ...query }, ...options });
    const room = { socket, got: [], refusals: [], reasons: [], latest: -1 };
    socket.on('oh_event', (e) => {
      room.got.push(e);
      if (!isEvent(e)) return;
      room.latest = Math.max(room.latest, e.id);
      socket.io.opts.query.latest_event_id = room.latest;
    });
    socket.on('connect_error', (error) => room.refusals.push(error));
    socket.on('disconnect', (reason) => room.reasons.push(reason));
    room.events = () => room.got.filter(isEvent);
    room.find = (what, ok) => eventually(what, () => room.events().find(ok));
    room.act = (action, args = {}) => socket.emit('oh_user_action', { action, args });
    room.write = (content, more = {}) => room.act('message', { content, image_urls: [], file_urls: [], timestamp: new Date().toISOString(), ...more });
    room.state = (want, after = -1) => room.find(`the state ${want}`, (e) => stateOf(e) === want && e.id > after);
    room.answer = (text) => room.find(`the answer ${text}`, (e) => e.source === 'agent' && e.action === 'message' && e.message === text);
    opened.push(room);
    return room;
  }
  async function refused(query, options) {
    const room = join(undefined, query, options);
    if (!('conversation_id' in query)) delete room.socket.io.opts.query.conversation_id;
    await eventually('a refusal', () => room.refusals.length > 0);
    await delay(50);
    equal([room.socket.connected, room.socket.active, room.refusals.length], [false, false, 1]); // it does not try again
    return room.refusals[0];
  }
  const nobody = '00000000000000000000000000000000';

  // inOrder checks that every event came once, and those that are no states in order;
  // and that none is missing of those that every client gets.
  async function inOrder(id, room) {
    const came = room.events();
    const ids = came.map((e) => e.id);
    equal(new Set(ids).size, ids.length, `some came twice: ${came.map(brief).join('\n')}\nids`);
    const plain = came.filter((e) => !isState(e)).map((e) => e.id);
    equal(plain, [...plain].sort((a, b) => a - b), 'the order');
    const stored = [];
    for (let start = 0, more = true; more; start = stored.length) {
      const page = await api('GET', `/api/conversations/${id}/events?start_id=${start}&limit=100`);
      equal(page.status, 200);
      stored.push(...page.body.events);
      more = page.body.has_more;
    }
    equal(stored.map((e) => e.id), stored.map((_, i) => i), 'the ids of the stored events');
    const due = stored.filter((e) => !isState(e) && e.action !== 'null' && e.observation !== 'null' && e.action !== 'recall' && (e.source === 'agent' || e.source === 'user'));
    equal(due.filter((e) => !ids.includes(e.id)).map(brief), [], 'what is missing:');
  }

  await step('refused: no conversation', async () => {
    for (const query of [{}, { conversation_id: '' }]) equal((await refused(query)).message, 'No conversation_id in query params');
    equal((await refused({}, { transports: ['polling'] })).message, 'No conversation_id in query params');
  });
  await step('refused: a wrong key, or none', async () => {
    for (const session_api_key of ['wrong', 'null', '']) {
      equal((await refused({ conversation_id: nobody, session_api_key })).message, 'invalid_session_api_key');
    }
  });
  await step('refused: no settings', async () => {
    const error = await refused({ conversation_id: nobody });
    equal([error.message, error.data], ['Settings not found', { msg_id: 'CONFIGURATION$SETTINGS_NOT_FOUND' }]);
  });
  await step('settings', async () => equal((await settings()).status, 200));
  await step('refused: an unknown conversation', async () => {
    for (const conversation_id of [nobody, '../../etc/passwd']) {
      const error = await refused({ conversation_id });
      check(typeof error.message === 'string' && error.message !== '', 'there is no message');
    }
  });

  let main = ''; // the conversation of the steps
  await step('a conversation with a tool call', async () => {
    main = await make('run echo one-$((40+2))');
    await ready(main);
    const room = join(main);
    await room.answer('It is done.');
    await room.state('awaiting_user_input');
    const call = await room.find('the call', (e) => e.action === 'run');
    const result = await room.find('its result', (e) => e.observation === 'run');
    check(result.content.includes('one-42') && result.cause === call.id && result.extras.metadata.exit_code === 0, JSON.stringify(result));
    await inOrder(main, room);
  });

  await step('a message over the socket, live', async () => {
    const room = join(main);
    await eventually('the connection', () => room.socket.connected);
    await room.state('awaiting_user_input');
    const before = room.latest;
    room.write('hello there');
    const mine = await room.find('my own message', (e) => e.source === 'user' && e.action === 'message' && e.args.content === 'hello there');
    await room.answer('You said: hello there');
    await room.state('awaiting_user_input', before);
    check(mine.id > before, `the id ${mine.id} after ${before}`);
    await inOrder(main, room);
  });

  await step('over long-polling and an upgrade, with the old name of the event', async () => {
    for (const options of [{ transports: ['polling'] }, { transports: ['polling', 'websocket'] }]) {
      const room = join(main, {}, options);
      await room.state('awaiting_user_input');
      const word = `over-${options.transports.length}`;
      room.socket.emit('oh_action', { action: 'message', args: { content: word } });
      await room.answer(`You said: ${word} `);
      await inOrder(main, room);
    }
  });

  await step('replay from an event', async () => {
    const all = join(main);
    await all.state('awaiting_user_input');
    const ids = all.events().filter((e) => !isState(e)).map((e) => e.id);
    check(ids.length > 5, `only ${ids}`);
    for (const latest of [ids[2], ids.at(-2), ids.at(-1)]) {
      const room = join(main, { latest_event_id: latest });
      const rest = ids.filter((id) => id > latest);
      await eventually('the rest', () => rest.every((id) => room.events().some((e) => e.id === id)));
      await room.state('awaiting_user_input');
      equal(room.events().filter((e) => !isState(e)).map((e) => e.id), rest, `from ${latest}`);
      check(isState(room.events().at(-1)), 'the state does not come last');
    }
    for (const latest_event_id of ['undefined', 'null', '']) {
      const room = join(main, { latest_event_id });
      await room.state('awaiting_user_input');
      equal(room.events().filter((e) => !isState(e)).map((e) => e.id), ids, `from ${latest_event_id}`);
    }
    const room = join(main, { latest_event_id: 100000 });
    await eventually('the connection', () => room.socket.connected);
    await delay(200);
    equal(room.events().map(brief), [], 'from beyond the end');
  });

  for (const transports of [['websocket'], ['polling'], ['polling', 'websocket']]) {
    await step(`connections that break in the middle of runs: ${transports.join(' to ')}`, async () => {
      const room = join(main, {}, { transports });
      await room.state('awaiting_user_input');
      for (let n = 0; n < 2; n++) {
        const before = room.latest;
        room.write(n % 2 ? `slowly said in round ${n}` : `run sleep 0.3; echo round-${n}`);
        await room.find('my own message', (e) => e.source === 'user' && e.action === 'message' && e.id > before);
        for (let i = 0; i < 4; i++) {
          await delay(20 + 50 * i);
          await eventually('the connection', () => room.socket.connected);
          room.socket.io.engine.close();
        }
        await room.find(`the end of round ${n}`, (e) => e.source === 'agent' && e.action === 'message' && e.id > before);
        await eventually('an end of the run', async () => room.socket.connected && room.events().filter(isState).at(-1)?.extras.agent_state === 'awaiting_user_input');
      }
      check(room.reasons.length >= 8, `${room.reasons.length} connections broke`);
      await inOrder(main, room);
    });
  }

  await step('a message is not lost when its sender leaves at once', async () => {
    const room = join(main);
    await room.state('awaiting_user_input');
    room.write('said and gone');
    room.socket.disconnect();
    const again = join(main);
    await again.find('the message', (e) => e.source === 'user' && e.args?.content === 'said and gone');
    await again.answer('You said: said and gone');
  });

  await step('a message of 4 MiB', async () => {
    const packet = (url) => `42${JSON.stringify(['oh_user_action', { action: 'message', args: { content: 'look', image_urls: [url], file_urls: [], timestamp: '2026-01-02T03:04:05' } }])}`;
    const head = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAA';
    const room_ = (4 << 20) - packet(head).length;
    const url = head + 'A'.repeat(room_ - (room_ % 4));
    for (const transports of [['websocket'], ['polling']]) {
      const room = join(main, {}, { transports });
      await room.state('awaiting_user_input');
      const before = room.latest;
      room.write('look', { image_urls: [url], timestamp: '2026-01-02T03:04:05' });
      const mine = await room.find('my own message', (e) => e.source === 'user' && e.action === 'message' && e.id > before);
      check(mine.args.image_urls?.[0] === url, `the image came back with ${mine.args.image_urls?.[0]?.length} characters of ${url.length}`);
      await room.find('an answer', (e) => e.source === 'agent' && e.action === 'message' && e.id > before);
      equal(room.reasons, []);
    }
  });

  await step('stop, and go on with a message', async () => {
    const id = await make('wait');
    const room = join(id);
    await room.state('running');
    room.act('change_agent_state', { agent_state: 'stopped' });
    const stopped = await room.state('stopped');
    equal([(await record(id)).status, room.reasons], ['RUNNING', []]); // the conversation is not
    room.write('hello again');
    await room.state('running', stopped.id);
    await room.answer('You said: hello again');
    await room.state('awaiting_user_input', stopped.id);
    await inOrder(id, room);
  });

  await step('confirm and reject', async () => {
    equal((await settings({ confirmation_mode: true, security_analyzer: null })).status, 200);
    const id = await make('run echo confirmed-$((40+2))');
    const room = join(id);
    const asked = await room.state('awaiting_user_confirmation');
    const pending = await room.find('the call', (e) => e.action === 'run');
    check(pending.id > asked.id && pending.args.confirmation_state === 'awaiting_confirmation', brief(pending));
    room.act('change_agent_state', { agent_state: 'user_confirmed' });
    const again = await room.find('the call again', (e) => e.action === 'run' && e.id > pending.id);
    equal(again.args.confirmation_state, 'confirmed');
    const result = await room.find('its result', (e) => e.observation === 'run');
    check(result.cause === again.id && result.content.includes('confirmed-42'), brief(result));
    await room.answer('It is done.');
    const quiet = await room.state('awaiting_user_input', again.id);

    room.write('run touch rejected');
    await room.state('awaiting_user_confirmation', quiet.id);
    const second = await room.find('the second call', (e) => e.action === 'run' && e.id > quiet.id);
    room.act('change_agent_state', { agent_state: 'user_rejected' });
    const rejected = await room.find('the rejected call', (e) => e.action === 'run' && e.id > second.id);
    equal(rejected.args.confirmation_state, 'rejected');
    await room.find('its result', (e) => e.observation === 'user_rejected' && e.cause === rejected.id);
    await room.state('awaiting_user_input', rejected.id);
    await inOrder(id, room);
    equal((await settings({ confirmation_mode: false })).status, 200);
  });

  await step('the server crashes and starts again', async () => {
    const room = join(main);
    await room.state('awaiting_user_input');
    const before = room.latest;
    await restart();
    await eventually('the connection', () => room.reasons.length > 0 && room.socket.connected);
    room.write('after the crash');
    await room.answer('You said: after the crash');
    await eventually('the end of the run', () => room.events().filter(isState).at(-1)?.extras.agent_state === 'awaiting_user_input');
    check(room.latest > before, 'the ids go back');
    await inOrder(main, room);
  });

  await step('stopped and started again', async () => {
    const room = join(main);
    await room.state('awaiting_user_input');
    const before = room.latest;
    equal((await api('POST', `/api/conversations/${main}/stop`)).status, 200);
    await eventually('the disconnect', () => room.reasons.length > 0);
    equal([room.reasons, room.socket.active, (await record(main)).status], [['io server disconnect'], false, 'STOPPED']);
    room.socket.connect(); // starts it
    await room.find('loading', (e) => isState(e) && e.id > before);
    await eventually('that it is ready', () => room.events().filter(isState).at(-1)?.extras.agent_state === 'awaiting_user_input');
    room.write('started again');
    await room.answer('You said: started again');
    await inOrder(main, room);
  });

  await step('deleted', async () => {
    const room = join(main);
    await eventually('the connection', () => room.socket.connected);
    equal((await api('DELETE', `/api/conversations/${main}`)).status, 200);
    await eventually('the disconnect', () => room.reasons.length > 0);
    equal(room.reasons, ['io server disconnect']);
    await refused({ conversation_id: main });
  });
}
