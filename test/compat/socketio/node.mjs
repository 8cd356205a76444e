// The steps of protocol.mjs in Node.js.
import { io } from 'socket.io-client';
import { run } from './protocol.mjs';

await run(io, process.env.COMPAT_HOST, (line) => process.stdout.write(JSON.stringify(line) + '\n'));
process.exit();
