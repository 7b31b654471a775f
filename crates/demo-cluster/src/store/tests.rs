use proptest::prelude::*;

use super::*;

const LIMITS: StoreLimits = StoreLimits {
    objects_max: 20,
    history_max: 10,
};

fn pods() -> &'static Resource {
    Resource::find("", "v1", "pods").unwrap()
}

fn pod(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
    })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        resource: pods().store_key(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

fn names(store: &Store, version: u64) -> Result<Vec<String>, Compacted> {
    let page = store.list(pods(), &Selection::default(), version, None, usize::MAX)?;
    let name = |pod: &Arc<Value>| pod["metadata"]["name"].as_str().unwrap().to_owned();
    Ok(page.items.iter().map(name).collect())
}

fn apps(app: &str) -> Selection {
    Selection::parse(pods(), None, &format!("app={app}"), "").unwrap()
}

#[test]
fn an_object_keeps_what_makes_it_itself() {
    let mut store = Store::new(LIMITS, 0);
    let first = store.put(pod("web", "a"), Timestamp::UNIX_EPOCH).unwrap();
    let later = Timestamp::from_second(60).unwrap();
    let second = store.put(pod("web", "b"), later).unwrap();
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(
        second["metadata"]["creationTimestamp"],
        "1970-01-01T00:00:00Z"
    );
    assert_ne!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
}

#[test]
fn a_change_that_changes_nothing_is_none() {
    let mut store = Store::new(LIMITS, 0);
    let first = store.put(pod("web", "a"), Timestamp::UNIX_EPOCH).unwrap();
    let version = store.version();
    let again = store
        .put(Value::clone(&first), Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_eq!((&again, store.version()), (&first, version));
    store.put(pod("web", "b"), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(store.version(), version + 1);
}

#[test]
fn a_watcher_sees_objects_come_to_match_and_cease_to() {
    let mut store = Store::new(LIMITS, 0);
    let from = store.version();
    for app in ["a", "b", "a"] {
        store.put(pod("web", app), Timestamp::UNIX_EPOCH).unwrap();
    }
    assert!(store.remove(&key("web")));
    let seen = |app| -> Vec<_> {
        let selection = apps(app);
        store
            .since(from)
            .unwrap()
            .filter_map(|change| change.watch_event(&selection))
            .map(|(kind, object)| (kind, object["metadata"]["labels"]["app"].clone()))
            .collect()
    };
    let (a, b) = (json!("a"), json!("b"));
    assert_eq!(
        seen("a"),
        [
            ("ADDED", a.clone()),
            ("DELETED", a.clone()),
            ("ADDED", a.clone()),
            ("DELETED", a)
        ]
    );
    assert_eq!(seen("b"), [("ADDED", b.clone()), ("DELETED", b)]);
}

#[test]
fn nothing_grows_without_limit() {
    let mut store = Store::new(LIMITS, 0);
    for index in 0..LIMITS.objects_max {
        store
            .put(pod(&format!("p{index}"), "a"), Timestamp::UNIX_EPOCH)
            .unwrap();
    }
    let error = store
        .put(pod("more", "a"), Timestamp::UNIX_EPOCH)
        .unwrap_err();
    assert_eq!(error, PutError::Full(LIMITS.objects_max));
    // What exists can still change.
    store.put(pod("p0", "b"), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(store.history.len(), LIMITS.history_max);
}

#[test]
fn what_is_no_object_is_refused() {
    let mut store = Store::new(LIMITS, 0);
    let mut put = |object| store.put(object, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(put(json!({})), PutError::UnknownKind(" ".to_owned()));
    assert_eq!(
        put(json!({"apiVersion": "v1", "kind": "Pod"})),
        PutError::Nameless("Pod")
    );
}

proptest! {
    /// A list at an old resourceVersion is what it was then, or fails because of a
    /// compaction.
    #[test]
    fn the_past_stays_as_it_was(steps in prop::collection::vec((0..6_usize, any::<bool>()), 0..40)) {
        let mut store = Store::new(LIMITS, 0);
        let mut past = vec![(store.version(), Vec::new())];
        for (index, put) in steps {
            let name = format!("p{index}");
            if put {
                store.put(pod(&name, "a"), Timestamp::UNIX_EPOCH).unwrap();
            } else {
                store.remove(&key(&name));
            }
            past.push((store.version(), names(&store, store.version()).unwrap()));
        }
        let mut kept = 0;
        for (version, expected) in past {
            match names(&store, version) {
                Ok(listed) => {
                    kept += 1;
                    prop_assert_eq!(listed, expected);
                }
                Err(Compacted) => prop_assert!(version < store.compacted()),
            }
        }
        prop_assert!(kept > 0);
    }

    #[test]
    fn pages_make_the_whole(count in 0..20_usize, limit in 1..7_usize) {
        let mut store = Store::new(LIMITS, 0);
        for index in 0..count {
            store.put(pod(&format!("p{index:02}"), "a"), Timestamp::UNIX_EPOCH).unwrap();
        }
        let mut after = None;
        let mut seen = 0;
        loop {
            let page = store
                .list(pods(), &Selection::default(), store.version(), after.as_ref(), limit)
                .unwrap();
            seen += page.items.len();
            prop_assert_eq!(page.remaining, count - seen);
            after = page.last;
            if after.is_none() {
                break;
            }
        }
        prop_assert_eq!(seen, count);
    }
}
