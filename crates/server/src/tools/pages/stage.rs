//! The stage of examples: the demo's cluster, with a clock that the test controls.

use std::{pin::Pin, sync::Arc};

use demo_cluster::{DemoCluster, Options, Scenario};
use jiff::{SignedDuration, Timestamp};
use mcp_notify::{Delivery, Level, LoggingService, OutboxSink, Progress, Session};
use regex::{Captures, Regex};
use serde_json::Value;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use super::about::Step;
use crate::{
    caller::Caller,
    incidents::Incidents,
    output::Output,
    reporter::{LogTarget, RequestReporter},
    resources::{ProtocolEra, Requester},
    server::{ToolLimits, Work, WorkLimits},
    subscriptions::Subscriptions,
    tool_filter::ToolFilter,
    tools::{
        ToolClient, ToolContext, ToolEntry, find,
        tests::{event_lists, graphs, incidents, subscriptions},
    },
    viewers::Viewers,
    waits::Waits,
};
use kubecrier_core::metrics::WaitMetrics;
use kubecrier_k8s::{Allowed, Config, Contexts, Demo, DeniedKinds, EventLists, Graphs};
use kubecrier_redact::Redactor;

const SEED: u64 = 1;

/// The time at which every example begins.
const BEGINNING: &str = "2026-11-15T10:00:00Z";

/// The name that all subscriptions of examples get.
const SUBSCRIPTION: &str = "sub-7f3a9c52e1d84b06a2f5c8e9d0b1a374";

/// A second is long enough for one example; a slow machine tries again.
const TRIES: usize = 50;

/// A cluster under way, and all that a tool needs.
pub(super) struct Stage {
    begins: Timestamp,
    story: Pin<Box<dyn Future<Output = ()>>>,
    contexts: Arc<Contexts>,
    subscriptions: Subscriptions,
    event_lists: EventLists,
    graphs: Graphs,
    incidents: Incidents,
    waits: Waits,
    work: Work,
    client: ToolClient,
    redactor: Redactor,
    /// The answer of the previous call.
    last: Value,
}

/// An answer.
#[derive(Debug)]
pub(super) struct CallOutcome {
    pub(super) text: String,
    pub(super) data: Value,
    pub(super) failed: bool,
}

/// An example, with what went before.
pub(super) struct ExampleOutcome {
    pub(super) before: String,
    pub(super) given: Value,
    pub(super) called: CallOutcome,
}

// === impl Stage ===

