// The official client logs in at the server's authorization server, calls tools, and asks for
// more when it is refused. Arguments: the URL of the server, calls of tools as JSON, and what to
// fill into a form, such as username=ann&password=secret, where the provider has one.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";

const [target, callsText, credentials] = process.argv.slice(2);
const CALLBACK = "http://127.0.0.1:1/callback";

// What a browser would do: follow to the callback, with cookies, and fill in the form of a log-in.
const cookies = new Map();
async function browse(url) {
  let form;
  for (let step = 0; step < 20; step++) {
    if (url.href.startsWith(CALLBACK)) {
      return url.searchParams;
    }
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const sent = form && { method: "POST", body: new URLSearchParams(form) };
    const answer = await fetch(url, { redirect: "manual", headers: { cookie }, ...sent });
    for (const line of answer.headers.getSetCookie()) {
      const [name, value] = line.split(";")[0].split(/=(.*)/s);
      cookies.set(name, value);
    }
    const next = answer.headers.get("location");
    const page = next ? "" : await answer.text();
    const action = page.match(/<form[^>]* action="([^"]+)"/)?.[1].replaceAll("&amp;", "&");
    if (!next && (!action || !credentials || form)) {
      throw new Error(`${url}: ${answer.status} ${page}`);
    }
    form = next ? undefined : credentials;
    url = new URL(next ?? action, url);
  }
  throw new Error("too many redirects");
}

const asked = [];
const saved = {};
let code;
const provider = {
  redirectUrl: CALLBACK,
  clientMetadata: {
    client_name: "test",
    redirect_uris: [CALLBACK],
    grant_types: ["authorization_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    application_type: "native",
  },
  clientInformation: () => saved.client ?? { client_id: "person" },
  saveClientInformation: (client) => void (saved.client = client),
  tokens: () => saved.tokens,
  saveTokens: (tokens) => void (saved.tokens = tokens),
  codeVerifier: () => saved.verifier,
  saveCodeVerifier: (verifier) => void (saved.verifier = verifier),
  redirectToAuthorization: async (url) => {
    const { scope, resource } = Object.fromEntries(url.searchParams);
    asked.push({ scope, resource });
    code = (await browse(url)).get("code");
  },
};

let transport;
async function connect() {
  transport = new StreamableHTTPClientTransport(new URL(target), { authProvider: provider });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  return client;
}

// Logs in when that is what is missing.
async function authorized(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) {
      throw error;
    }
    await transport.finishAuth(code);
    return await work();
  }
}

const client = await authorized(connect);
const answers = [];
for (const call of JSON.parse(callsText)) {
  const answer = await authorized(() => client.callTool(call));
  answers.push(answer.isError ?? false);
}
await client.close();
console.log(JSON.stringify({ asked, answers }));
process.exit(0);
