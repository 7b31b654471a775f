// An identity provider: npm's oidc-provider, which lets everybody in as the user whom they name.
//
// Its first line is its issuer. What tests change is under /test.

import http from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const SCOPES = "kubecrier:read kubecrier:logs kubecrier:events kubecrier:tools";
// A program of a person. One that registers itself gets no other scopes than it first asks for.
const PERSON = {
  client_id: "person",
  token_endpoint_auth_method: "none",
  application_type: "native",
  redirect_uris: ["http://127.0.0.1:1/callback"],
  grant_types: ["authorization_code"],
  response_types: ["code"],
};
const state = { ttl: 3600, groups: ["team-a", "everyone"], subject: "ann", keyRequests: 0, keys: [] };

function newKey() {
  const kid = `key-${Date.now()}-${Math.random().toString(36).slice(2)}`;
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" };
}

function newProvider(issuer) {
  const machine = (client_id, scope) => ({
    client_id,
    client_secret: `${client_id}-secret`,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    ...(scope && { scope }),
  });
  const provider = new Provider(issuer, {
    jwks: { keys: state.keys },
    clients: [machine("robot"), machine("crier"), PERSON],
    clientDefaults: { token_endpoint_auth_method: "client_secret_basic" },
    scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
    cookies: { keys: ["tests"] },
    ttl: { Session: 3600, Grant: 3600, Interaction: 600, AccessToken: () => state.ttl, ClientCredentials: () => state.ttl },
    findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    extraTokenClaims: () => ({ groups: state.groups }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_, __, oneOf) => oneOf?.[0],
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: SCOPES,
          audience: resource.replace(/[?]opaque$/, ""),
          accessTokenTTL: state.ttl,
          accessTokenFormat: resource.endsWith("?opaque") ? "opaque" : "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  provider.on("server_error", (_, error) => console.error("server_error", error));
  return provider;
}

// Whoever comes is logged in and consents to everything.
async function interact(provider, request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    const login = { accountId: state.subject };
    return provider.interactionFinished(request, response, { login });
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(" "));
  for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

let provider;
let issuer;
const server = http.createServer(async (request, response) => {
  const url = new URL(request.url, issuer);
  try {
    if (url.pathname === "/test/rotate") {
      state.keys = [newKey()];
      provider = newProvider(issuer);
    } else if (url.pathname === "/test/set") {
      for (const [name, value] of url.searchParams) {
        state[name] = JSON.parse(value);
      }
    } else if (url.pathname.startsWith("/interaction/")) {
      return await interact(provider, request, response);
    } else {
      state.keyRequests += url.pathname === "/jwks";
      return await provider.callback()(request, response);
    }
    response.end(JSON.stringify({ keyRequests: state.keyRequests }));
  } catch (error) {
    console.error(error);
    response.writeHead(500).end(String(error));
  }
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  state.keys = [newKey()];
  provider = newProvider(issuer);
  console.error(`issuer ${issuer}`);
});
