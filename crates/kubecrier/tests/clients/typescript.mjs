// The official TypeScript client, second generation: connects, receives `list_changed` in the
// era that has sessions, sets a level there, lists, calls, and over HTTP subscribes to events
// and receives one.
// Arguments: target (an http URL, or a command line as JSON), era (legacy or
// auto), calls as JSON. Prints one JSON object.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [target, era, calls] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ ...JSON.parse(target), stderr: "inherit" });
const client = new Client(
  { name: "kubecrier-tests", version: "1" },
  { versionNegotiation: { mode: era } },
);
let changes = 0;
const toolsChanged = new Promise((resolve) => {
  client.setNotificationHandler("notifications/tools/list_changed", () => {
    changes += 1;
    resolve(true);
  });
});
const received = new Promise((resolve) => {
  client.setNotificationHandler("notifications/message", ({ params }) => {
    if (params.logger === "kubernetes/events") resolve(params.data);
  });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    // The first update marks the beginning; later ones describe the change.
    if (params._meta?.["kubecrier/update"]) resolve(params);
  });
});
await client.connect(transport);
if (era === "legacy") {
  await client.setLoggingLevel("info");
  await toolsChanged;
} else await client.listen({ toolsListChanged: true });
const { tools } = await client.listTools();
const answers = [];
for (const call of JSON.parse(calls)) answers.push(await client.callTool(call));
if (target.startsWith("http")) {
  const { resourceUri } = answers.at(-1).structuredContent;
  if (era !== "legacy") await client.listen({ resourceSubscriptions: [resourceUri] });
  await received;
}
console.log(
  JSON.stringify({
    server: client.getServerVersion()?.name,
    toolsChanged: changes > 0,
    tools: tools.map((tool) => tool.name),
    answers,
  }),
);
// Throws if the server does not confirm the end.
if (target.startsWith("http")) await transport.terminateSession();
await client.close();
