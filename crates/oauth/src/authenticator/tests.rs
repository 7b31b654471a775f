mod keys;

use std::io::Write;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use kubecrier_core::{filters::Glob, metrics::RequestRefusal};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    ClaimPath, TokenErrorKind,
    testing::{Issuer, TestKey, unsigned},
};

const AUDIENCE: &str = "https://crier.example/mcp";

fn mapping() -> ClaimMapping {
    ClaimMapping {
        username_claim: ClaimPath::parse("sub").unwrap(),
        username_prefix: "oidc:".to_owned(),
        groups_claim: ClaimPath::parse("groups"),
        groups_prefix: "oidc:".to_owned(),
        allowed_groups: vec![Glob::new("team-*")],
    }
}

fn config(issuers: &[&str]) -> OAuthConfig {
    let issuers = issuers.iter().map(|url| TrustedIssuer {
        url: IssuerUrl::parse(url).unwrap(),
        mapping: mapping(),
    });
    OAuthConfig {
        issuers: issuers.collect(),
        audiences: vec![AUDIENCE.to_owned()],
        algorithms: Algorithm::DEFAULT.to_vec(),
        ca_file: None,
        introspection: None,
    }
}

fn now() -> i64 {
    Timestamp::now().as_second()
}

fn claims(issuer: &str) -> Value {
    json!({"iss": issuer, "sub": "ann", "aud": AUDIENCE, "exp": now() + 300, "iat": now(),
           "scope": "kubecrier:read", "groups": ["team-a", "everyone"]})
}

fn with(issuer: &Issuer, name: &str, value: Value) -> Value {
    let mut claims = claims(&issuer.url);
    claims[name] = value;
    claims
}

async fn refused(authenticator: &Authenticator, token: &str) -> RequestRefusal {
    let error = authenticator.authenticate(token).await.unwrap_err();
    assert!(!error.to_string().contains(token), "{error}");
    error.reason()
}

/// As if so much time had passed.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_is_the_caller_that_its_claims_name() {
    for key in [
        TestKey::es256("a"),
        TestKey::es384("a"),
        TestKey::ed25519("a"),
    ] {
        let issuer = Issuer::start(&[&key]).await;
        let authenticator = Authenticator::new(config(&[&issuer.url]));
        let token = key.sign(&claims(&issuer.url));
        let accepted = authenticator.authenticate(&token).await.unwrap();
        assert_eq!(&*accepted.issuer, issuer.url);
        assert_eq!(accepted.subject, "ann");
        assert_eq!(accepted.user.name(), "oidc:ann");
        let groups: Vec<&str> = accepted.user.groups().iter().map(AsRef::as_ref).collect();
        assert_eq!(groups, ["oidc:team-a", "system:authenticated"]);
        assert!(accepted.scopes.contains("kubecrier:read"));
        assert!(!accepted.scopes.contains("kubecrier:logs"));
        assert!(accepted.expires.as_second() >= now() + 290);
    }
}

