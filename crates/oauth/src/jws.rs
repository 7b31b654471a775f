//! Signed tokens (JWS in its compact form): what the header says, and whether the signature is
//! right. `jsonwebtoken` reads the token; the cryptography is `ring`, which rustls has as well.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{
    DecodingKey, DecodingKeyKind, Validation,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::ErrorKind,
    signature::{self, Verifier},
};
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    Algorithm, TokenError,
    algorithm::Verification,
    claims::{self, Claims},
    error::shown,
};

/// No issuer has longer names for keys.
const KEY_ID_BYTES_MAX: usize = 1024;

/// What access tokens are called (RFC 9068, and before it). Other types are for something else, such as a
/// log-out, and may be signed with the same keys for the same audience.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// What a signed token says of itself, before anything of it is known to be true.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unverified {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) issuer: String,
}

#[derive(Deserialize)]
struct IssuerClaim {
    iss: Option<Value>,
}

/// Whether a token has the form of a JWT: a header that is JSON, and two more parts. Everything
/// else is opaque.
pub(crate) fn is_jwt(token: &str) -> bool {
    token.split('.').count() == 3 && header(token).is_ok()
}

/// Reads a token, without believing it.
pub(crate) fn read(token: &str, accepted: &[Algorithm]) -> Result<Unverified, TokenError> {
    let header = header(token)?;
    if header.contains_key("crit") {
        return Err(TokenError::Critical);
    }
    match header.get("typ") {
        None => {}
        Some(Value::String(given)) if TYPES.iter().any(|one| one.eq_ignore_ascii_case(given)) => {}
        Some(Value::String(given)) => {
            let given = shown(given);
            return Err(TokenError::Type { given });
        }
        Some(_) => return Err(TokenError::Malformed("its `typ` is no name")),
    }
    let given = header
        .get("alg")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let algorithm = given.parse().ok().filter(|one| accepted.contains(one));
    let algorithm = algorithm.ok_or_else(|| TokenError::algorithm(given, accepted))?;
    let key_id = match header.get("kid") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Some(id.clone()),
        Some(_) => return Err(TokenError::Malformed("its `kid` is no name")),
    };
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = URL_SAFE_NO_PAD
        .decode(payload)
        .map_err(|_| TokenError::Malformed("its claims are not base64url"))?;
    let claims: IssuerClaim = serde_json::from_slice(&payload)
        .map_err(|_| TokenError::Malformed("its claims are not JSON"))?;
    match claims.iss {
        Some(Value::String(issuer)) => Ok(Unverified {
            algorithm,
            key_id,
            issuer,
        }),
        _ => Err(TokenError::Claim("iss")),
    }
}

/// When a signed token says that it expires. Nothing of it was verified here: this is for tokens
/// that somebody else has vouched for.
pub fn claimed_expiry(token: &str) -> Option<Timestamp> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    claims::expiry(&serde_json::from_slice(&payload).ok()?)
}

/// Verifies the signature with a key of the issuer, and returns the claims.
pub(crate) fn verify(
    token: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
) -> Result<Claims, TokenError> {
    let mut validation = Validation::new(algorithm.of_library());
    // Times and audience are checked where the clock and the errors are ours.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    match jsonwebtoken::decode::<Claims>(token, key, &validation) {
        Ok(data) => Ok(data.claims),
        Err(error) => match error.kind() {
            ErrorKind::Base64(_) => Err(TokenError::Malformed("a part of it is not base64url")),
            ErrorKind::Json(_) | ErrorKind::Utf8(_) => {
                Err(TokenError::Malformed("its claims are not a JSON object"))
            }
            ErrorKind::InvalidToken => Err(TokenError::Malformed("it does not have three parts")),
            _ => Err(TokenError::Signature),
        },
    }
}

fn header(token: &str) -> Result<Map<String, Value>, TokenError> {
    let mut parts = token.split('.');
    let (Some(header), Some(_), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Malformed("it does not have three parts"));
    };
    let header = URL_SAFE_NO_PAD
        .decode(header)
        .map_err(|_| TokenError::Malformed("its header is not base64url"))?;
    serde_json::from_slice(&header)
        .map_err(|_| TokenError::Malformed("its header is not a JSON object"))
}

/// Makes `ring` the cryptography of the library, for the whole process. A second time changes
/// nothing.
pub(crate) fn install_provider() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
        verifier_factory: RingVerifier::boxed,
        key_utils: KeyUtils::new_unimplemented(),
    };
    let _first_one_stays = PROVIDER.install_default();
}

/// Verifies one signature.
struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

// === impl RingVerifier ===

impl RingVerifier {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature is the library's"
    )]
    fn boxed(
        algorithm: &jsonwebtoken::Algorithm,
        key: &DecodingKey,
    ) -> Result<Box<dyn JwtVerifier>, jsonwebtoken::errors::Error> {
        let mut all = Algorithm::ALL.into_iter();
        let known = all.find(|one| one.of_library() == *algorithm);
        let algorithm = known.ok_or(ErrorKind::UnsupportedAlgorithm)?;
        Ok(Box::new(Self {
            algorithm,
            key: key.clone(),
        }))
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> jsonwebtoken::Algorithm {
        self.algorithm.of_library()
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.algorithm.verification(), self.key.kind()) {
            (Verification::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, given)
            }
            (Verification::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, given)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}
