// A receiver of events: checks the signature and the form of each with the published libraries,
// and writes what it took or why it refused to stderr, a line each.
import { createServer } from "node:http";
import { HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.SECRET);

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString("utf8");
    try {
      webhook.verify(body, request.headers);
      const event = HTTP.toEvent({ headers: request.headers, body });
      event.validate();
      const taken = { ...event.toJSON(), webhookId: request.headers["webhook-id"] };
      console.error(`taken ${JSON.stringify(taken)}`);
      response.writeHead(202).end();
    } catch (error) {
      console.error(`refused ${error.message}`);
      response.writeHead(401).end();
    }
  });
});

server.listen(0, "127.0.0.1", () => {
  console.error(`listening on 127.0.0.1:${server.address().port}`);
});
