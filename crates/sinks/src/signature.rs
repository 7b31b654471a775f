//! Signatures of webhooks, as Standard Webhooks specifies them: HMAC-SHA256 over id, time and
//! body, once per secret, so that a receiver can change its secret while both are sent.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use ring::hmac;

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Lengths of a key in bytes, as specified.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Secrets that are signed with at once; more make the header too long.
const SECRETS_MAX: usize = 8;

/// The keys of a webhook, of which each signs.
pub(crate) struct SigningKeys(Vec<hmac::Key>);

/// Why a text has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSecrets {
    #[error("a secret of Standard Webhooks is `whsec_` and 24 to 64 bytes in base64")]
    Form,
    #[error("there are more than {SECRETS_MAX} secrets")]
    TooMany,
}

// === impl SigningKeys ===

impl SigningKeys {
    /// The secrets in a text, apart by white space. The first one is the current one.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidSecrets> {
        let keys = text.split_whitespace().map(|secret| {
            let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
            let key = STANDARD.decode(encoded).ok();
            let key = key.filter(|key| KEY_BYTES.contains(&key.len()));
            let key = key.ok_or(InvalidSecrets::Form)?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err(InvalidSecrets::Form),
            many if many > SECRETS_MAX => Err(InvalidSecrets::TooMany),
            _ => Ok(Self(keys)),
        }
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> String {
        let signatures = self.0.iter().map(|key| {
            let mut context = hmac::Context::with_key(key);
            context.update(format!("{id}.{}.", at.as_second()).as_bytes());
            context.update(body);
            format!("v1,{}", STANDARD.encode(context.sign()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The example that implementations of Standard Webhooks test themselves with.
    #[test]
    fn the_published_example_has_the_published_signature() {
        let keys = SigningKeys::parse(SECRET).unwrap();
        let at = Timestamp::from_second(1_614_265_330).unwrap();
        let signed = keys.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            at,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs_and_what_is_none_is_refused() {
        let two = SigningKeys::parse(&format!("{SECRET}\n {}\n", &SECRET[6..])).unwrap();
        let signed = two.sign("a", Timestamp::UNIX_EPOCH, b"");
        let (one, other) = signed.split_once(' ').unwrap();
        assert!(one == other && one.starts_with("v1,"));
        for bad in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "not base64 at all",
            "whsec_%%",
        ] {
            assert_eq!(SigningKeys::parse(bad).err(), Some(InvalidSecrets::Form));
        }
        let many = [SECRET; SECRETS_MAX + 1].join(" ");
        assert_eq!(
            SigningKeys::parse(&many).err(),
            Some(InvalidSecrets::TooMany)
        );
    }

    proptest! {
        #[test]
        fn fuzz_secrets_are_parsed_or_refused(text in ".{0,200}") {
            let _parsed = SigningKeys::parse(&text);
        }

        #[test]
        fn another_body_has_another_signature(a in ".{0,50}", b in ".{0,50}") {
            let keys = SigningKeys::parse(SECRET).unwrap();
            let sign = |body: &str| keys.sign("id", Timestamp::UNIX_EPOCH, body.as_bytes());
            prop_assert_eq!(a == b, sign(&a) == sign(&b));
        }
    }
}
