//! Orphans: processes whose parent has ended. The kernel makes them children of process 1,
//! which in a container is this server, or of a subreaper. Each stays a zombie until its new
//! parent waits for it, and enough zombies use up the process ids.

#[cfg(target_os = "linux")]
use std::collections::HashSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The time for which a zombie is left alone. Whoever started a child waits for it and gets
/// its exit status at once; what is still there after this time has nobody.
const GRACE: Duration = Duration::from_secs(2);

/// Waits for orphans until `stop`, if this process is the one that gets them. Children of
/// this process keep their exit status for whoever started them.
#[cfg(target_os = "linux")]
pub async fn reap_orphans(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    if !adopts_orphans() {
        return;
    }
    let mut child_ended = match signal(SignalKind::child()) {
        Ok(signals) => signals,
        Err(error) => {
            tracing::warn!(%error, "cannot notice ended processes, zombies may stay");
            return;
        }
    };
    let mut seen = HashSet::new();
    loop {
        // Zombies that were left alone are looked at again, whether or not more come.
        let next = async {
            if seen.is_empty() {
                child_ended.recv().await;
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = next => {}
        }
        let Ok(now) = zombies() else { continue };
        // A process id is not used again before it was waited for, and the start time
        // tells two processes of one id apart.
        for zombie in now.intersection(&seen) {
            reap(zombie.id);
        }
        seen = now.difference(&seen).copied().collect();
    }
}

/// Orphans are told apart by `/proc`; elsewhere the system's own first process has them.
#[cfg(not(target_os = "linux"))]
pub async fn reap_orphans(_stop: CancellationToken) {}

/// A child of this process that has ended and was not waited for.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Zombie {
    id: rustix::process::Pid,
    started: u64,
}

/// Whether the kernel makes orphans children of this process.
#[cfg(target_os = "linux")]
fn adopts_orphans() -> bool {
    let is_first = rustix::process::getpid().is_init();
    is_first || rustix::process::child_subreaper().is_ok_and(|on| on.is_some())
}

#[cfg(target_os = "linux")]
fn zombies() -> std::io::Result<HashSet<Zombie>> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = HashSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while its entry is read.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
            continue;
        };
        found.extend(parse(id, me, &stat));
    }
    Ok(found)
}

/// Parses `/proc/<id>/stat`; `None` for everything but a zombie whose parent is `parent`.
#[cfg(target_os = "linux")]
fn parse(id: i32, parent: i32, stat: &str) -> Option<Zombie> {
    // The name is in parentheses, and may have any characters in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let (state, of) = (fields.next()?, fields.next()?);
    if state != "Z" || of.parse() != Ok(parent) {
        return None;
    }
    Some(Zombie {
        id: rustix::process::Pid::from_raw(id)?,
        started: fields.nth(17)?.parse().ok()?,
    })
}

#[cfg(target_os = "linux")]
fn reap(id: rustix::process::Pid) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(id), options) {
        Ok(_) => tracing::debug!(pid = %id.as_raw_nonzero(), "orphan reaped"),
        // Whoever started it has waited for it in the meantime.
        Err(error) => tracing::debug!(pid = %id.as_raw_nonzero(), %error, "orphan is gone"),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use tokio::{io::AsyncReadExt, process::Command};

    use super::*;

    fn is_there(id: &str) -> bool {
        std::path::Path::new("/proc").join(id).exists()
    }

    #[test]
    fn only_zombies_of_the_parent_are_found() {
        let stat = |name: &str, state: &str, parent: i32| {
            format!("7 ({name}) {state} {parent} 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 1\n")
        };
        for name in ["sleep", "a) Z 1 b", "(", "a b"] {
            assert_eq!(parse(7, 1, &stat(name, "Z", 1)).unwrap().started, 4711);
            assert_eq!(parse(7, 1, &stat(name, "Z", 2)), None);
            assert_eq!(parse(7, 1, &stat(name, "S", 1)), None);
        }
        assert_eq!(parse(7, 1, ""), None);
        assert_eq!(parse(7, 1, "7 (x) Z 1"), None);
    }

    #[tokio::test]
    async fn orphans_are_reaped_and_children_keep_their_status() {
        let stop = CancellationToken::new();
        // Without the role there is nothing to do.
        reap_orphans(stop.clone()).await;
        let me = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(me)).unwrap();
        assert!(adopts_orphans());
        let lifecycle = crate::Lifecycle::default();
        lifecycle.spawn("orphans", reap_orphans(stop.clone()));
        tokio::task::yield_now().await;
        // The shell ends at once and leaves a process, which ends a moment later. A child
        // of this process ends at the same time, and is waited for only at the end.
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "sleep 0.2 >/dev/null & echo $!"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut orphan = String::new();
        let mut stdout = shell.stdout.take().unwrap();
        stdout.read_to_string(&mut orphan).await.unwrap();
        let orphan = orphan.trim();
        assert!(is_there(orphan));
        assert!(shell.wait().await.unwrap().success());
        let gone = async {
            while is_there(orphan) {
                let mut child = Command::new("/bin/sh")
                    .args(["-c", "exit 7"])
                    .spawn()
                    .unwrap();
                let status = child.wait().await.unwrap();
                assert_eq!(status.code(), Some(7), "its status was not taken away");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_mins(1), gone).await;
        assert!(gone.is_ok(), "the orphan stays a zombie");
        stop.cancel();
        lifecycle.join_tasks().await;
    }
}
