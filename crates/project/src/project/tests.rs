//! The clocks of the folder, of the hook and of the poll.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

fn project(dir: &tempfile::TempDir, hook_ttl: Duration) -> Project {
    let config = Config {
        root: dir.path().to_owned(),
        allow_hook: true,
        ttl: Duration::from_secs(5),
        hook_ttl,
        processes_max: 4,
        passed: Vec::new(),
    };
    Project::new(
        config,
        ReservedNames::default(),
        |_, _| Ok(()),
        &Lifecycle::default(),
    )
}

fn hook(dir: &tempfile::TempDir, script: &str) {
    let path = dir.path().join("server.d/register.sh");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn prompts(now: &Arc<Snapshot>) -> Vec<&str> {
    now.prompts.iter().map(|one| one.name.as_str()).collect()
}

const SHUFFLED: &str = r#"echo "{\"version\": 1, \"prompts\": [
    $(printf '{"name": "a", "path": "a.txt"}\n{"name": "b", "path": "a.txt"}' | shuf | paste -sd,)]}""#;

#[tokio::test(start_paused = true)]
async fn a_look_is_good_for_five_seconds_unless_something_changed() {
    let dir = tempfile::tempdir().unwrap();
    let project = project(&dir, Duration::from_secs(5));
    for _ in 0..3 {
        project.refresh().await;
    }
    assert_eq!(project.counts().0, 1);
    tokio::time::advance(Duration::from_millis(4_900)).await;
    project.refresh().await;
    assert_eq!(project.counts().0, 1, "still good");
    tokio::time::advance(Duration::from_millis(200)).await;
    project.refresh().await;
    assert_eq!(project.counts().0, 2);
    project.invalidate(false);
    project.refresh().await;
    assert_eq!(project.counts().0, 3);
}

#[tokio::test(start_paused = true)]
async fn ten_requests_in_a_second_are_one_poll() {
    let dir = tempfile::tempdir().unwrap();
    let project = project(&dir, Duration::from_secs(5));
    for _ in 0..10 {
        project.invalidate(false);
        project.poll().await;
    }
    assert_eq!(project.counts().0, 1);
    tokio::time::advance(Duration::from_millis(1_001)).await;
    project.poll().await;
    assert_eq!(project.counts().0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_look_and_the_poll_after_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let project = project(&dir, Duration::from_secs(5));
    let listed = project.refresh().await;
    project.invalidate(false);
    project.poll().await;
    assert_eq!(
        project.counts().0,
        2,
        "neither keeps the other from looking"
    );
    assert_eq!(
        project.current().hashes,
        listed.hashes,
        "and the lists have not changed"
    );
}

/// S4-42: whatever the age of the folder's snapshot.
#[tokio::test(start_paused = true)]
async fn a_hook_is_due_when_its_own_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    for (hook_ttl, early, late) in [(1_000, 900, 200), (5_000, 4_900, 200)] {
        let project = project(&dir, Duration::from_millis(hook_ttl));
        assert!(project.hook_is_due(), "at first");
        tokio::time::advance(Duration::from_millis(early)).await;
        assert!(!project.hook_is_due(), "{hook_ttl} ms are not over");
        tokio::time::advance(Duration::from_millis(late)).await;
        assert!(project.hook_is_due(), "{hook_ttl} ms are over");
    }
}

/// S4-14, S4-22: a wrong digest makes one other hash, and the file's next change the right
/// one again.
#[tokio::test]
async fn a_corrupted_cache_heals_with_the_next_change() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("prompts")).unwrap();
    let path = dir.path().join("prompts/a.txt");
    fs::write(&path, "a").unwrap();
    let project = project(&dir, Duration::from_secs(5));
    let rescan = async || {
        project.invalidate(false);
        project.refresh().await.hashes.prompts.clone()
    };
    let good = rescan().await;
    assert_eq!(rescan().await, good);
    project.inner.scanner.lock().poison(&path);
    let bad = rescan().await;
    assert_ne!(bad, good, "a hash that differs is told");
    assert_eq!(rescan().await, bad, "once");
    fs::write(&path, "b").unwrap();
    let other = rescan().await;
    fs::write(&path, "a").unwrap();
    assert!(other != good && other != bad);
    assert_eq!(rescan().await, good, "as if nothing had been");
}

#[tokio::test]
async fn the_hook_has_a_clock_of_its_own_and_order_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("prompts")).unwrap();
    fs::write(dir.path().join("prompts/a.txt"), "a").unwrap();
    hook(&dir, SHUFFLED);
    // Only the hook's registration gets stale in this test.
    let project = project(&dir, Duration::ZERO);
    let first = project.refresh().await;
    assert_eq!(prompts(&first), ["a", "b"]);
    for _ in 0..10 {
        let again = project.refresh().await;
        assert_eq!(again.hashes, first.hashes);
    }
    assert_eq!(project.counts().1, 11, "the hook ran for each refresh");
    hook(&dir, r#"echo '{"version": 1, "prompts": []}'"#);
    assert!(
        prompts(&project.refresh().await).is_empty(),
        "without waiting for the folder"
    );
}

#[tokio::test]
async fn a_hook_that_fails_takes_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("prompts")).unwrap();
    fs::write(dir.path().join("prompts/a.txt"), "a").unwrap();
    hook(&dir, SHUFFLED);
    let project = project(&dir, Duration::ZERO);
    let good = project.refresh().await;
    for (script, why) in [
        ("echo broken >&2; exit 1", "exit code 1: broken"),
        ("echo nonsense", "what it printed: it is not JSON"),
    ] {
        hook(&dir, script);
        let now = project.refresh().await;
        assert_eq!(now.hashes, good.hashes);
        assert!(
            now.rejections[0].reason.contains(why),
            "{:?}",
            now.rejections
        );
    }
    let path = dir.path().join("server.d/register.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let now = project.refresh().await;
    assert!(
        now.rejections[0].reason.contains("chmod go-w"),
        "{:?}",
        now.rejections
    );
    fs::rename(&path, dir.path().join("real.sh")).unwrap();
    std::os::unix::fs::symlink("../real.sh", &path).unwrap();
    let now = project.refresh().await;
    assert!(
        now.rejections[0].reason.contains("it is a link"),
        "{:?}",
        now.rejections
    );
}

#[tokio::test]
async fn a_rejection_is_in_the_stats_until_it_is_fixed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("tools/empty")).unwrap();
    let project = project(&dir, Duration::ZERO);
    project.refresh().await;
    let stats = project.stats();
    assert_eq!(stats["refusedCount"], 1);
    assert_eq!(stats["refused"][0]["path"], "tools/empty");
    fs::remove_dir(dir.path().join("tools/empty")).unwrap();
    project.invalidate(false);
    project.refresh().await;
    assert_eq!(project.stats()["refused"], json!([]));
}
