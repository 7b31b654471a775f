//! `cargo xtask bench ask`: what an answer takes, beside the API server's own time for the same
//! requests.

mod plain;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, namespace, pod};
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, sleep_until},
};

use self::plain::Plain;
use crate::{
    bed,
    creating::{self, Pace},
    load::http::{Connection, text},
    making::{make_all, typical_pod},
    print_line,
    report::{Bar, Bars, millis},
    server::ServerProcess,
    verdict::Percentiles,
};

const NAMESPACE: &str = "bench-ask";
/// Namespaces besides, for a list of them.
const NAMESPACES: u32 = 50;
/// Pods of one replica set.
const REPLICAS: u32 = 20;
const LOGGED: &str = "logged";
const LOG_LINES: u32 = 500;

/// An answer's median beyond that of the API server.
const BEYOND_MS: f64 = 3.0;
/// The whole time of `events_list` for one caller: it has to read all events.
const EVENTS_MS: f64 = 15.0;

#[derive(Args)]
pub(crate) struct AskArgs {
    /// How many pods the namespace has
    #[arg(long, default_value_t = 2000)]
    pods: u32,
    /// How many events the namespace has
    #[arg(long, default_value_t = 5000)]
    events: u32,
    /// How many callers ask at once, each on a connection of its own
    #[arg(long, default_value_t = 50)]
    callers: u32,
    /// How long each part takes
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Measure a debug build too; its numbers mean little
    #[arg(long)]
    debug_build: bool,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    NamespacesList,
    PodsList,
    PodsLog,
    EventsList,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Callers {
    /// One, which asks again as soon as it has its answer.
    One,
    /// Many, each once a second and one after the other.
    Paced(u32),
    /// Many, which ask again as soon as they have their answer: the cores are full, and they
    /// are shared with the API server and the callers.
    Eager(u32),
}

/// The times and the sizes of answers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Answered {
    count: u64,
    times: Percentiles,
    bytes_each: u64,
}

/// One question of some callers, asked of the API server and of the server.
#[derive(Serialize)]
struct AskMeasurement {
    question: Question,
    callers: Callers,
    plain: Answered,
    ours: Answered,
    /// CPU of the server, in microseconds.
    cpu_each: f64,
}

/// Somebody who can be asked.
trait Asked: Clone + Send + Sync + 'static {
    type Connection: Send + 'static;

    fn connect(&self) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Returns the number of bytes of the answer.
    fn ask(
        &self,
        connection: &mut Self::Connection,
        question: Question,
    ) -> impl Future<Output = Result<usize>> + Send;
}

/// Our server.
#[derive(Clone, Copy)]
struct Ours {
    port: u16,
}

pub(crate) async fn run(args: AskArgs) -> Result<()> {
    let cluster = bed::start_any(args.debug_build)?;
    fill(&cluster, &args).await?;
    let server = ServerProcess::start(&cluster).await?;
    let plain = Plain::new(cluster.client(User::Reader).await?);
    let mut measured = Vec::new();
    for question in Question::ALL {
        for callers in [
            Callers::One,
            Callers::Paced(args.callers),
            Callers::Eager(args.callers),
        ] {
            print_line(&format!("{} of {callers:?} ...", question.tool()));
            let ours = Ours {
                port: server.port(),
            };
            measured.push(measure(question, callers, &plain, ours, &server, args.seconds).await?);
        }
    }
    let bars = bars(&measured);
    print_line(&table(&measured));
    print_line(&bars.table());
    let report = json!({"measured": measured, "bars": bars, "load": bed::load_average()});
    bars.conclude(&report, args.json, "ask.json")
}

