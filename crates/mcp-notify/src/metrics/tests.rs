use super::*;
use crate::testing::FileResource;

#[test]
fn labels_are_the_closed_sets_and_make_at_most_12_series() {
    let resource_types: Vec<_> = FileResource::ALL.iter().map(|one| one.as_str()).collect();
    let error_types = ErrorType::ALL.map(ErrorType::as_str);
    assert_eq!(resource_types, ["folder", "document", "link"]);
    assert_eq!(
        error_types,
        ["network", "timeout", "serialization", "other"]
    );
    assert_eq!(resource_types.len() * error_types.len(), 12);
}

#[test]
fn a_counter_that_was_not_set_up_counts_nowhere_and_does_not_fail() {
    Metrics::default().failed(FileResource::Folder, ErrorType::Network);
}

#[cfg(feature = "prometheus")]
mod scraped {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use proptest::prelude::*;

    use super::*;

    fn scrape(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    fn series(text: &str) -> Vec<&str> {
        text.lines()
            .filter(|line| line.starts_with("mcp_"))
            .collect()
    }

    #[test]
    fn the_counter_has_its_name_type_and_both_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register::<FileResource>(&mut registry);
        metrics.failed(FileResource::Link, ErrorType::Serialization);
        let text = scrape(&registry);
        assert!(
            text.contains("# TYPE mcp_notification_failures counter"),
            "{text}"
        );
        let wanted =
            format!("{FAILURES_TOTAL}{{resource_type=\"link\",error_type=\"serialization\"}} 1");
        assert!(text.contains(&wanted), "{text}");
    }

    #[test]
    fn each_failure_type_is_a_series_of_its_own() {
        let mut registry = Registry::default();
        let metrics = Metrics::register::<FileResource>(&mut registry);
        for (count, error_type) in ErrorType::ALL.into_iter().enumerate() {
            for _ in 0..=count {
                metrics.failed(FileResource::Document, error_type);
            }
        }
        let text = scrape(&registry);
        for (count, error_type) in ErrorType::ALL.into_iter().enumerate() {
            let wanted = format!(
                "{FAILURES_TOTAL}{{resource_type=\"document\",error_type=\"{error_type}\"}} {}",
                count + 1
            );
            assert!(text.contains(&wanted), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_sequence_of_failures_makes_more_than_12_series_or_another_metric(
            failures in proptest::collection::vec((0_usize..3, 0_usize..4), 0..200)
        ) {
            let mut registry = Registry::default();
            let metrics = Metrics::register::<FileResource>(&mut registry);
            for (resource_type, error_type) in &failures {
                metrics.failed(FileResource::ALL[*resource_type], ErrorType::ALL[*error_type]);
            }
            let text = scrape(&registry);
            let series = series(&text);
            prop_assert_eq!(series.len(), 12);
            prop_assert!(series.iter().all(|line| line.starts_with(FAILURES_TOTAL)));
            let sum: usize =
                series.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
            prop_assert_eq!(sum, failures.len());
        }
    }
}
