//! What holds for every registry, for the tests of its implementations.

use std::time::Duration;

use bytes::Bytes;

use super::{KEY_BYTES_MAX, Registry, RegistryError, SetOutcome, VALUE_BYTES_MAX};

const LONG: Duration = Duration::from_hours(1);

const ANSWERS: &str = "the registry answers";

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn text(registry: &dyn Registry, key: &str) -> Option<String> {
    let found = registry.get(key).await.expect(ANSWERS)?;
    Some(String::from_utf8(found.value.to_vec()).expect("it was text"))
}

/// Checks what holds for every registry; this one has no records yet.
///
/// # Panics
///
/// Where it does not hold.
pub async fn check_registry(registry: &dyn Registry) {
    assert_eq!(text(registry, "session.a").await, None);
    let first = registry
        .put("session.a", value("1"), LONG)
        .await
        .expect(ANSWERS);
    let second = registry
        .put("session.a", value("2"), LONG)
        .await
        .expect(ANSWERS);
    assert_ne!(first, second);
    let set = async |expected, text| {
        let set = registry.compare_and_set("session.a", expected, value(text), LONG);
        set.await.expect(ANSWERS)
    };
    assert_eq!(set(Some(first), "late").await, SetOutcome::Conflict);
    assert_eq!(set(None, "late").await, SetOutcome::Conflict);
    let SetOutcome::Set(third) = set(Some(second), "3").await else {
        panic!("the revision was the expected one");
    };
    assert_eq!(text(registry, "session.a").await.as_deref(), Some("3"));
    registry.delete("session.a").await.expect(ANSWERS);
    registry.delete("session.a").await.expect(ANSWERS);
    assert_eq!(text(registry, "session.a").await, None);
    assert_eq!(set(Some(third), "late").await, SetOutcome::Conflict);
    let SetOutcome::Set(fourth) = set(None, "4").await else {
        panic!("there was no record");
    };
    assert!(
        ![first, second, third].contains(&fourth),
        "no revision is used twice"
    );
    for key in ["session.c", "session.b", "sessions.a", "other.a"] {
        registry.put(key, value(key), LONG).await.expect(ANSWERS);
    }
    let listed = registry.list("session.").await.expect(ANSWERS);
    let keys: Vec<_> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["session.a", "session.b", "session.c"]);
    let too_long = "x".repeat(KEY_BYTES_MAX + 1);
    for key in ["", ".", "a.", "a b", "a/b", "a.*", "ä", &too_long] {
        let refused = registry.put(key, value(""), LONG).await;
        assert!(matches!(refused, Err(RegistryError::Key(_))), "{key}");
        let refused = registry.get(key).await;
        assert!(matches!(refused, Err(RegistryError::Key(_))), "{key}");
    }
    let large = Bytes::from(vec![0; VALUE_BYTES_MAX + 1]);
    let refused = registry.put("session.large", large, LONG).await;
    assert!(matches!(refused, Err(RegistryError::Rejected { .. })));
}
