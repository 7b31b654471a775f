use kubecrier_core::{Event, EventFields, InvolvedObject, filters::FilterRequest};
use kubecrier_history::Retention;
use kubecrier_k8s::{Allowed, ClusterIdentity, Config, DeniedKinds};
use tokio::{
    task::JoinSet,
    time::{Duration, sleep},
};

use super::*;

pub(crate) fn contexts() -> Contexts {
    Contexts::new(Config {
        kubeconfig: None,
        context: None,
        request_timeout: Duration::from_secs(1),
        demo: None,
        redactor: kubecrier_redact::Redactor::default(),
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: ClusterIdentity::default(),
    })
}

fn start(retention: Retention) -> (History, JoinSet<()>) {
    let (history, writer) = History::in_memory(retention).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(std::future::pending()));
    (history, running)
}

/// Events one second apart until now, each with the version of its number.
async fn happen(history: &History, numbers: impl IntoIterator<Item = u64>, space: &str) {
    let context: Arc<str> = "dev".into();
    for number in numbers {
        let event = Event::from(EventFields {
            uid: format!("uid-{number}"),
            version: Some(number),
            namespace: space.to_owned(),
            kind: "Normal".to_owned(),
            reason: "Happened".to_owned(),
            count: 1,
            timestamp: time(number),
            involved: InvolvedObject {
                kind: "Pod".to_owned(),
                namespace: space.to_owned(),
                name: "web-0".to_owned(),
                ..InvolvedObject::default()
            },
            ..EventFields::default()
        });
        history.record(&context, Stream::Events, move || record::of_event(&event));
        if number % 5_000 == 0 {
            assert!(history.flush().await);
        }
    }
    assert!(history.flush().await);
}

fn time(number: u64) -> Timestamp {
    let second = i64::try_from(number).unwrap();
    Timestamp::from_millisecond(1_800_000_000_000 + second * 10).unwrap()
}

fn filters(space: &str) -> Filters {
    let request = FilterRequest {
        namespace: Some(space.to_owned()),
        ..FilterRequest::default()
    };
    Filters::try_from(request).unwrap()
}

const BEGIN: ResumePoint = ResumePoint {
    version: 1,
    time: 1_800_000_000_000,
    position: 0,
    tag: [0; 8],
};

fn reading<'a>(
    history: &'a History,
    contexts: &'a Contexts,
    filters: &'a Filters,
    order: ReadOrder,
) -> Reading<'a> {
    Reading {
        history,
        contexts,
        context: "dev",
        filters,
        point: BEGIN,
        order,
        room: FeedLimits {
            entries_max: 3,
            bytes_max: usize::MAX,
        },
        records_max: 5_000,
    }
}

fn versions(backlog: &Backlog) -> Vec<u64> {
    let items = backlog.items.iter();
    items.filter_map(|(_, item)| item.version()).collect()
}

fn gaps(backlog: &Backlog) -> Vec<String> {
    let items = backlog.items.iter();
    let gaps = items.filter_map(|(_, item)| match item {
        BacklogItem::Gap(WatchStatus::Gap { detail, .. }) => Some(detail.clone()),
        BacklogItem::Gap(_) | BacklogItem::Event(_) => None,
    });
    gaps.collect()
}

