//! An issuer for tests: keys that are made on the fly, and a server with its metadata.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A key of an issuer.
pub(crate) struct TestKey {
    pub(crate) id: String,
    algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A server that is an issuer.
pub(crate) struct Issuer {
    pub(crate) url: String,
    shared: Arc<Shared>,
    _server: tokio::task::JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    url: Mutex<String>,
    keys: Mutex<Vec<Value>>,
    tokens: Mutex<HashMap<String, Value>>,
    is_down: AtomicBool,
    key_requests: AtomicUsize,
    introspections: AtomicUsize,
}

// === impl TestKey ===

impl TestKey {
    pub(crate) fn es256(id: &str) -> Self {
        Self::ecdsa(id, "ES256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    pub(crate) fn es384(id: &str) -> Self {
        Self::ecdsa(id, "ES384", &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ecdsa(
        id: &str,
        algorithm: &'static str,
        signing: &'static ring::signature::EcdsaSigningAlgorithm,
    ) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(signing, key.as_ref(), &random).unwrap();
        Self {
            id: id.to_owned(),
            algorithm,
            pair: Pair::Ecdsa(pair),
        }
    }

    pub(crate) fn ed25519(id: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self {
            id: id.to_owned(),
            algorithm: "EdDSA",
            pair: Pair::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()),
        }
    }

    /// The bytes of the public key.
    pub(crate) fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }

    pub(crate) fn jwk(&self) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            Pair::Ecdsa(_) => {
                let (x, y) = self.public()[1..].split_at((self.public().len() - 1) / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "kid": self.id, "use": "sig",
                       "alg": self.algorithm, "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed25519(_) => json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id,
                                       "x": encoded(self.public())}),
        }
    }

    pub(crate) fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": self.algorithm, "kid": self.id})
    }

    /// A signed token.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&self.header(), claims)
    }

    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message.as_bytes());
                signed.unwrap().as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Header and claims of a token, without the signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

// === impl Issuer ===

impl Issuer {
    pub(crate) async fn start(keys: &[&TestKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        shared.url.lock().clone_from(&url);
        let mut server = tokio::task::JoinSet::new();
        let serving = Arc::clone(&shared);
        server.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One after the other is enough.
                let _answered = serving.answer(stream).await;
            }
        });
        let issuer = Self {
            url,
            shared,
            _server: server,
        };
        issuer.publish(keys);
        issuer
    }

    /// Replaces the keys.
    pub(crate) fn publish(&self, keys: &[&TestKey]) {
        self.publish_as(keys.iter().map(|key| key.jwk()).collect());
    }

    /// The same in any form.
    pub(crate) fn publish_as(&self, keys: Vec<Value>) {
        *self.shared.keys.lock() = keys;
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Says what the issuer knows of an opaque token.
    pub(crate) fn knows(&self, token: &str, claims: Value) {
        self.shared.tokens.lock().insert(token.to_owned(), claims);
    }

    /// How often keys were asked for.
    pub(crate) fn key_requests(&self) -> usize {
        self.shared.key_requests.load(Ordering::Relaxed)
    }

    /// How often it was asked about tokens.
    pub(crate) fn introspections(&self) -> usize {
        self.shared.introspections.load(Ordering::Relaxed)
    }
}

// === impl Shared ===

impl Shared {
    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        let mut chunk = [0; 4096];
        let (head, body) = loop {
            let count = stream.read(&mut chunk).await?;
            request.extend_from_slice(&chunk[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                if count == 0 {
                    return Ok(());
                }
                continue;
            };
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.parse::<usize>().unwrap())
            });
            if count == 0 || body.len() >= length.unwrap_or_default() {
                break (head.to_owned(), body.to_owned());
            }
        };
        if self.is_down.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (status, answer) = self.page(&head, &body);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlocation: /elsewhere\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        stream.write_all(format!("{head}{answer}").as_bytes()).await
    }

    fn page(&self, head: &str, body: &str) -> (&'static str, Value) {
        let url = self.url.lock().clone();
        match head.split(' ').nth(1).unwrap_or_default() {
            "/.well-known/openid-configuration" => (
                "200 OK",
                json!({"issuer": url, "jwks_uri": format!("{url}/jwks")}),
            ),
            "/jwks" => {
                self.key_requests.fetch_add(1, Ordering::Relaxed);
                ("200 OK", json!({"keys": *self.keys.lock()}))
            }
            "/introspect" => {
                self.introspections.fetch_add(1, Ordering::Relaxed);
                // crier:s3cr%40t
                if !head.contains("Basic Y3JpZXI6czNjciU0MHQ=") {
                    return ("401 Unauthorized", json!({}));
                }
                let form = form_urlencoded::parse(body.as_bytes());
                let token = form.into_iter().find(|(name, _)| name == "token");
                let token = token.map(|(_, value)| value.into_owned());
                let claims = self.tokens.lock().get(&token.unwrap_or_default()).cloned();
                ("200 OK", claims.unwrap_or_else(|| json!({"active": false})))
            }
            "/redirects/.well-known/openid-configuration" => ("302 Found", json!({})),
            _ => ("404 Not Found", json!({})),
        }
    }
}