#[tokio::test]
async fn a_token_with_anything_wrong_is_refused() {
    let (key, stranger) = (TestKey::es256("a"), TestKey::es256("a"));
    let issuer = Issuer::start(&[&key, &TestKey::ed25519("b")]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url, "https://other.example"]));
    let good = key.sign(&claims(&issuer.url));
    authenticator.authenticate(&good).await.unwrap();
    for (name, value, reason) in [
        (
            "aud",
            json!("https://other.example/mcp"),
            RequestRefusal::Audience,
        ),
        ("aud", json!(null), RequestRefusal::Claim),
        ("iss", json!("https://eve.example"), RequestRefusal::Issuer),
        (
            "iss",
            json!(format!("{}/", issuer.url)),
            RequestRefusal::Issuer,
        ),
        ("iss", json!([issuer.url]), RequestRefusal::Claim),
        ("exp", json!(now() - 31), RequestRefusal::Expired),
        ("exp", json!(null), RequestRefusal::Claim),
        ("nbf", json!(now() + 60), RequestRefusal::NotYetValid),
        ("sub", json!(null), RequestRefusal::Claim),
        (
            "sub",
            json!("a\r\nImpersonate-Group: system:masters"),
            RequestRefusal::Claim,
        ),
    ] {
        let mut wrong = with(&issuer, name, value.clone());
        if value.is_null() {
            wrong.as_object_mut().unwrap().remove(name);
        }
        let token = key.sign(&wrong);
        assert_eq!(
            refused(&authenticator, &token).await,
            reason,
            "{name} {value}"
        );
    }
    // A time that is none must not mean that there is no end.
    let endless = key.sign(&with(&issuer, "exp", json!(null)));
    assert_eq!(
        refused(&authenticator, &endless).await,
        RequestRefusal::Claim
    );
    // The key of somebody else, a token that was changed, and none at all.
    let forged = stranger.sign(&claims(&issuer.url));
    assert_eq!(
        refused(&authenticator, &forged).await,
        RequestRefusal::Signature
    );
    let (_, signature) = good.rsplit_once('.').unwrap();
    let changed = unsigned(&key.header(), &with(&issuer, "sub", json!("bob")));
    for signature in [signature, ""] {
        let changed = format!("{changed}.{signature}");
        assert_eq!(
            refused(&authenticator, &changed).await,
            RequestRefusal::Signature
        );
    }
    // The key of another algorithm under the name of this one.
    let mut header = key.header();
    header["kid"] = json!("b");
    let confused = key.sign_with(&header, &claims(&issuer.url));
    assert_eq!(
        refused(&authenticator, &confused).await,
        RequestRefusal::Key
    );
    header["kid"] = json!(7);
    let confused = key.sign_with(&header, &claims(&issuer.url));
    assert_eq!(
        refused(&authenticator, &confused).await,
        RequestRefusal::Malformed
    );
    // What the header asks for and is not supported.
    let mut header = key.header();
    header["crit"] = json!(["exp"]);
    let critical = key.sign_with(&header, &claims(&issuer.url));
    assert_eq!(
        refused(&authenticator, &critical).await,
        RequestRefusal::Malformed
    );
}

#[tokio::test]
async fn a_token_cannot_choose_a_weak_algorithm() {
    let key = TestKey::es256("a");
    let issuer = Issuer::start(&[&key]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    for name in ["none", "None", "NONE", ""] {
        let header = json!({"alg": name, "kid": "a"});
        let token = format!("{}.", unsigned(&header, &claims(&issuer.url)));
        assert_eq!(
            refused(&authenticator, &token).await,
            RequestRefusal::Algorithm
        );
    }
    // The public key is known to everybody: it must not become a secret.
    let message = unsigned(&json!({"alg": "HS256", "kid": "a"}), &claims(&issuer.url));
    for secret in [key.public().to_vec(), key.jwk().to_string().into_bytes()] {
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&secret, message.as_bytes());
        let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(
            refused(&authenticator, &token).await,
            RequestRefusal::Algorithm
        );
    }
    // One that is asymmetric, and was not chosen.
    let only_edwards = OAuthConfig {
        algorithms: vec![Algorithm::EdDSA],
        ..config(&[&issuer.url])
    };
    let token = key.sign(&claims(&issuer.url));
    let authenticator = Authenticator::new(only_edwards);
    assert_eq!(
        refused(&authenticator, &token).await,
        RequestRefusal::Algorithm
    );
}

#[tokio::test]
async fn a_valid_token_whose_claims_are_no_user_is_forbidden() {
    let key = TestKey::es256("a");
    let issuer = Issuer::start(&[&key]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let groups: Vec<_> = (0..10_000).map(|n| format!("team-{n}")).collect();
    let groups = key.sign(&with(&issuer, "groups", json!(groups)));
    let error = authenticator.authenticate(&groups).await.unwrap_err();
    assert_eq!(error.reason(), RequestRefusal::Malformed, "{error}");
    let groups: Vec<_> = (0..1000).map(|n| format!("team-{n}")).collect();
    let groups = key.sign(&with(&issuer, "groups", json!(groups)));
    let error = authenticator.authenticate(&groups).await.unwrap_err();
    assert_eq!(error.kind(), TokenErrorKind::Forbidden);
    assert!(error.to_string().contains("1000 groups"), "{error}");
    // It is known who that is.
    let identity = format!("{}#ann", issuer.url);
    assert_eq!(error.identity(), Some(&*identity));
    let mut bare = config(&[&issuer.url]);
    bare.issuers[0].mapping.username_prefix = String::new();
    let token = key.sign(&with(&issuer, "sub", json!("system:admin")));
    let error = Authenticator::new(bare)
        .authenticate(&token)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), TokenErrorKind::Forbidden);
}

