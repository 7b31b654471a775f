//! Who is a caller, and who is not.

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

const FILE: &str = "ann:0123456789abcdef-ann\nbob:0123456789abcdef-bob\n";

/// A token, and the name of its owner.
fn token() -> impl Strategy<Value = (String, Option<&'static str>)> {
    let of = |name| Just((format!("0123456789abcdef-{name}"), Some(name)));
    let wrong = prop_oneof!["[a-z0-9-]{0,24}", "0123456789abcdef-(an|bo|ann?[a-z])?"];
    let wrong = wrong.prop_filter_map("a right one", |token| {
        (!FILE
            .lines()
            .any(|line| line.ends_with(&format!(":{token}"))))
        .then_some((token, None))
    });
    prop_oneof![of("ann"), of("bob"), wrong]
}

/// The bytes of an `Authorization` header, and the caller that they make.
fn authorization() -> impl Strategy<Value = (Vec<u8>, Option<&'static str>)> {
    let anything = prop::collection::vec(any::<u8>(), 0..80).prop_map(|bytes| (bytes, None));
    let scheme = prop_oneof![3 => "(?i)bearer", 1 => "(?i)(basic|bearer-?)?"];
    let parts = (scheme, " {0,3}", token(), " {0,2}");
    let close = parts.prop_map(|(scheme, gap, (token, owner), rest)| {
        let bearer = scheme.eq_ignore_ascii_case("bearer") && !gap.is_empty();
        let bytes = format!("{scheme}{gap}{token}{rest}").into_bytes();
        (bytes, owner.filter(|_| bearer))
    });
    prop_oneof![1 => anything, 3 => close]
}

fn tokens() -> Arc<Tokens> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FILE).unwrap();
    Arc::new(Tokens::read(file.path()).unwrap().0)
}

fn user_header() -> TrustedUserHeader {
    TrustedUserHeader {
        header: HeaderName::from_static("x-user"),
        proxies: vec!["10.0.0.0/8".parse().unwrap()],
        mapping: None,
    }
}

proptest! {
    #[test]
    fn fuzz_no_header_but_the_right_one_is_a_caller((bytes, expected) in authorization()) {
        let identity = Identity { tokens: Some(tokens()), ..Identity::default() };
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            headers.insert(header::AUTHORIZATION, value);
        }
        let caller = identity.establish(None, &headers).ok();
        prop_assert_eq!(caller, expected.map(Caller::named));
    }

    #[test]
    fn fuzz_a_name_of_the_proxy_is_no_name_of_a_token(
        name in prop_oneof!["(ann|bob)", "[a-z:]{1,8}"],
    ) {
        let identity = Identity { tokens: Some(tokens()), user_header: Some(user_header()), ..Identity::default() };
        let mut headers = HeaderMap::new();
        headers.insert("x-user", HeaderValue::from_str(&name).unwrap());
        let proxy = Peer::at([10, 0, 0, 1].into());
        let caller = identity.establish(Some(&proxy), &headers).unwrap();
        prop_assert_eq!(caller.to_string(), format!("user:{name}"));
        for token in ["ann", "bob"] {
            prop_assert_ne!(&caller, &Caller::named(token));
        }
    }
}

/// The name of the caller, or the status of the answer.
fn status(identity: &Identity, peer: Peer, headers: &[(&'static str, &str)]) -> String {
    let headers = headers.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_str(value).unwrap())
    });
    match identity.establish(Some(&peer), &headers.collect()) {
        Ok(caller) => caller.to_string(),
        Err(error) => {
            let answer = error.response(&Challenge::default());
            answer.status().as_str().to_owned()
        }
    }
}

#[test]
fn another_user_of_the_machine_needs_a_token() {
    let (same, other) = (Peer::at([10, 1, 2, 3].into()), Peer::of_other_user());
    let user = ("x-user", "ann");
    let token = ("authorization", "Bearer 0123456789abcdef-bob");
    let neither = Identity::default();
    assert_eq!(status(&neither, same, &[]), "anonymous");
    assert_eq!(status(&neither, other, &[]), "403");
    assert_eq!(status(&neither, other, &[user, token]), "403");
    let both = Identity {
        tokens: Some(tokens()),
        user_header: Some(user_header()),
        ..Identity::default()
    };
    assert_eq!(status(&both, same, &[user]), "user:ann");
    assert_eq!(
        status(&both, other, &[user]),
        "403",
        "anyone can write a header"
    );
    assert_eq!(status(&both, other, &[token]), "bob");
    assert_eq!(status(&both, other, &[]), "401");
}

#[test]
fn who_comes_past_the_proxy_needs_a_token() {
    let (proxy, other) = (
        Peer::at([10, 1, 2, 3].into()),
        Peer::at([192, 0, 2, 1].into()),
    );
    let user = ("x-user", "ann");
    let token = ("authorization", "Bearer 0123456789abcdef-bob");
    let wrong = ("authorization", "Bearer 0123456789abcdef-eve");
    let only = Identity {
        user_header: Some(user_header()),
        ..Identity::default()
    };
    assert_eq!(status(&only, proxy, &[user]), "user:ann");
    assert_eq!(status(&only, proxy, &[]), "401");
    assert_eq!(status(&only, proxy, &[token]), "401");
    assert_eq!(status(&only, other, &[]), "401");
    assert_eq!(status(&only, other, &[user]), "403");
    let both = Identity {
        tokens: Some(tokens()),
        user_header: Some(user_header()),
        ..Identity::default()
    };
    assert_eq!(status(&both, proxy, &[user, wrong]), "user:ann");
    assert_eq!(status(&both, proxy, &[token]), "bob");
    assert_eq!(status(&both, proxy, &[]), "401");
    assert_eq!(status(&both, other, &[token]), "bob");
    assert_eq!(status(&both, other, &[wrong]), "401");
    assert_eq!(status(&both, other, &[user, token]), "403");
    let neither = Identity::default();
    assert_eq!(status(&neither, other, &[user, wrong]), "anonymous");
}

#[test]
fn who_comes_with_other_groups_is_another_caller() {
    let as_user = |groups: &[&str]| {
        let user = KubernetesUser::new("ann", groups.iter().copied()).unwrap();
        Caller::named("ann").acting_as(Arc::new(user))
    };
    assert_eq!(as_user(&["dev", "ops"]), as_user(&["ops", "dev"]));
    assert_ne!(as_user(&["dev", "ops"]), as_user(&["dev"]));
    assert_ne!(as_user(&["dev"]), Caller::named("ann"));
}
