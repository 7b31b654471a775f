// An identity provider: npm's oidc-provider, which lets everybody in as the user whom they name.
//
// Its first line is its issuer. What tests change is under /test.

import http from "node:http";
import { constants, createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
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
const state = { ttl: 3600, alg: "RS256", groups: ["team-a", "everyone"], subject: "ann", keyRequests: 0, keys: [] };

const KINDS = {
  rsa: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  p256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  p384: () => generateKeyPairSync("ec", { namedCurve: "P-384" }),
  ed25519: () => generateKeyPairSync("ed25519"),
};

// A key of RSA for one algorithm, or keys of these kinds for all that they can.
function newKeys(kinds) {
  const key = (kind, more) => {
    const kid = `${kind}-${Date.now()}-${Math.random().toString(36).slice(2)}`;
    return { ...KINDS[kind]().privateKey.export({ format: "jwk" }), kid, use: "sig", ...more };
  };
  return kinds ? kinds.split(",").map((kind) => key(kind)) : [key("rsa", { alg: "RS256" })];
}

// A token with any header and claims, which a key of the provider has signed in any way.
function forge({ header, claims, kind = "rsa", how = "RS256" }) {
  const jwk = state.keys.find((key) => key.kid.startsWith(kind));
  const encoded = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const message = `${encoded({ kid: jwk.kid, ...header })}.${encoded(claims)}`;
  const key = createPrivateKey({ key: jwk, format: "jwk" });
  const ways = {
    RS256: () => sign("sha256", message, key),
    PS256: () => sign("sha256", message, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }),
    ES256: () => sign("sha256", message, { key, dsaEncoding: "ieee-p1363" }),
    // With what everybody knows in place of a secret.
    HS256: () => createHmac("sha256", createPublicKey(key).export({ type: "spki", format: "pem" })).update(message).digest(),
    none: () => Buffer.alloc(0),
  };
  return `${message}.${ways[how]().toString("base64url")}`;
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
      revocation: { enabled: true },
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
          jwt: { sign: { alg: state.alg } },
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
      state.keys = newKeys(url.searchParams.get("kinds"));
      provider = newProvider(issuer);
    } else if (url.pathname === "/test/forge") {
      let body = "";
      for await (const chunk of request) body += chunk;
      return response.end(forge(JSON.parse(body)));
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
  state.keys = newKeys();
  provider = newProvider(issuer);
  console.error(`issuer ${issuer}`);
});