/// The same subject of another issuer is somebody else.
#[tokio::test]
async fn each_issuer_names_users_of_its_own() {
    let keys = [TestKey::es256("a"), TestKey::es256("b")];
    let issuers = [
        Issuer::start(&[&keys[0]]).await,
        Issuer::start(&[&keys[1]]).await,
    ];
    let mut config = config(&[&issuers[0].url, &issuers[1].url]);
    config.issuers[1].mapping.username_prefix = "b:".to_owned();
    let authenticator = Authenticator::new(config);
    for (at, name) in ["oidc:ann", "b:ann"].into_iter().enumerate() {
        let token = keys[at].sign(&claims(&issuers[at].url));
        let accepted = authenticator.authenticate(&token).await.unwrap();
        assert_eq!(accepted.user.name(), name);
        assert_eq!(*accepted.identity, format!("{}#ann", issuers[at].url));
    }
}

/// A stranger's token has the keys asked for; right after that the issuer gets a new one.
/// A new key under the name of the old one, and one without a name.
#[tokio::test]
async fn a_token_of_another_type_is_no_access_token() {
    let key = TestKey::es256("a");
    let issuer = Issuer::start(&[&key]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let of_type = |given: Value| {
        let mut header = key.header();
        header["typ"] = given;
        key.sign_with(&header, &claims(&issuer.url))
    };
    for given in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"] {
        let token = of_type(json!(given));
        authenticator.authenticate(&token).await.unwrap();
    }
    let mut untyped = key.header();
    untyped.as_object_mut().unwrap().remove("typ");
    let untyped = key.sign_with(&untyped, &claims(&issuer.url));
    authenticator.authenticate(&untyped).await.unwrap();
    for given in [
        json!("logout+jwt"),
        json!("dpop+jwt"),
        json!("secevent+jwt"),
        json!("at+jwt; x=1"),
        json!(""),
        json!(null),
        json!(["JWT"]),
    ] {
        let error = authenticator
            .authenticate(&of_type(given.clone()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), TokenErrorKind::Invalid, "{given}");
        assert_eq!(error.reason(), RequestRefusal::Malformed, "{given}");
    }
}

fn introspecting(issuer: &Issuer, secret: &tempfile::NamedTempFile) -> OAuthConfig {
    let url = format!("{}/introspect", issuer.url);
    let path = secret.path().to_owned();
    let introspection = IntrospectionConfig::new(&url, "crier".to_owned(), path);
    OAuthConfig {
        introspection: Some(introspection.unwrap()),
        ..config(&[&issuer.url])
    }
}

/// Who is asked about opaque tokens speaks for itself alone.
#[tokio::test]
async fn an_issuer_introspects_nobody_of_another() {
    let key = TestKey::es256("a");
    let issuers = [Issuer::start(&[&key]).await, Issuer::start(&[&key]).await];
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    writeln!(secret, "s3cr@t").unwrap();
    let introspection = introspecting(&issuers[0], &secret).introspection;
    let mut config = config(&[&issuers[0].url, &issuers[1].url]);
    config.issuers[1].mapping.username_prefix = "b:".to_owned();
    let authenticator = Authenticator::new(OAuthConfig {
        introspection,
        ..config
    });
    let active = |issuer: &Issuer| {
        json!({"active": true, "iss": issuer.url, "sub": "ann", "aud": AUDIENCE,
               "exp": now() + 300})
    };
    issuers[0].knows("own", active(&issuers[0]));
    issuers[0].knows("others", active(&issuers[1]));
    let accepted = authenticator.authenticate("own").await.unwrap();
    assert_eq!(accepted.user.name(), "oidc:ann");
    assert_eq!(
        refused(&authenticator, "others").await,
        RequestRefusal::Issuer
    );
}

