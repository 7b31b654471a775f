use tempfile::TempDir;
use tokio::{task::JoinSet, time::advance};

use super::*;
use crate::{History, HistoryConfig, Retention};

const LONG: Duration = Duration::from_hours(1);

fn value(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn text(registry: &dyn Registry, key: &str) -> Option<String> {
    let found = registry.get(key).await.unwrap()?;
    Some(String::from_utf8(found.value.to_vec()).unwrap())
}

fn open(folder: &TempDir) -> (FolderRegistry, History) {
    let config = HistoryConfig {
        folder: folder.path().join("history"),
        retention: Retention::default(),
    };
    let (history, _writer) = History::open(config).unwrap();
    (history.registry(), history)
}

#[tokio::test(start_paused = true)]
async fn records_in_memory_have_revisions_and_an_end() {
    let registry = MemoryRegistry::default();
    check_registry(&registry).await;
    let entry = registry.get("session.b").await.unwrap().unwrap();
    advance(LONG).await;
    assert_eq!(text(&registry, "session.b").await, None);
    assert_eq!(registry.list("").await.unwrap(), []);
    let late = registry.compare_and_set("session.b", Some(entry.revision), value("late"), LONG);
    assert_eq!(late.await.unwrap(), SetOutcome::Conflict);
}

/// With an answer the folder is free: a thread that is still about to end does not hold it.
#[tokio::test]
async fn a_folder_can_be_opened_again_as_soon_as_the_last_answer_is_there() {
    let folder = TempDir::new().unwrap();
    for turn in 0..50 {
        let (registry, _history) = open(&folder);
        let text = turn.to_string();
        registry.put("session.a", value(&text), LONG).await.unwrap();
    }
}

#[tokio::test]
async fn records_in_a_folder_survive_it_being_closed() {
    let folder = TempDir::new().unwrap();
    let revision = {
        let (registry, _history) = open(&folder);
        check_registry(&registry).await;
        registry.get("session.b").await.unwrap().unwrap().revision
    };
    let (registry, _history) = open(&folder);
    assert_eq!(
        text(&registry, "session.b").await.as_deref(),
        Some("session.b")
    );
    let set = registry.compare_and_set("session.b", Some(revision), value("next"), LONG);
    let SetOutcome::Set(next) = set.await.unwrap() else {
        panic!("the revision is still the expected one");
    };
    assert_ne!(next, revision);
}

#[tokio::test]
async fn a_record_in_a_folder_is_removed_when_its_time_is_over() {
    let folder = TempDir::new().unwrap();
    let (registry, history) = open(&folder);
    registry
        .put("session.short", value("1"), Duration::ZERO)
        .await
        .unwrap();
    registry
        .put("session.long", value("2"), LONG)
        .await
        .unwrap();
    assert_eq!(text(&registry, "session.short").await, None);
    assert_eq!(registry.list("session.").await.unwrap().len(), 1);
    let store = history.shared.store().unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    // Seen with the eyes of a time at which it was there.
    assert_eq!(store.records("", 0).unwrap().len(), 2);
    store.remove_expired_records(now).unwrap();
    assert_eq!(store.records("", 0).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_conditional_writes_one_wins() {
    let folder = TempDir::new().unwrap();
    let (registry, _history) = open(&folder);
    let first = registry.put("lease.a", value("0"), LONG).await.unwrap();
    let mut writes = JoinSet::new();
    for number in 0..50 {
        let registry = registry.clone();
        writes.spawn(async move {
            let value = value(&number.to_string());
            let set = registry.compare_and_set("lease.a", Some(first), value, LONG);
            set.await.unwrap() != SetOutcome::Conflict
        });
    }
    let won = writes.join_all().await;
    let won = won.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}
