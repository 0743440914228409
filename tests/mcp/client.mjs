// Drives a server with the SDK's own client and prints what came, as one JSON value.
// Arguments: the folder that the SDK is installed in, the server's program, and what to ask as JSON.
import { pathToFileURL } from 'node:url';

const [sdk, program, questions] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${sdk}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`).href);
const { Client } = await load('index');
const { StdioClientTransport } = await load('stdio');

const asked = JSON.parse(questions);
const client = new Client({ name: 'ctxbridge-test', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command: program, args: ['mcp'], env: asked.env }));

const failure = (error) => ({ code: error.code, message: error.message });
const said = {
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  // From here on the client checks results against the schemas that were listed.
  tools: (await client.listTools()).tools,
  resources: (await client.listResources()).resources,
  templates: (await client.listResourceTemplates()).resourceTemplates,
  calls: [],
  pages: [],
  read: [],
};
for (const call of asked.calls) {
  said.calls.push(await client.callTool(call).catch(failure));
}
for (let cursor; ; ) {
  const page = await client.callTool({ name: 'recall', arguments: { handle: asked.long, ...(cursor && { cursor }) } });
  said.pages.push(page.structuredContent.text);
  cursor = page.structuredContent.next_cursor;
  if (!cursor) break;
}
for (const uri of asked.read) {
  said.read.push((await client.readResource({ uri })).contents[0].text);
}
await client.close();
console.log(JSON.stringify(said));
