// The official TypeScript client, second generation: connects, is told of the tools,
// sets a level where the era has one, lists, calls, and over HTTP subscribes to events
// and hears of one.
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
const told = new Promise((resolve) => {
  client.setNotificationHandler("notifications/tools/list_changed", () => resolve(true));
});
const heard = new Promise((resolve) => {
  client.setNotificationHandler("notifications/message", ({ params }) => {
    if (params.logger === "kubernetes/events") resolve(params.data);
  });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    // The first is the mark at the beginning; news say what changed.
    if (params._meta?.["kubecrier/update"]) resolve(params);
  });
});
await client.connect(transport);
if (era === "legacy") await client.setLoggingLevel("info");
else await client.listen({ toolsListChanged: true });
await told;
const { tools } = await client.listTools();
const answers = [];
for (const call of JSON.parse(calls)) answers.push(await client.callTool(call));
if (target.startsWith("http")) {
  const { resourceUri } = answers.at(-1).structuredContent;
  if (era !== "legacy") await client.listen({ resourceSubscriptions: [resourceUri] });
  await heard;
}
console.log(
  JSON.stringify({
    server: client.getServerVersion()?.name,
    told: true,
    tools: tools.map((tool) => tool.name),
    answers,
  }),
);
await client.close();
