//! Keys that come, go and are made up.

use super::*;

#[tokio::test]
async fn keys_are_rotated_and_unknown_ones_are_looked_for_once_in_a_while() {
    let (old, new) = (TestKey::es256("old"), TestKey::es256("new"));
    let issuer = Issuer::start(&[&old]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let (a, b) = (
        with(&issuer, "sub", json!("a")),
        with(&issuer, "sub", json!("b")),
    );
    authenticator.authenticate(&old.sign(&a)).await.unwrap();
    assert_eq!(issuer.key_requests(), 1);
    // A flood of made-up keys is not passed on, and nobody knows whether they are keys by now.
    for n in 0..100 {
        let unknown = TestKey::ed25519(&format!("x{n}")).sign(&a);
        assert_eq!(
            refused(&authenticator, &unknown).await,
            RequestRefusal::Unavailable
        );
    }
    assert_eq!(issuer.key_requests(), 1);
    issuer.publish(&[&new]);
    pass(31).await;
    let many = (0..20).map(|_| new.sign(&a)).collect::<Vec<_>>();
    let many = many.iter().map(|token| authenticator.authenticate(token));
    for accepted in futures_util::future::join_all(many).await {
        accepted.unwrap();
    }
    assert_eq!(issuer.key_requests(), 2, "one request for all");
    // The old key is gone with it.
    assert_eq!(
        refused(&authenticator, &old.sign(&b)).await,
        RequestRefusal::Key
    );
}

#[tokio::test]
async fn a_made_up_key_throws_out_nobody_whose_key_is_new() {
    let (key, new, made_up) = (
        TestKey::es256("a"),
        TestKey::es256("new"),
        TestKey::ed25519("made-up"),
    );
    let issuer = Issuer::start(&[&key]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let claims = claims(&issuer.url);
    authenticator
        .authenticate(&key.sign(&claims))
        .await
        .unwrap();
    pass(31).await;
    // It was asked for, and is none.
    for _ in 0..2 {
        let unknown = made_up.sign(&claims);
        assert_eq!(refused(&authenticator, &unknown).await, RequestRefusal::Key);
    }
    assert_eq!(issuer.key_requests(), 2);
    issuer.publish(&[&key, &new]);
    let fresh = new.sign(&claims);
    let error = authenticator.authenticate(&fresh).await.unwrap_err();
    assert_eq!(error.kind(), TokenErrorKind::Unavailable, "{error}");
    assert_eq!(issuer.key_requests(), 2);
    pass(31).await;
    authenticator.authenticate(&fresh).await.unwrap();
    // Looked for once more with the others, and still none.
    let unknown = made_up.sign(&claims);
    assert_eq!(refused(&authenticator, &unknown).await, RequestRefusal::Key);
    assert_eq!(issuer.key_requests(), 3);
}

#[tokio::test]
async fn a_key_is_replaced_under_its_own_name() {
    for id in ["same", ""] {
        let keys = [TestKey::es256(id), TestKey::es256(id)];
        let published = |key: &TestKey| {
            let mut jwk = key.jwk();
            if id.is_empty() {
                jwk.as_object_mut().unwrap().remove("kid");
            }
            jwk
        };
        let sign = |key: &TestKey, subject: &str, issuer: &Issuer| {
            let mut header = key.header();
            if id.is_empty() {
                header.as_object_mut().unwrap().remove("kid");
            }
            key.sign_with(&header, &with(issuer, "sub", json!(subject)))
        };
        let issuer = Issuer::start(&[]).await;
        issuer.publish_as(vec![published(&keys[0])]);
        let authenticator = Authenticator::new(config(&[&issuer.url]));
        let before = sign(&keys[0], "ann", &issuer);
        authenticator.authenticate(&before).await.unwrap();
        issuer.publish_as(vec![published(&keys[1])]);
        let token = sign(&keys[1], "ann", &issuer);
        // Strangers cannot have the keys asked for at will.
        for _ in 0..10 {
            assert_eq!(
                refused(&authenticator, &token).await,
                RequestRefusal::Signature
            );
        }
        assert_eq!(issuer.key_requests(), 1);
        pass(31).await;
        authenticator.authenticate(&token).await.unwrap();
        assert_eq!(issuer.key_requests(), 2);
        assert_eq!(
            refused(&authenticator, &sign(&keys[0], "bob", &issuer)).await,
            RequestRefusal::Signature
        );
    }
}

#[tokio::test]
async fn an_issuer_that_is_down_throws_nobody_out() {
    let (key, new) = (TestKey::es256("a"), TestKey::es256("b"));
    let issuer = Issuer::start(&[&key]).await;
    issuer.set_down(true);
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let token = |n: i32| key.sign(&with(&issuer, "sub", json!(format!("ann{n}"))));
    let error = authenticator.authenticate(&token(0)).await.unwrap_err();
    assert_eq!(error.kind(), TokenErrorKind::Unavailable, "{error}");
    issuer.set_down(false);
    let error = authenticator.authenticate(&token(0)).await.unwrap_err();
    assert_eq!(error.kind(), TokenErrorKind::Unavailable, "not at once");
    pass(3).await;
    authenticator.authenticate(&token(0)).await.unwrap();
    // Known keys stay, for tokens that were not seen before as well.
    issuer.set_down(true);
    pass(3600).await;
    for n in 1..4 {
        authenticator.authenticate(&token(n)).await.unwrap();
    }
    // One that is not known may be a new one: also within the pause, clients keep their token.
    let unknown = new.sign(&claims(&issuer.url));
    for _ in 0..2 {
        pass(20).await;
        assert_eq!(
            refused(&authenticator, &unknown).await,
            RequestRefusal::Unavailable
        );
    }
    issuer.set_down(false);
    pass(31).await;
    assert_eq!(refused(&authenticator, &unknown).await, RequestRefusal::Key);
}

#[tokio::test]
async fn keys_that_are_withdrawn_do_not_count_for_long() {
    let (old, new) = (TestKey::es256("old"), TestKey::es256("new"));
    let issuer = Issuer::start(&[&old, &new]).await;
    let authenticator = Authenticator::new(config(&[&issuer.url]));
    let token = old.sign(&claims(&issuer.url));
    authenticator.authenticate(&token).await.unwrap();
    issuer.publish(&[&new]);
    pass(601).await;
    assert_eq!(refused(&authenticator, &token).await, RequestRefusal::Key);
}
