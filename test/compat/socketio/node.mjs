// The steps of protocol.mjs or rooms.mjs in Node.js.
import { createInterface } from 'node:readline';
import { io } from 'socket.io-client';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const replies = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { run } = await import(`./${process.env.COMPAT_SESSION}.mjs`);
const env = { host: process.env.COMPAT_HOST, key: process.env.COMPAT_KEY, model: process.env.COMPAT_MODEL };
await run(io, env, say, async () => {
  say({ do: 'restart' });
  await replies.next();
});
say({ do: 'end' });
process.exit();
