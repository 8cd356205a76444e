// What the published Socket.IO client and a server of the package internal/socketio
// do with each other, in Node.js and in a browser: see compat_test.go for what it
// says. The server is in socketio_test.go.

const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const patience = 30000;

function equal(got, want, what = 'got') {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what} ${JSON.stringify(got)?.slice(0, 300)}, want ${JSON.stringify(want)?.slice(0, 300)}`);
}

async function eventually(what, ok) {
  for (const end = Date.now() + patience; Date.now() < end; await delay(10)) if (await ok()) return;
  throw new Error(`waited in vain for ${what}`);
}

// once waits for an event of a socket or a manager.
function once(emitter, event) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`waited in vain for the event ${event}`)), patience);
    emitter.once(event, (...args) => {
      clearTimeout(timer);
      resolve(args);
    });
  });
}

// run runs all steps with a client library.
export async function run(io, host, say) {
  let opened = [];
  async function step(name, work) {
    try {
      await work();
      say({ step: name, status: 'ok' });
    } catch (error) {
      say({ step: name, status: 'failed', detail: `${error?.stack ?? error}` });
    }
    for (const socket of opened) socket.disconnect();
    opened = [];
  }
  function open(query, options = {}, namespace = '/') {
    const socket = io(host + namespace, { path: '/base/socket.io', query, forceNew: true, reconnectionDelay: 10, ...options });
    opened.push(socket);
    return socket;
  }
  const sessions = async () => (await fetch(`${host}/sessions`)).json();
  const transport = (socket) => socket.io.engine.transport.name;
  const ways = [['websocket', { transports: ['websocket'] }], ['polling', { transports: ['polling'] }], ['upgrade', {}]];

  for (const [way, options] of ways) {
    await step(`${way}: 20000 events from the server in order`, async () => {
      const socket = open({ count: 20000 }, options);
      let next = 0;
      let wrong;
      socket.on('n', (i) => {
        if (i !== next++) wrong ??= `${i} in place of ${next - 1}`;
      });
      await eventually('all events', () => wrong || next === 20000);
      equal(wrong, undefined);
      if (way === 'upgrade') await eventually('the upgrade', () => transport(socket) === 'websocket');
      else equal(transport(socket), way);
    });

    await step(`${way}: 20000 events from the client in order`, async () => {
      const socket = open({}, options);
      for (let i = 0; i < 20000; i++) socket.emit('n', i); // the first of them before it is connected
      const asked = once(socket, 'seen');
      socket.emit('seen');
      equal(await asked, [{ events: 20000, wrong: 0 }]);
    });

    await step(`${way}: messages of 4 MiB both ways`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const text = 'x'.repeat((4 << 20) - '42["echo",""]'.length);
      for (let i = 0; i < 2; i++) {
        const echo = once(socket, 'echo');
        socket.emit('echo', text);
        const [back] = await echo;
        equal(back === text, true, `${back?.length} characters are the same:`);
      }
    });

    await step(`${way}: any text`, async () => {
      const socket = open({}, options);
      const values = ['caf\u00e9 \u2615 \u{1f600}', '\u0000\u001e\u2028"\\', '', null, 0, -1.5e300, [], { a: { b: [null, true] } }, 'b', '42["x"]'];
      const back = [];
      socket.on('echo', (value) => back.push(value));
      for (const value of values) socket.emit('echo', value);
      await eventually('all values', () => back.length === values.length);
      equal(back, values);
    });

    await step(`${way}: what lets it in, and its acknowledgements`, async () => {
      const socket = open({ word: 'a&b=c \u00e9' }, { ...options, auth: { token: 'of the client' } });
      const asked = once(socket, 'who');
      socket.emit('who');
      equal(await asked, [{ word: 'a&b=c \u00e9', auth: { token: 'of the client' }, id: socket.id }]);
      equal(await socket.timeout(patience).emitWithAck('echo', 1), undefined); // an empty one
    });

    await step(`${way}: refused with data`, async () => {
      const socket = open({ refuse: 'yes' }, options);
      const [error] = await once(socket, 'connect_error');
      equal([error.message, error.data], ['Settings not found', { msg_id: 'CONFIGURATION$SETTINGS_NOT_FOUND' }]);
      let again = 0;
      socket.on('connect_error', () => again++);
      await delay(200);
      equal([socket.connected, socket.active, again], [false, false, 0]);
    });

    await step(`${way}: another namespace is refused`, async () => {
      const socket = open({}, options, '/admin');
      const [error] = await once(socket, 'connect_error');
      equal(error.message, 'Invalid namespace');
    });

    await step(`${way}: disconnected by the server`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const last = once(socket, 'last');
      const left = once(socket, 'disconnect');
      socket.emit('leave');
      equal(await last, ['word']);
      equal((await left)[0], 'io server disconnect');
      await delay(100);
      equal([socket.connected, socket.active], [false, false]); // it does not come back by itself
      socket.connect();
      await once(socket, 'connect');
    });

    await step(`${way}: comes back when the connection breaks`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const before = socket.id;
      const left = once(socket, 'disconnect');
      socket.emit('fail');
      equal(['transport close', 'transport error'].includes((await left)[0]), true);
      const echo = once(socket, 'echo');
      socket.emit('echo', 'kept until it is back');
      equal(await echo, ['kept until it is back']);
      equal(socket.id === before, false, 'the same id:');
    });

    await step(`${way}: disconnects itself, and connects again`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const left = once(socket, 'disconnect');
      socket.emit('n', 0); // is not lost
      socket.disconnect();
      equal((await left)[0], 'io client disconnect');
      await eventually('the server to know it', async () => (await sessions()) === 0);
      socket.connect();
      await once(socket, 'connect');
      socket.disconnect().connect(); // at once
      await once(socket, 'connect');
      const echo = once(socket, 'echo');
      socket.emit('echo', 1);
      await echo;
    });

    await step(`${way}: is alive while nothing is said`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const { id } = socket;
      let pings = 0;
      socket.io.on('ping', () => pings++);
      await eventually('five pings', () => pings >= 5);
      equal([socket.connected, socket.id], [true, id]);
    });

    await step(`${way}: binary data is refused`, async () => {
      const socket = open({}, options);
      await once(socket, 'connect');
      const left = once(socket, 'disconnect');
      socket.emit('echo', new Uint8Array([1, 2, 3]));
      equal((await left)[0], 'io server disconnect');
    });
  }

  await step('many sockets at a time', async () => {
    const sockets = Array.from({ length: 20 }, (_, i) => open({}, ways[i % 3][1]));
    await Promise.all(sockets.map(async (socket, i) => {
      const echo = once(socket, 'echo');
      socket.emit('echo', i);
      equal(await echo, [i]);
    }));
  });
  await step('the server knows that all have left', () => eventually('no session', async () => (await sessions()) === 0));

  // Some of these leave a session to the server whose client is gone.
  await step('disconnects before it is connected', async () => {
    for (let i = 0; i < 60; i++) {
      const socket = open({}, ways[i % 3][1]);
      await delay(i / 3);
      socket.disconnect();
    }
  });
  say({ do: 'end' });
}
