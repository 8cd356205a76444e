// An MCP server over HTTP with one tool, which takes one token.
import { once } from 'node:events';
import { createServer } from 'node:http';

export async function toolServer(token) {
  const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const answers = {
    initialize: (params) => ({
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'tools', version: '1' },
    }),
    'tools/list': () => ({ tools: [{ name: 'weather_report', description: 'd', inputSchema: city }] }),
    'tools/call': (params) => ({ content: [{ type: 'text', text: `Sunny in ${params.arguments.city}.` }] }),
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    if (request.headers.authorization !== `Bearer ${token}`) return response.writeHead(401).end('who are you?');
    const call = request.method === 'POST' ? JSON.parse(body) : {};
    if (!answers[call.method]) return response.writeHead(call.method ? 202 : 405).end();
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: answers[call.method](call.params) }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { address: `http://127.0.0.1:${server.address().port}/mcp`, close: () => server.close() };
}