async fn fill(cluster: &Cluster, args: &AskArgs) -> Result<()> {
    print_line(&format!(
        "making {} pods and {} events ...",
        args.pods, args.events
    ));
    let admin = bed::admin(cluster).await?;
    for space in 0..NAMESPACES {
        let one = namespace(&format!("bench-other-{space}"));
        cluster.create_cluster_wide(&one).await?;
    }
    cluster.create_cluster_wide(&namespace(NAMESPACE)).await?;
    cluster.create(&pod(NAMESPACE, LOGGED, &["app"])).await?;
    let lines = (0..LOG_LINES).map(|line| {
        format!(
            r#"{{"level":"info","line":{line},"path":"/orders/17","status":200,"took":"12ms"}}"#
        )
    });
    let container = format!("{NAMESPACE}/{LOGGED}/app");
    cluster.node().set_log(&container, LogScript::lines(lines));
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pods = (0..args.pods).map(|nth| {
        let name = format!("web-{nth}");
        (path.clone(), typical_pod(&name, nth / REPLICAS, "node-1"))
    });
    make_all(&admin, pods).await?;
    let pace = Pace {
        per_second: None,
        at_once: 1,
    };
    let event = |number: u32| {
        let about = format!("Pod/web-{}", number % 200);
        let text = creating::text(number);
        testbed::event(NAMESPACE, &about, "Warning", "BackOff", &text)
    };
    creating::create(&admin, NAMESPACE, 0..args.events, pace, event).await?;
    Ok(())
}

async fn measure(
    question: Question,
    callers: Callers,
    plain: &Plain,
    ours: Ours,
    server: &ServerProcess,
    seconds: u64,
) -> Result<AskMeasurement> {
    // In turns, so that a busy machine is busy for both.
    let half = Duration::from_secs(seconds) / 2;
    let (mut of_plain, mut of_ours) = (Vec::new(), Vec::new());
    let mut cpu_seconds = 0.0;
    for _turn in 0..2 {
        let connections = connect_all(plain, question, callers).await?;
        of_plain.extend(ask_all(plain, connections, question, callers, half).await?);
        let connections = connect_all(&ours, question, callers).await?;
        let before = server.cpu()?;
        of_ours.extend(ask_all(&ours, connections, question, callers, half).await?);
        let after = server.cpu()?;
        cpu_seconds += after.user + after.system - before.user - before.system;
    }
    let (plain, ours) = (Answered::of(&of_plain), Answered::of(&of_ours));
    #[expect(clippy::cast_precision_loss, reason = "of thousands")]
    let cpu_each = cpu_seconds * 1e6 / ours.count.max(1) as f64;
    Ok(AskMeasurement {
        question,
        callers,
        plain,
        ours,
        cpu_each,
    })
}

/// A connection for each caller, on which one answer has been given.
async fn connect_all<A: Asked>(
    asked: &A,
    question: Question,
    callers: Callers,
) -> Result<Vec<A::Connection>> {
    let mut connections = Vec::new();
    for _caller in 0..callers.count() {
        let mut connection = asked.connect().await?;
        asked.ask(&mut connection, question).await?;
        connections.push(connection);
    }
    Ok(connections)
}

/// Asks for that long; returns the time in microseconds and the bytes of each answer.
async fn ask_all<A: Asked>(
    asked: &A,
    connections: Vec<A::Connection>,
    question: Question,
    callers: Callers,
    time: Duration,
) -> Result<Vec<(u64, usize)>> {
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for (nth, mut connection) in (0..).zip(connections) {
        let asked = asked.clone();
        asking.spawn(async move {
            let mut answered = Vec::new();
            let mut due = began + callers.first_after(nth);
            while due < began + time {
                sleep_until(due).await;
                let asked_at = Instant::now();
                let bytes = asked.ask(&mut connection, question).await?;
                let took = u64::try_from(asked_at.elapsed().as_micros())?;
                answered.push((took, bytes));
                due = callers.next(due);
            }
            anyhow::Ok(answered)
        });
    }
    let mut all = Vec::new();
    while let Some(answered) = asking.join_next().await {
        all.extend(answered??);
    }
    Ok(all)
}

// === impl Question ===

impl Question {
    const ALL: [Self; 4] = [
        Self::NamespacesList,
        Self::PodsList,
        Self::PodsLog,
        Self::EventsList,
    ];

    fn tool(self) -> &'static str {
        match self {
            Self::NamespacesList => "namespaces_list",
            Self::PodsList => "pods_list",
            Self::PodsLog => "pods_log",
            Self::EventsList => "events_list",
        }
    }

    fn arguments(self) -> Value {
        match self {
            Self::NamespacesList => json!({}),
            Self::PodsList | Self::EventsList => json!({"namespace": NAMESPACE}),
            Self::PodsLog => json!({"namespace": NAMESPACE, "name": LOGGED}),
        }
    }

    /// A part of every right answer.
    fn expected(self) -> &'static str {
        match self {
            Self::NamespacesList => "bench-other-0",
            Self::PodsList => "web-0",
            Self::PodsLog => "/orders/17",
            Self::EventsList => "bench n=",
        }
    }
}