impl Stage {
    fn new(begins: Timestamp) -> Self {
        let cluster = DemoCluster::new(Options {
            seed: SEED,
            starts_at: begins,
            ..Options::default()
        });
        let scenario = Scenario::set_up(&cluster, SEED).unwrap();
        let redactor = Redactor::new(&[]).unwrap();
        let contexts = Arc::new(Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: Duration::from_secs(4),
            redactor: redactor.clone(),
            demo: Some(Demo::new(&cluster)),
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: kubecrier_k8s::ClusterIdentity::default(),
        }));
        let incidents = incidents(&contexts);
        let session = Session::new("example");
        LoggingService::new(Delivery::new(OutboxSink)).set_level(&session, Level::Info);
        Self {
            begins,
            story: Box::pin(async { drop(scenario.run().await) }),
            subscriptions: subscriptions(&contexts),
            event_lists: event_lists(&contexts),
            graphs: graphs(&contexts),
            waits: Waits::new(
                incidents.clone(),
                Viewers::Everything,
                WaitMetrics::default(),
            ),
            work: Work::new(&WorkLimits::default(), 1),
            incidents,
            contexts,
            client: ToolClient {
                requester: Requester {
                    session: Some(session),
                    caller: Caller::current(),
                    peer: None,
                    era: ProtocolEra::Legacy,
                },
                pushes: true,
                stream_open: true,
                info: None,
            },
            redactor,
            last: Value::Null,
        }
    }

    /// Calls a tool after these steps. Ages count whole seconds of the real clock, so
    /// an example that did not begin and end in the same one is called again.
    pub(super) async fn called(
        entry: &ToolEntry,
        before: &[Step],
        arguments: &str,
    ) -> ExampleOutcome {
        for _ in 0..TRIES {
            let second = Timestamp::now().as_second();
            let now = Timestamp::from_second(second).unwrap();
            let played: u64 = before.iter().map(Step::seconds).sum();
            let seconds = i64::try_from(played).unwrap();
            let mut stage = Self::new(now - SignedDuration::from_secs(seconds));
            let mut told = String::new();
            for step in before {
                told.push_str(&stage.step(step).await);
            }
            let given = stage.filled(arguments);
            let called = stage.call(entry, &given).await;
            if Timestamp::now().as_second() == second {
                assert!(
                    !called.failed,
                    "the example of {}: {}",
                    entry.name, called.text
                );
                return ExampleOutcome {
                    before: stage.settled(&told),
                    given: serde_json::from_str(&stage.settled(&given.to_string())).unwrap(),
                    called: CallOutcome {
                        text: stage.settled(&called.text),
                        data: serde_json::from_str(&stage.settled(&called.data.to_string()))
                            .unwrap(),
                        failed: false,
                    },
                };
            }
        }
        panic!("the example of {} takes longer than a second", entry.name);
    }

    /// Calls a tool with arguments that it must refuse.
    pub(super) async fn refused(entry: &ToolEntry, given: &Value) -> CallOutcome {
        let called = Self::answer(entry, given).await;
        assert!(
            called.failed,
            "{} takes {given}: {}",
            entry.name, called.text
        );
        called
    }

    /// Calls a tool before anything has happened.
    pub(super) async fn answer(entry: &ToolEntry, given: &Value) -> CallOutcome {
        Self::new(Timestamp::now()).call(entry, given).await
    }

    async fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Play(seconds) => {
                let time = sleep(Duration::from_secs(*seconds));
                tokio::select! {
                    () = &mut self.story => {}
                    () = time => {}
                }
                String::new()
            }
            Step::Call(tool, arguments) => {
                let given = self.filled(arguments);
                let called = self.call(find(tool).unwrap(), &given).await;
                assert!(!called.failed, "{tool}: {}", called.text);
                self.last = called.data;
                format!("After [`{tool}`]({tool}.md) with `{given}`:\n\n")
            }
        }
    }

    async fn call(&self, entry: &ToolEntry, given: &Value) -> CallOutcome {
        let reporter = RequestReporter::new(Progress::disabled(), LogTarget::Disabled);
        let draining = CancellationToken::new();
        let context = ToolContext {
            contexts: &self.contexts,
            history: None,
            tool_filter: &ToolFilter::default(),
            limits: ToolLimits {
                output_bytes: 64 * 1024,
            },
            subscriptions: &self.subscriptions,
            event_lists: &self.event_lists,
            graphs: &self.graphs,
            incidents: &self.incidents,
            waits: &self.waits,
            work: &self.work,
            client: &self.client,
            reporter: &reporter,
            redactor: &self.redactor,
            draining: &draining,
            task: None,
        };
        let given = given.as_object().cloned().unwrap_or_default();
        let result = match (entry.call)(context, given).await {
            Ok(output) => output.into_result(),
            Err(error) => error.into_result(&self.redactor),
        };
        let result = serde_json::to_value(result).unwrap();
        CallOutcome {
            text: result["content"][0]["text"].as_str().unwrap().to_owned(),
            data: result["structuredContent"].clone(),
            failed: result["isError"] == true,
        }
    }

    /// `$name` is what the call before answered under that name.
    fn filled(&self, arguments: &str) -> Value {
        let field = Regex::new(r#""\$([\w/]+)""#).unwrap();
        let filled = field.replace_all(arguments, |found: &Captures<'_>| {
            let place = format!("/{}", &found[1]);
            let value = self.last.pointer(&place);
            value
                .unwrap_or_else(|| panic!("no {place} in {}", self.last))
                .to_string()
        });
        serde_json::from_str(&filled).unwrap()
    }

    /// Without what differs from run to run: times count from the same beginning, and
    /// a subscription has the same name.
    fn settled(&self, text: &str) -> String {
        let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
        let beginning: Timestamp = BEGINNING.parse().unwrap();
        let text = time.replace_all(text, |found: &Captures<'_>| {
            let at: Timestamp = found[0].parse().unwrap();
            let since = at.as_second() - self.begins.as_second();
            (beginning + SignedDuration::from_secs(since)).to_string()
        });
        let id = Regex::new(r"sub-[0-9a-f]{32}").unwrap();
        let text = id.replace_all(&text, SUBSCRIPTION);
        let process = Regex::new(r"w-[0-9a-f]{8}\.").unwrap();
        process.replace_all(&text, "w-5c0f3a1e.").into_owned()
    }
}

// === impl CallOutcome ===

impl From<Output> for CallOutcome {
    fn from(output: Output) -> Self {
        Self {
            text: output.text().to_owned(),
            data: Value::Object(output.data().clone()),
            failed: false,
        }
    }
}