#[tokio::test]
async fn opaque_tokens_are_asked_about_once_a_minute() {
    let key = TestKey::es256("a");
    let issuer = Issuer::start(&[&key]).await;
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    writeln!(secret, "s3cr@t").unwrap();
    let authenticator = Authenticator::new(introspecting(&issuer, &secret));
    let active = |name: &str, value: Value| {
        let mut claims = json!({"active": true, "sub": "ann", "aud": AUDIENCE,
                                "exp": now() + 300, "scope": "kubecrier:read"});
        claims[name] = value;
        claims
    };
    issuer.knows("t0ken", active("aud", json!([AUDIENCE])));
    for _ in 0..10 {
        let accepted = authenticator.authenticate("t0ken").await.unwrap();
        assert_eq!(accepted.user.name(), "oidc:ann");
        assert_eq!(&*accepted.issuer, issuer.url);
    }
    assert_eq!(issuer.introspections(), 1);
    for (token, claims, reason) in [
        ("unknown", None, RequestRefusal::Inactive),
        (
            "late",
            Some(active("exp", json!(now() - 60))),
            RequestRefusal::Expired,
        ),
        (
            "foreign",
            Some(active("aud", json!("other"))),
            RequestRefusal::Audience,
        ),
        (
            "anyones",
            Some(active("aud", json!(null))),
            RequestRefusal::Claim,
        ),
        (
            "eves",
            Some(active("iss", json!("https://eve.example"))),
            RequestRefusal::Issuer,
        ),
        (
            "odd.but-opaque",
            Some(active("active", json!("yes"))),
            RequestRefusal::Unavailable,
        ),
    ] {
        if let Some(claims) = claims {
            issuer.knows(token, claims);
        }
        assert_eq!(refused(&authenticator, token).await, reason, "{token}");
    }
    // A signed token is not sent anywhere.
    let before = issuer.introspections();
    let signed = key.sign(&claims("https://eve.example"));
    assert_eq!(
        refused(&authenticator, &signed).await,
        RequestRefusal::Issuer
    );
    assert_eq!(issuer.introspections(), before);
    // Revoked, and away: the last answer counts until there is another.
    issuer.knows("t0ken", json!({"active": false}));
    issuer.set_down(true);
    pass(61).await;
    authenticator.authenticate("t0ken").await.unwrap();
    issuer.set_down(false);
    pass(61).await;
    assert_eq!(
        refused(&authenticator, "t0ken").await,
        RequestRefusal::Inactive
    );
    let without = Authenticator::new(config(&[&issuer.url]));
    assert_eq!(refused(&without, "t0ken").await, RequestRefusal::Malformed);
}

#[tokio::test]
async fn metadata_is_never_another_hosts() {
    let key = TestKey::es256("a");
    let issuer = Issuer::start(&[&key]).await;
    for path in ["/redirects", "/nothing"] {
        let url = format!("{}{path}", issuer.url);
        let authenticator = Authenticator::new(config(&[&url]));
        let token = key.sign(&claims(&url));
        let error = authenticator.authenticate(&token).await.unwrap_err();
        assert_eq!(error.kind(), TokenErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn a_huge_token_is_refused_before_it_is_read() {
    let authenticator = Authenticator::new(config(&["https://id.example"]));
    let huge = "x".repeat(TOKEN_BYTES_MAX + 1);
    assert_eq!(
        refused(&authenticator, &huge).await,
        RequestRefusal::Malformed
    );
}

proptest! {
    /// Whatever is sent, it is refused with an error and without a request.
    #[test]
    fn fuzz_garbage_is_refused(token in prop_oneof![
        ".{0,80}",
        "[A-Za-z0-9_-]{0,20}(\\.[A-Za-z0-9_-]{0,20}){0,4}",
        "(eyJhbGciOiJFUzI1NiJ9|eyJhbGciOiJub25lIn0|e30|W10)\\.(e30|W10|eyJpc3MiOjF9|[a-z]{0,9})\\.[a-z]{0,9}",
    ]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let authenticator = Authenticator::new(config(&["https://id.example"]));
        let error = runtime.block_on(authenticator.authenticate(&token)).unwrap_err();
        prop_assert_eq!(error.kind(), TokenErrorKind::Invalid);
    }

    /// A token of which any bit was changed is not accepted, unless it decodes to the same.
    #[test]
    fn fuzz_a_changed_token_is_refused(at in any::<prop::sample::Index>(), by in 1_u8..64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let key = TestKey::es256("a");
            let issuer = Issuer::start(&[&key]).await;
            let authenticator = Authenticator::new(config(&[&issuer.url]));
            let token = key.sign(&claims(&issuer.url));
            let mut bytes = token.clone().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                [usize::from(bytes[at].wrapping_add(by) % 64)];
            let changed = String::from_utf8(bytes).unwrap();
            if changed != token {
                assert!(authenticator.authenticate(&changed).await.is_err(), "{changed}");
            }
        });
    }
}
