// The official TypeScript client, second generation: subscribes to events and prints what it is
// notified of, over the end of the server and its next start.
// Arguments: the URL, era (legacy), as JSON the arguments of events_subscribe. Ends with an event
// whose reason is Last.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, era, filters] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  reconnectionOptions: {
    initialReconnectionDelay: 200,
    maxReconnectionDelay: 500,
    reconnectionDelayGrowFactor: 1,
    maxRetries: 100,
  },
});
const client = new Client(
  { name: "kubecrier-tests", version: "1" },
  { versionNegotiation: { mode: era } },
);
// The server is away for a while.
client.onerror = () => {};
const received = [];
const last = new Promise((resolve) => {
  client.setNotificationHandler("notifications/message", ({ params }) => {
    const { eventId, seq, event, gap } = params.data;
    received.push({ eventId, seq, gap, reason: event?.reason });
    if (event?.reason === "Last") resolve(true);
  });
});
await client.connect(transport);
await client.setLoggingLevel("info");
const before = transport.sessionId;
const answer = await client.callTool({ name: "events_subscribe", arguments: JSON.parse(filters) });
await last;
// A request of the same session, which the server has not begun.
const { tools } = await client.listTools();
console.log(
  JSON.stringify({
    subscription: answer.structuredContent.subscriptionId,
    received,
    tools: tools.length,
    isSame: before === transport.sessionId,
  }),
);
await transport.terminateSession();
await client.close();