/// However much there is of others, each read goes on; and what came late, behind what is newer,
/// is not passed over.
#[tokio::test]
async fn each_read_goes_further_though_nothing_matches() {
    let (history, _running) = start(Retention::default());
    let contexts = contexts();
    happen(&history, 30_000..30_010, "others").await;
    happen(&history, 2..15_000, "others").await;
    happen(&history, 20_000..29_990, "others").await;
    happen(&history, 15_000..15_005, "shop").await;
    happen(&history, 40_000..40_001, "shop").await;
    let filters = filters("shop");
    for order in [ReadOrder::Oldest, ReadOrder::Log] {
        let mut reading = reading(&history, &contexts, &filters, order);
        let (mut seen, mut reads) = (Vec::new(), 0);
        loop {
            let backlog = reading.read().unwrap();
            reads += 1;
            assert!(reads < 20, "{order:?}: {:?}", reading.point);
            seen.extend(versions(&backlog));
            assert_eq!(gaps(&backlog), [""; 0]);
            if backlog.is_whole {
                break;
            }
            let before = reading.point;
            match order {
                ReadOrder::Log => reading.point.position = backlog.position.to_number(),
                ReadOrder::Oldest | ReadOrder::Newest => reading.point = backlog.next.unwrap(),
            }
            assert_ne!(reading.point, before, "{order:?}");
            assert!(reading.point.version >= before.version && reading.point.time >= before.time);
        }
        assert_eq!(seen, [15_000, 15_001, 15_002, 15_003, 15_004, 40_000]);
        assert!(reads > 5, "{order:?}: {reads}");
    }
}

/// The newest are at the end, whatever else there is; what is before them is not said to be read.
#[tokio::test]
async fn the_newest_are_found_behind_any_number() {
    let (history, _running) = start(Retention::default());
    let contexts = contexts();
    happen(&history, 2..20_000, "others").await;
    happen(&history, 20_000..20_009, "shop").await;
    let newest = filters("shop");
    let backlog = reading(&history, &contexts, &newest, ReadOrder::Newest).read();
    let backlog = backlog.unwrap();
    assert_eq!(versions(&backlog), [20_006, 20_007, 20_008]);
    assert_eq!(backlog.next.unwrap().version, 20_005);
    let none = filters("none");
    let backlog = reading(&history, &contexts, &none, ReadOrder::Newest).read();
    let backlog = backlog.unwrap();
    assert!(!backlog.is_whole && backlog.items.is_empty());
    let looked_at = backlog.next.unwrap().version;
    assert!((10_000..20_000).contains(&looked_at), "{looked_at}");
}

/// A position that this history has not given out is one of another: all is read.
#[tokio::test]
async fn a_position_of_another_history_passes_nothing_over() {
    let (history, _running) = start(Retention::default());
    let contexts = contexts();
    happen(&history, 2..5, "shop").await;
    let filters = filters("shop");
    for (order, position, expected) in [
        (ReadOrder::Log, 1, vec![3, 4]),
        (ReadOrder::Log, 4, vec![2, 3, 4]),
        (ReadOrder::Log, u64::MAX, vec![2, 3, 4]),
    ] {
        let mut reading = reading(&history, &contexts, &filters, order);
        reading.point.position = position;
        let backlog = reading.read().unwrap();
        assert_eq!(versions(&backlog), expected, "{position}");
        assert_eq!(gaps(&backlog), [""; 0]);
    }
}

/// What was removed since then is told, with how much or until when.
#[tokio::test(start_paused = true)]
async fn a_cursor_whose_time_is_not_kept_any_more_leads_to_a_gap() {
    let (history, _running) = start(Retention {
        age_max: Duration::ZERO,
        bytes_max: u64::MAX,
    });
    let contexts = contexts();
    happen(&history, 2..7, "shop").await;
    while history.stats().removed < 5 {
        sleep(Duration::from_mins(1)).await;
    }
    let filters = filters("shop");
    let mut reading = reading(&history, &contexts, &filters, ReadOrder::Log);
    let by_version = gaps(&reading.read().unwrap());
    assert_eq!(by_version.len(), 1);
    // What is after a cursor may have happened before it was given.
    let since = missing_since(reading.point);
    assert!(since < time(0));
    let since = format!("what happened from {since} to ");
    assert!(
        by_version[0].starts_with(&since) && by_version[0].contains("is not kept any more"),
        "{by_version:?}"
    );
    reading.order = ReadOrder::Oldest;
    assert_eq!(gaps(&reading.read().unwrap()).len(), 1);
    reading.order = ReadOrder::Log;
    reading.point.position = 2;
    let by_position = gaps(&reading.read().unwrap());
    assert_eq!(by_position.len(), 1);
    assert!(
        by_position[0].starts_with("3 records are not kept any more"),
        "{by_position:?}"
    );
}
