//! The public keys of an issuer (RFC 7517).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::Value;

use crate::{Algorithm, error::shown};

/// No issuer publishes more; what it would is not read.
const KEYS_MAX: usize = 200;

/// The keys that can verify signatures.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<PublicKey>,
}

#[derive(Debug)]
struct PublicKey {
    id: Option<String>,
    /// The only algorithm that it is for, if it says so.
    algorithm: Option<String>,
    kind: KeyKind,
    key: DecodingKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

// === impl KeySet ===

impl KeySet {
    /// Reads a set. Keys of other kinds, for encryption or with secrets are left out.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        let set: JwkSet = serde_json::from_slice(text)?;
        let keys = set.keys.into_iter().take(KEYS_MAX);
        let keys = keys.filter_map(|key| PublicKey::new(serde_json::from_value(key).ok()?));
        Ok(Self {
            keys: keys.collect(),
        })
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a key has this name, whatever it is for.
    pub(crate) fn has_name(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// What tokens name keys by.
    pub(crate) fn names(&self) -> impl Iterator<Item = (Option<String>, Algorithm)> {
        self.keys.iter().flat_map(|key| {
            let algorithms = Algorithm::ALL.into_iter();
            let fitting = algorithms.filter(|one| key.fits(*one));
            fitting.map(|one| (key.id.clone(), one))
        })
    }

    /// Those of the algorithms that some key is for.
    pub(crate) fn algorithms(&self, among: &[Algorithm]) -> Vec<Algorithm> {
        let is_there = |one: &Algorithm| self.keys.iter().any(|key| key.fits(*one));
        among.iter().copied().filter(is_there).collect()
    }

    /// The key that a token names. Without a name, the only one that fits.
    pub(crate) fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<&DecodingKey, String> {
        let mut fitting = self.keys.iter().filter(|key| key.fits(algorithm));
        match id {
            Some(id) => match fitting.find(|key| key.id.as_deref() == Some(id)) {
                Some(key) => Ok(&key.key),
                None => Err(format!("no key `{}` for {algorithm}", shown(id))),
            },
            None => match (fitting.next(), fitting.next()) {
                (Some(only), None) => Ok(&only.key),
                (None, _) => Err(format!("no key for {algorithm}")),
                (Some(_), Some(_)) => Err("the token names none of several (`kid`)".to_owned()),
            },
        }
    }
}

// === impl PublicKey ===

impl PublicKey {
    fn new(jwk: Jwk) -> Option<Self> {
        let is_for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
        let ops = jwk.key_ops.as_deref();
        let verifies = ops.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !is_for_signatures || !verifies {
            return None;
        }
        let point = || DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?).ok();
        let (kind, key) = match (&*jwk.kty, jwk.crv.as_deref()) {
            ("RSA", _) => {
                let number = |text: Option<&str>| {
                    let bytes = URL_SAFE_NO_PAD.decode(text?).ok()?;
                    // Some issuers write zeros before a number, which `ring` does not take.
                    let at = bytes.iter().position(|byte| *byte != 0)?;
                    Some(bytes[at..].to_vec())
                };
                let (n, e) = (number(jwk.n.as_deref())?, number(jwk.e.as_deref())?);
                (KeyKind::Rsa, DecodingKey::from_rsa_raw_components(&n, &e))
            }
            ("EC", Some("P-256")) => (KeyKind::P256, point()?),
            ("EC", Some("P-384")) => (KeyKind::P384, point()?),
            ("OKP", Some("Ed25519")) => {
                let key = DecodingKey::from_ed_components(jwk.x.as_deref()?).ok()?;
                (KeyKind::Ed25519, key)
            }
            _ => return None,
        };
        Some(Self {
            id: jwk.kid,
            algorithm: jwk.alg,
            kind,
            key,
        })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let named = self.algorithm.as_deref();
        // Newer issuers call EdDSA by the name of its curve (RFC 9864).
        let is_named = named.is_none_or(|named| {
            named == algorithm.as_str() || (named == "Ed25519" && algorithm == Algorithm::EdDSA)
        });
        is_named
            && match algorithm {
                Algorithm::RS256
                | Algorithm::RS384
                | Algorithm::RS512
                | Algorithm::PS256
                | Algorithm::PS384
                | Algorithm::PS512 => self.kind == KeyKind::Rsa,
                Algorithm::ES256 => self.kind == KeyKind::P256,
                Algorithm::ES384 => self.kind == KeyKind::P384,
                Algorithm::EdDSA => self.kind == KeyKind::Ed25519,
            }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn ec(id: Option<&str>) -> Value {
        let mut key = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
        if let Some(id) = id {
            key["kid"] = json!(id);
        }
        key
    }

    fn set(keys: &[Value]) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_key_is_found_by_its_exact_name_and_algorithm() {
        let two = set(&[ec(Some("a")), ec(Some("b"))]);
        assert!(two.find(Some("a"), Algorithm::ES256).is_ok());
        for (id, algorithm) in [
            (Some("A"), Algorithm::ES256),
            (Some(""), Algorithm::ES256),
            (Some("a"), Algorithm::ES384),
            (Some("a"), Algorithm::RS256),
            (None, Algorithm::ES256),
        ] {
            assert!(two.find(id, algorithm).is_err(), "{id:?} {algorithm}");
        }
        let one = set(&[ec(None)]);
        assert!(one.find(None, Algorithm::ES256).is_ok());
        assert!(one.find(Some("a"), Algorithm::ES256).is_err());
    }

    #[test]
    fn keys_for_other_purposes_are_left_out() {
        let with = |name: &str, value: Value| {
            let mut key = ec(Some("a"));
            key[name] = value;
            key
        };
        for (key, count) in [
            (with("use", json!("sig")), 1),
            (with("use", json!("enc")), 0),
            (with("key_ops", json!(["verify"])), 1),
            (with("key_ops", json!(["encrypt"])), 0),
            (with("crv", json!("P-521")), 0),
            (json!({"kty": "oct", "k": "c2VjcmV0", "kid": "a"}), 0),
            (json!({"kty": "RSA", "n": "AAAA", "e": "AQAB"}), 0),
            (json!("no key"), 0),
        ] {
            assert_eq!(set(std::slice::from_ref(&key)).len(), count, "{key}");
        }
        let only = set(&[with("alg", json!("ES384"))]);
        assert!(only.find(Some("a"), Algorithm::ES256).is_err());
        let many: Vec<_> = (0..1000).map(|_| ec(None)).collect();
        assert_eq!(set(&many).len(), KEYS_MAX);
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_set_or_none(text in prop_oneof![
            ".{0,60}".boxed(),
            "\\{\"keys\":\\[(\\{\"kty\":\"(RSA|EC|OKP)\",\"(n|x|crv)\":\"[A-Za-z0-9=_-]{0,9}\"\\},?){0,3}\\]\\}".boxed(),
        ]) {
            let _read = KeySet::parse(text.as_bytes());
        }
    }
}
