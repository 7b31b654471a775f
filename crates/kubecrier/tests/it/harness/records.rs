//! The records of a server's log.
#![cfg(feature = "conformance-fixtures")]

use std::time::Duration;

use serde_json::Value;

use super::{Server, TIMEOUT};

impl Server {
    /// The records at this level, of a server with `--log-format json`.
    pub(crate) fn records(&self, level: &str) -> Vec<Value> {
        let log = self.log();
        let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
        records
            .filter(|record: &Value| record["level"] == level)
            .collect()
    }

    /// Waits until there are that many records at this level.
    pub(crate) async fn recorded(&self, level: &str, count: usize) -> Vec<Value> {
        let reached = async {
            while self.records(level).len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok(), "{count} at {level}: {}", self.log());
        self.records(level)
    }
}
