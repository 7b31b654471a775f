//! Writes records, many at a time. A queue that is full drops what comes, and that is counted.

use std::{io, path::Path, sync::Arc};

use kubecrier_lifecycle::Lifecycle;
use tokio::{
    fs::{File, OpenOptions},
    io::AsyncWriteExt,
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{Audit, AuditTarget, subject::KnownNames};
use crate::log_limit::LogLimit;
use kubecrier_core::metrics::RefusalMetrics;

/// Records that wait for the disk.
const QUEUED_MAX: usize = 4096;

/// Records of one write.
const BATCH_MAX: usize = 256;

/// The records that wait to be written.
#[derive(Clone, Debug)]
pub(super) struct RecordQueue(mpsc::Sender<Vec<u8>>);

/// The file cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to --audit-log `{path}`: {source}")]
pub(crate) struct AuditFileError {
    path: String,
    source: io::Error,
}

// === impl RecordQueue ===

impl RecordQueue {
    /// Never waits; `false` if there is no room.
    pub(super) fn push(&self, line: Vec<u8>) -> bool {
        self.0.try_send(line).is_ok()
    }
}

// === impl Audit ===

impl Audit {
    /// Starts the task that writes, which ends with `close`.
    pub(crate) async fn start(
        target: AuditTarget,
        names: Arc<dyn KnownNames>,
        refusals: RefusalMetrics,
        close: CancellationToken,
        lifecycle: &Lifecycle,
    ) -> Result<Self, AuditFileError> {
        // A file that cannot be written to is noticed at the start.
        if let AuditTarget::File(path) = &target {
            open(path).await.map_err(|source| AuditFileError {
                path: path.display().to_string(),
                source,
            })?;
        }
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        lifecycle.spawn("audit", run(target, receiver, close, refusals.clone()));
        Ok(Self {
            queue: RecordQueue(sender),
            names,
            log_limit: Arc::default(),
            refusals,
        })
    }
}

async fn run(
    target: AuditTarget,
    mut records: mpsc::Receiver<Vec<u8>>,
    close: CancellationToken,
    refusals: RefusalMetrics,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    let log_limit = LogLimit::default();
    loop {
        let count = tokio::select! {
            biased;
            count = records.recv_many(&mut batch, BATCH_MAX) => count,
            () = close.cancelled() => return,
        };
        if count == 0 {
            return;
        }
        let text = batch.concat();
        batch.clear();
        if let Err(error) = write(&target, &text).await {
            refusals.audit_dropped(count as u64);
            if log_limit.allows() {
                tracing::error!(%error, count, "records of the audit log are lost");
            }
        }
    }
}

/// Opened for each write, so that a file that was moved away is not written to.
async fn write(target: &AuditTarget, text: &[u8]) -> io::Result<()> {
    match target {
        AuditTarget::Stderr => {
            let mut stderr = tokio::io::stderr();
            stderr.write_all(text).await?;
            stderr.flush().await
        }
        AuditTarget::File(path) => {
            let mut file = open(path).await?;
            file.write_all(text).await?;
            file.flush().await
        }
    }
}

/// Others on the machine need not know who calls what.
async fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .await
}

#[cfg(test)]
mod tests {
    use kubecrier_core::metrics::{Metrics, RequestRefusal};

    use super::*;

    #[derive(Debug)]
    struct NoNames;

    impl KnownNames for NoNames {
        fn is_tool(&self, _name: &str) -> bool {
            false
        }

        fn is_prompt(&self, _name: &str) -> bool {
            false
        }
    }

    /// What `/metrics` says of dropped records.
    fn dropped(metrics: &Metrics) -> String {
        let text = metrics.encode(0).unwrap();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("kubecrier_audit_records_dropped_total "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    /// The writer has no turn until the test waits, as if the disk stood still.
    #[tokio::test(start_paused = true)]
    async fn a_full_queue_drops_counts_and_goes_on() {
        const DROPPED: usize = 100;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let (metrics, lifecycle) = (Metrics::new(), Lifecycle::default());
        let close = CancellationToken::new();
        let target = AuditTarget::File(path.clone());
        let audit = Audit::start(
            target,
            Arc::new(NoNames),
            metrics.refusals(),
            close.clone(),
            &lifecycle,
        );
        let audit = audit.await.unwrap();
        for number in 0..QUEUED_MAX + DROPPED {
            let line = format!("{number}\n").into_bytes();
            assert_eq!(audit.queue.push(line), number < QUEUED_MAX, "{number}");
        }
        // A record that finds no room is counted.
        audit.unidentified("/mcp", RequestRefusal::NoCredentials, 401);
        assert_eq!(dropped(&metrics), "kubecrier_audit_records_dropped_total 1");
        let lines = async |count: usize| loop {
            let text = tokio::fs::read_to_string(&path).await.unwrap();
            if text.lines().count() >= count {
                return text;
            }
            tokio::task::yield_now().await;
        };
        let text = lines(QUEUED_MAX).await;
        let expected: String = (0..QUEUED_MAX)
            .map(|number| format!("{number}\n"))
            .collect();
        assert!(text == expected, "in order, and each once");
        // There is room again.
        assert!(audit.queue.push(b"after\n".to_vec()));
        let text = lines(QUEUED_MAX + 1).await;
        assert!(text.ends_with("\nafter\n"));
        assert_eq!(dropped(&metrics), "kubecrier_audit_records_dropped_total 1");
        close.cancel();
    }

    #[tokio::test]
    async fn records_that_cannot_be_written_are_counted_until_they_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let (metrics, lifecycle) = (Metrics::new(), Lifecycle::default());
        let close = CancellationToken::new();
        let target = AuditTarget::File(path.clone());
        let audit = Audit::start(
            target,
            Arc::new(NoNames),
            metrics.refusals(),
            close.clone(),
            &lifecycle,
        );
        let audit = audit.await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        for number in 1..=3 {
            assert!(audit.queue.push(b"lost\n".to_vec()));
            let expected = format!("kubecrier_audit_records_dropped_total {number}");
            while dropped(&metrics) != expected {
                tokio::task::yield_now().await;
            }
        }
        std::fs::remove_dir(&path).unwrap();
        assert!(audit.queue.push(b"kept\n".to_vec()));
        let text = loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.ends_with('\n') {
                break text;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(text, "kept\n");
        assert_eq!(dropped(&metrics), "kubecrier_audit_records_dropped_total 3");
        close.cancel();
    }
}