// === impl Callers ===

impl Callers {
    fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Paced(count) | Self::Eager(count) => count,
        }
    }

    /// When the nth caller begins.
    fn first_after(self, nth: u32) -> Duration {
        match self {
            Self::One | Self::Eager(_) => Duration::ZERO,
            Self::Paced(count) => Duration::from_secs(1) * nth / count,
        }
    }

    fn next(self, due: Instant) -> Instant {
        match self {
            Self::One | Self::Eager(_) => Instant::now(),
            Self::Paced(_) => due + Duration::from_secs(1),
        }
    }
}

impl std::fmt::Display for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One => f.write_str("1"),
            Self::Paced(count) => write!(f, "{count}, each once a second"),
            Self::Eager(count) => write!(f, "{count}, without a pause"),
        }
    }
}

// === impl Answered ===

impl Answered {
    fn of(all: &[(u64, usize)]) -> Self {
        let count = all.len() as u64;
        let bytes: usize = all.iter().map(|(_, bytes)| bytes).sum();
        Self {
            count,
            times: Percentiles::of(all.iter().map(|(took, _)| *took).collect()),
            bytes_each: bytes as u64 / count.max(1),
        }
    }
}

// === impl Ours ===

impl Asked for Ours {
    type Connection = (Connection, String);

    async fn connect(&self) -> Result<Self::Connection> {
        let mut connection = Connection::open(self.port, None).await?;
        let session = connection.begin_session().await?;
        Ok((connection, session))
    }

    async fn ask(
        &self,
        (connection, session): &mut Self::Connection,
        question: Question,
    ) -> Result<usize> {
        let params = json!({"name": question.tool(), "arguments": question.arguments()});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = connection.post(Some(session), &call.to_string()).await?;
        let found = memchr::memmem::find(&answer.body, question.expected().as_bytes());
        ensure!(
            answer.status == 200 && found.is_some(),
            "{question:?}: {}",
            text(&answer.body).chars().take(500).collect::<String>()
        );
        Ok(answer.body.len())
    }
}

fn bars(measured: &[AskMeasurement]) -> Bars {
    let bar = |one: &AskMeasurement| {
        let (question, callers) = (one.question.tool(), one.callers);
        let (ours, plain) = (millis(one.ours.times.p50), millis(one.plain.times.p50));
        match (one.question, callers) {
            (_, Callers::Eager(_)) | (Question::EventsList, Callers::Paced(_)) => None,
            (Question::EventsList, Callers::One) => {
                let what = format!("{question}: p50 in ms");
                Some(Bar::at_most(&what, ours, EVENTS_MS))
            }
            (_, Callers::One | Callers::Paced(_)) => {
                let what =
                    format!("{question}, callers: {callers}: ms beyond the API server's p50");
                Some(Bar::at_most(&what, ours - plain, BEYOND_MS))
            }
        }
    };
    Bars(measured.iter().filter_map(bar).collect())
}

fn table(measured: &[AskMeasurement]) -> String {
    let mut table = String::from(
        "\n| tool | callers | API server, ms: p50 / p99 | ours, ms: p50 / p99 | CPU of the server each, µs | bytes: of the API server, ours | answers |\n|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        table += &format!(
            "| {} | {} | {} | {} | {:.0} | {}, {} | {} |\n",
            one.question.tool(),
            one.callers,
            one.plain.times,
            one.ours.times,
            one.cpu_each,
            one.plain.bytes_each,
            one.ours.bytes_each,
            one.ours.count,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_of_a_pace_ask_one_after_the_other_and_once_a_second() {
        let paced = Callers::Paced(50);
        assert_eq!(paced.first_after(0), Duration::ZERO);
        assert_eq!(paced.first_after(25), Duration::from_millis(500));
        let due = Instant::now();
        assert_eq!(paced.next(due), due + Duration::from_secs(1));
        assert_eq!(Callers::Eager(50).next(due), Instant::now());
        assert_eq!(Callers::One.first_after(0), Duration::ZERO);
    }
}
