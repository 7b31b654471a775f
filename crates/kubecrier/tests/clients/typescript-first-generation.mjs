// The official TypeScript client, first generation, as most agents still ship it.
// Arguments and output as in typescript.mjs; the era is always the legacy one.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [target, , calls] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ ...JSON.parse(target), stderr: "inherit" });
const client = new Client({ name: "kubecrier-tests", version: "1" });
const toolsChanged = new Promise((resolve) => {
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve(true));
});
const received = new Promise((resolve) => {
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    if (params.logger === "kubernetes/events") resolve(params.data);
  });
});
await client.connect(transport);
await client.setLoggingLevel("info");
await toolsChanged;
const { tools } = await client.listTools();
const answers = [];
for (const call of JSON.parse(calls)) answers.push(await client.callTool(call));
if (target.startsWith("http")) await received;
console.log(
  JSON.stringify({
    server: client.getServerVersion()?.name,
    toolsChanged: true,
    tools: tools.map((tool) => tool.name),
    answers,
  }),
);
// Throws if the server does not confirm the end.
if (target.startsWith("http")) await transport.terminateSession();
await client.close();
