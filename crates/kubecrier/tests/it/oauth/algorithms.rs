//! Signatures: every algorithm that can be chosen, made by a real provider with real keys.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::User;

use super::provider::{Guarded, Provider, challenge};
use crate::harness::one_context;

const KINDS: &str = "rsa,p256,p384,ed25519";
const DEFAULT: [&str; 5] = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];
const MORE: [&str; 4] = ["RS384", "RS512", "PS384", "PS512"];

/// A part of a token.
fn part(token: &str, number: usize) -> Value {
    let part = token.split('.').nth(number).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn every_algorithm_that_is_chosen_is_verified_and_no_other() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    provider.rotate_to(KINDS).await;
    let usual = Guarded::start(&file.path, &provider.issuer, &[]);
    let all: Vec<_> = DEFAULT.into_iter().chain(MORE).collect();
    let names = all.join(",");
    let every = Guarded::start(
        &file.path,
        &provider.issuer,
        &["--oauth-algorithms", &names],
    );
    let one = Guarded::start(
        &file.path,
        &provider.issuer,
        &["--oauth-algorithms", "ES384"],
    );
    for name in all {
        provider.set("alg", json!(name)).await;
        let expected = [
            (&every, true),
            (&usual, DEFAULT.contains(&name)),
            (&one, name == "ES384"),
        ];
        for (guarded, is_accepted) in expected {
            let token = provider.token(&guarded.resource(), "kubecrier:read").await;
            assert_eq!(part(&token, 0)["alg"], name);
            let answer = guarded.call(&token, "namespaces_list", json!({})).await;
            if is_accepted {
                assert_eq!(answer.status(), 200, "{name}");
                // The same token with another signature of the same length.
                let (message, signature) = token.rsplit_once('.').unwrap();
                let last = signature.chars().rev().nth(20).unwrap();
                let other = if last == 'A' { 'B' } else { 'A' };
                let at = signature.len() - 21;
                let changed = format!(
                    "{message}.{}{other}{}",
                    &signature[..at],
                    &signature[at + 1..]
                );
                let answer = guarded.call(&changed, "namespaces_list", json!({})).await;
                assert_eq!(answer.status(), 401, "{name}");
                let why = challenge(&answer, "error_description").unwrap();
                assert!(why.contains("signature"), "{name}: {why}");
            } else {
                assert_eq!(answer.status(), 401, "{name}");
                let why = challenge(&answer, "error_description").unwrap();
                assert!(why.contains(&format!("signed with '{name}'")), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_cannot_choose_how_it_is_verified() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    provider.rotate_to(KINDS).await;
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let now = Timestamp::now().as_second();
    let claims = json!({"iss": provider.issuer, "aud": guarded.resource(), "sub": "ann", "iat": now,
                        "exp": now + 600, "scope": "kubecrier:read"});
    let answer = async |kind: &str, how: &str, named: &str| {
        let header = json!({"alg": named, "typ": "at+jwt"});
        let token = provider.forge(kind, how, header, claims.clone()).await;
        guarded.call(&token, "namespaces_list", json!({})).await
    };
    for (kind, how, named, reason) in [
        // The key is for other algorithms.
        ("rsa", "RS256", "ES256", "no key"),
        ("rsa", "RS256", "EdDSA", "no key"),
        ("p256", "ES256", "RS256", "no key"),
        ("p256", "ES256", "ES384", "no key"),
        ("p384", "ES256", "ES256", "no key"),
        ("ed25519", "none", "ES256", "no key"),
        // The key could, but did not.
        ("rsa", "RS256", "PS256", "signature"),
        ("rsa", "PS256", "RS256", "signature"),
        // The public key as a secret, and no key at all.
        ("rsa", "HS256", "HS256", "signed with 'HS256'"),
        ("rsa", "HS256", "RS256", "signature"),
        ("rsa", "none", "none", "signed with 'none'"),
        ("rsa", "none", "None", "signed with 'None'"),
        ("rsa", "RS256", "none", "signed with 'none'"),
        ("rsa", "none", "RS256", "signature"),
        ("rsa", "RS256", "HS512", "signed with 'HS512'"),
    ] {
        let answer = answer(kind, how, named).await;
        let about = format!("{kind} {how} {named}");
        assert_eq!(answer.status(), 401, "{about}");
        let why = challenge(&answer, "error_description").unwrap();
        assert!(why.contains(reason), "{about}: {why}");
    }
    for (kind, how) in [("rsa", "RS256"), ("rsa", "PS256"), ("p256", "ES256")] {
        assert_eq!(answer(kind, how, how).await.status(), 200, "{kind} {how}");
    }
}
