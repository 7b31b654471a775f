//! The claims that every token has to have: when it is valid, for whom, and whose it is.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{LEEWAY_SECONDS, TokenError, error::shown};

/// Claims of a token, whose signature or issuer has vouched for them.
pub(crate) type Claims = Map<String, Value>;

/// A longer subject is no name (OpenID Connect allows 255 characters).
const SUBJECT_BYTES_MAX: usize = 1024;

/// What was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) subject: String,
    /// When it expires, without leeway; `None` if it does not say.
    pub(crate) expires: Option<Timestamp>,
}

/// Checks times, audience and subject. The issuer was checked when its keys were chosen.
pub(crate) fn check(
    claims: &Claims,
    audiences: &[String],
    now: Timestamp,
) -> Result<Checked, TokenError> {
    let now = now.as_second();
    let expires = date(claims, "exp")?;
    if expires.is_some_and(|at| now >= at.saturating_add(LEEWAY_SECONDS)) {
        return Err(TokenError::Expired);
    }
    for claim in ["nbf", "iat"] {
        if date(claims, claim)?.is_some_and(|at| at > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(TokenError::NotYetValid);
        }
    }
    check_audience(claims.get("aud"), audiences)?;
    let subject = claims.get("sub").and_then(Value::as_str);
    let subject = subject
        .filter(|text| (1..=SUBJECT_BYTES_MAX).contains(&text.len()))
        .filter(|text| !text.contains(char::is_control))
        .ok_or(TokenError::Claim("sub"))?;
    Ok(Checked {
        subject: subject.to_owned(),
        expires: expires.map(timestamp),
    })
}

/// When claims end, if they say so.
pub(crate) fn expiry(claims: &Claims) -> Option<Timestamp> {
    date(claims, "exp").ok()?.map(timestamp)
}

/// A time that is too far away for a timestamp is as good as the last one, or the first.
fn timestamp(second: i64) -> Timestamp {
    let last = if second < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(second).unwrap_or(last)
}

/// Whether a verified token has expired since.
pub(crate) fn is_expired(expires: Timestamp, now: Timestamp) -> bool {
    now.as_second() >= expires.as_second().saturating_add(LEEWAY_SECONDS)
}

/// A date in seconds; fractions are allowed, and dropped.
fn date(claims: &Claims, name: &'static str) -> Result<Option<i64>, TokenError> {
    // Beyond this, seconds are no exact number in JSON any more.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => {
            let whole = number.as_i64();
            let fraction = number.as_f64().filter(|seconds| seconds.abs() < EXACT_MAX);
            #[expect(clippy::cast_possible_truncation, reason = "within what is exact")]
            let seconds = whole.or_else(|| fraction.map(|seconds| seconds.floor() as i64));
            seconds.map(Some).ok_or(TokenError::Claim(name))
        }
        Some(_) => Err(TokenError::Claim(name)),
    }
}

fn check_audience(claim: Option<&Value>, audiences: &[String]) -> Result<(), TokenError> {
    let given: Vec<&str> = match claim {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if given.is_empty() {
        return Err(TokenError::Claim("aud"));
    }
    let is_ours = |given: &&str| audiences.iter().any(|own| own == given);
    if given.iter().any(is_ours) {
        return Ok(());
    }
    Err(TokenError::Audience {
        given: shown(&given.join(", ")),
        accepted: audiences.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use kubecrier_core::metrics::RequestRefusal;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn run(claims: Value) -> Result<Checked, TokenError> {
        let Value::Object(claims) = claims else {
            unreachable!("claims are an object")
        };
        let audiences = ["https://crier.example/mcp".to_owned(), "crier".to_owned()];
        check(&claims, &audiences, Timestamp::from_second(NOW).unwrap())
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = json!({"sub": "ann", "aud": "crier", "exp": NOW + 60});
        claims[name] = value;
        claims
    }

    fn refused(claims: Value) -> RequestRefusal {
        run(claims).unwrap_err().reason()
    }

    #[test]
    fn times_have_half_a_minute_of_leeway() {
        for (claim, offset, expected) in [
            ("exp", 1, None),
            ("exp", -29, None),
            ("exp", -30, Some(RequestRefusal::Expired)),
            ("nbf", 30, None),
            ("nbf", 31, Some(RequestRefusal::NotYetValid)),
            ("iat", 30, None),
            ("iat", 31, Some(RequestRefusal::NotYetValid)),
        ] {
            let error = run(with(claim, json!(NOW + offset))).err();
            let reason = error.map(|error| error.reason());
            assert_eq!(reason, expected, "{claim} {offset}");
        }
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
        let fraction = json!(NOW as f64 + 0.5);
        let expires = run(with("exp", fraction)).unwrap().expires;
        assert_eq!(expires.unwrap().as_second(), NOW);
        for wrong in [json!("tomorrow"), json!(1e300), json!([NOW]), json!({})] {
            assert_eq!(refused(with("exp", wrong)), RequestRefusal::Claim);
        }
    }

    #[test]
    fn a_token_for_another_audience_is_refused() {
        for good in [
            json!("crier"),
            json!(["other", "https://crier.example/mcp"]),
        ] {
            assert!(run(with("aud", good)).is_ok());
        }
        for other in [
            json!("https://crier.example/mcp/"),
            json!("Crier"),
            json!(["a", "b"]),
        ] {
            let error = run(with("aud", other)).unwrap_err();
            assert_eq!(error.reason(), RequestRefusal::Audience);
            assert!(error.to_string().contains("crier"), "{error}");
        }
        for none in [json!(null), json!([]), json!(7), json!([7]), json!({})] {
            assert_eq!(refused(with("aud", none)), RequestRefusal::Claim);
        }
    }

    #[test]
    fn a_token_without_a_subject_is_nobodys() {
        for wrong in [
            json!(null),
            json!(""),
            json!(7),
            json!("a\nb"),
            json!("x".repeat(1025)),
        ] {
            assert_eq!(refused(with("sub", wrong)), RequestRefusal::Claim);
        }
        assert_eq!(
            run(with("sub", json!("J\u{fc}rgen"))).unwrap().subject,
            "J\u{fc}rgen"
        );
    }

    proptest! {
        /// Whatever the numbers are, nothing overflows, and only times in order are accepted.
        #[test]
        fn fuzz_times_decide(exp in any::<i64>(), nbf in any::<i64>()) {
            let mut claims = with("exp", json!(exp));
            claims["nbf"] = json!(nbf);
            let is_now = i128::from(NOW) < i128::from(exp) + 30 && i128::from(nbf) <= i128::from(NOW) + 30;
            prop_assert_eq!(run(claims).is_ok(), is_now);
        }
    }
}
