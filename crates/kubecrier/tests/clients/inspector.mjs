// The client library that the Inspector is made of, held open: prints how many
// `list_changed` it has received of each list, after each of them and after each line of
// its standard input, for which it lists everything once more.
// Argument: an http URL.
import readline from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client(
  { name: "kubecrier-tests", version: "1" },
  { versionNegotiation: { mode: "legacy" } },
);
const counts = { tools: 0, resources: 0, prompts: 0 };
const print = () => process.stdout.write(`${JSON.stringify(counts)}\n`);
for (const list of Object.keys(counts)) {
  client.setNotificationHandler(`notifications/${list}/list_changed`, () => {
    counts[list] += 1;
    print();
  });
}
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const input = readline.createInterface({ input: process.stdin });
input.on("line", async () => {
  await client.listTools();
  await client.listResources();
  await client.listPrompts();
  print();
});
input.on("close", () => process.exit(0));
