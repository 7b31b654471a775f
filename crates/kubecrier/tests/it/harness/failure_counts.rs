//! The counter of notifications that were given up, as an operator scrapes it.

use std::collections::BTreeMap;

use super::HttpSession;

/// The values of `mcp_notification_failures_total` by `resource_type` and `error_type`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailureCounts(BTreeMap<(String, String), u64>);

// === impl FailureCounts ===

impl FailureCounts {
    pub(crate) async fn scrape(session: &HttpSession) -> Self {
        let metrics = session.get("/metrics").await.text().await.unwrap();
        let name = "mcp_notification_failures_total{";
        let mut counts = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with(name)) {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap();
                rest.split('"').next().unwrap().to_owned()
            };
            let value = line.rsplit(' ').next().unwrap().parse().unwrap();
            let series = (label("resource_type"), label("error_type"));
            assert_eq!(counts.insert(series, value), None, "twice: {line}");
        }
        assert_eq!(counts.len(), 12, "{metrics}");
        Self(counts)
    }

    /// The value of one series.
    pub(crate) fn of(&self, resource_type: &str, error_type: &str) -> u64 {
        self.0[&(resource_type.to_owned(), error_type.to_owned())]
    }

    /// The sum over all errors.
    pub(crate) fn of_type(&self, resource_type: &str) -> u64 {
        self.sum(|(one, _)| one == resource_type)
    }

    /// The sum over all types.
    pub(crate) fn of_error(&self, error_type: &str) -> u64 {
        self.sum(|(_, one)| one == error_type)
    }

    /// All failures.
    pub(crate) fn all(&self) -> u64 {
        self.sum(|_| true)
    }

    fn sum(&self, wanted: impl Fn(&(String, String)) -> bool) -> u64 {
        let series = self.0.iter().filter(|(series, _)| wanted(series));
        series.map(|(_, value)| value).sum()
    }
}
