// The official TypeScript client, second generation: calls tools and prints their answers.
// Arguments: the URL, era (legacy), calls as JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, era, calls] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url));
const client = new Client(
  { name: "kubecrier-tests", version: "1" },
  { versionNegotiation: { mode: era } },
);
await client.connect(transport);
const answers = [];
for (const call of JSON.parse(calls)) answers.push(await client.callTool(call));
console.log(JSON.stringify({ answers }));
await client.close();
