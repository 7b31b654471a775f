//! How fast filters decide, without a cluster.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kubecrier_core::{
    Event, EventFields, InvolvedObject,
    filters::{EventType, FilterRequest, Filters},
};

use crate::process;

/// Each event is matched against each filter.
const EVENTS: u32 = 100_000;
const FILTERS: u32 = 100;

/// The cost of filter decisions.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Decisions {
    pub(crate) made: u64,
    /// The number of decisions that admitted the event.
    pub(crate) admitted: u64,
    pub(crate) per_cpu_second: f64,
}

/// Measures filter decisions on one core.
pub(crate) fn measure() -> Result<Decisions> {
    let filters: Vec<Filters> = (0..FILTERS).map(filter).collect::<Result<_>>()?;
    let events: Vec<Event> = (0..EVENTS).map(event).collect();
    let me = std::process::id();
    let before = process::cpu_seconds(me)?;
    let mut admitted = 0;
    for event in &events {
        for filter in &filters {
            admitted += u64::from(filter.admits(event) && filter.admits_labels(event));
        }
    }
    // At least the resolution of the kernel's CPU clock.
    let seconds = (process::cpu_seconds(me)? - before).max(0.01);
    let made = u64::from(EVENTS) * u64::from(FILTERS);
    #[expect(clippy::cast_precision_loss, reason = "millions")]
    let per_cpu_second = made as f64 / seconds;
    Ok(Decisions {
        made,
        admitted,
        per_cpu_second,
    })
}

/// A filter of each form that a request can have; most forms examine most events.
fn filter(nth: u32) -> Result<Filters> {
    let mut request = FilterRequest::default();
    match nth % 10 {
        0 => {}
        1 => request.namespace = Some(format!("team-{}", nth % 50)),
        2 => request.namespace_selector = vec![format!("team-{}*", nth % 5), "prod-*".to_owned()],
        3 => request.label_selector = Some(format!("app=web-{},tier in (a,b),!canary", nth % 20)),
        4 => request.types = vec![EventType::Warning],
        5 => request.reason = Some("Back".to_owned()),
        6 => request.exclude_reasons = vec!["Pulled".to_owned(), "Created".to_owned()],
        7 => request.involved_kind = Some("Pod".to_owned()),
        8 => request.involved_name = Some(format!("web-{nth}")),
        _ => {
            request.namespaces = (0..20).map(|n| format!("team-{n}")).collect();
            request.types = vec![EventType::Warning];
            request.label_selector = Some("tier notin (c)".to_owned());
        }
    }
    Filters::try_from(request).context("a filter of the benchmark")
}

fn event(nth: u32) -> Event {
    let kind = ["Warning", "Normal", "Normal"][(nth % 3) as usize];
    let reason = ["BackOff", "Pulled", "Created", "Started", "Unhealthy"][(nth % 5) as usize];
    let namespace = format!("team-{}", nth % 60);
    let labels = [
        ("app", format!("web-{}", nth % 40)),
        ("tier", ["a", "b", "c"][(nth % 3) as usize].to_owned()),
        ("pod-template-hash", format!("{nth:x}")),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value));
    let fields = EventFields {
        uid: format!("uid-{nth}"),
        namespace: namespace.clone(),
        kind: kind.to_owned(),
        reason: reason.to_owned(),
        involved: InvolvedObject {
            kind: ["Pod", "Deployment"][(nth % 2) as usize].to_owned(),
            name: format!("web-{}", nth % 200),
            namespace,
            ..InvolvedObject::default()
        },
        ..EventFields::default()
    };
    Event {
        labels: BTreeMap::from(labels).into(),
        ..fields.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_admit_some_events_and_reject_others() {
        let filters: Vec<_> = (0..FILTERS).map(|nth| filter(nth).unwrap()).collect();
        let events: Vec<_> = (0..1000).map(event).collect();
        let admits = |filter: &Filters| {
            let yes = |event: &&Event| filter.admits(event) && filter.admits_labels(event);
            events.iter().filter(yes).count()
        };
        let admitted: Vec<_> = filters.iter().map(admits).collect();
        let some = admitted.iter().filter(|count| (1..1000).contains(*count));
        assert!(some.count() > 70, "{admitted:?}");
    }
}
