// A tiny MCP server for the tests: JSON-RPC by lines on the standard input and output. With `--die` it ends with an error.
import { createInterface } from "node:readline";

const TOOLS = [
  { name: "echo", title: "Echo", description: "Returns a text.", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } },
  { name: "add", description: "Adds two numbers.", inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] } },
];

if (process.argv.includes("--die")) {
  console.error("no licence found in /etc/test-server");
  process.exit(3);
}

function call({ name, arguments: given = {} }) {
  if (name === "echo") return { content: [{ type: "text", text: String(given.text) }] };
  if (name === "add") return { content: [{ type: "text", text: String(given.a + given.b) }] };
  return { content: [{ type: "text", text: `no tool ${name}` }], isError: true };
}

function respond({ method, params }) {
  switch (method) {
    case "initialize":
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "test", version: "1" } };
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call":
      return call(params);
    case "ping":
      return {};
    default:
      return undefined;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  const request = JSON.parse(line);
  // A notification has no id, and gets no response.
  if (request.id === undefined) continue;
  const result = respond(request);
  const answer = result === undefined ? { error: { code: -32601, message: "method not found" } } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: request.id, ...answer })}\n`);
}
