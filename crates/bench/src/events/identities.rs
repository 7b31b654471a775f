//! What it costs that each subscriber has rights of its own: the same watch and the same events,
//! once with one identity for all and once with as many users as subscribers.

use std::{fmt::Write as _, fs, path::PathBuf};

use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use tempfile::NamedTempFile;
use testbed::{Cluster, User};
use tokio::time::Instant;

use super::{EventsMeasurement, EventsRun, NAMESPACE, prepare};
use crate::{
    bed, print_line,
    report::{Bar, Bars},
    server::ServerProcess,
};

const RATE: u32 = 200;

/// CPU per event and further subscriber, in times of that with one identity.
const CPU_TIMES: f64 = 1.5;

/// Memory of a caller beyond that of its session; measured from this number of callers on, below
/// which it is noise.
const CALLER_KIB: f64 = 4.0;
const CALLERS_MIN: usize = 500;

/// Events a second from that number on: deliveries to so many leave two cores no time otherwise.
const MANY_RATE: u32 = 10;

/// What the server lets itself ask.
const REVIEWS_PER_MINUTE: f64 = 12_000.0;

const OUTCOMES: [&str; 4] = ["allowed", "denied", "failed", "throttled"];

#[derive(Serialize)]
struct IdentitiesReport {
    shared: Vec<EventsMeasurement>,
    users: Vec<EventsMeasurement>,
    /// µs per event and further subscriber.
    shared_micros: f64,
    users_micros: f64,
    kib_per_caller: f64,
    reviews_per_minute: f64,
    bars: Bars,
}

/// The measurements of one kind of identity.
struct Measured {
    all: Vec<EventsMeasurement>,
    micros: f64,
    allocated: u64,
    reviews_per_minute: f64,
}

fn token(number: usize) -> String {
    format!("user-{number}-0123456789abcdef")
}

pub(super) async fn run(count: usize, seconds: u32, json: Option<PathBuf>) -> Result<()> {
    let cluster = bed::start()?;
    let admin = prepare(&cluster).await?;
    grant(&cluster, count).await?;
    let shared = measure(&cluster, &admin, count, seconds, false).await?;
    let users = measure(&cluster, &admin, count, seconds, true).await?;
    #[expect(clippy::cast_precision_loss, reason = "only printed")]
    let kib_per_caller = (users.allocated as f64 - shared.allocated as f64) / 1024.0 / count as f64;
    let mut bars = vec![Bar::at_most(
        "reviews a minute",
        users.reviews_per_minute,
        REVIEWS_PER_MINUTE,
    )];
    bars.push(if count >= CALLERS_MIN {
        let what = "KiB of a caller beyond its session";
        Bar::at_most(what, kib_per_caller, CALLER_KIB)
    } else {
        let what = "CPU per event and further subscriber, in times of one identity";
        Bar::at_most(what, users.micros / shared.micros, CPU_TIMES)
    });
    for one in shared.all.iter().chain(&users.all) {
        #[expect(clippy::cast_precision_loss, reason = "of few")]
        let wrong = one.verdict.wrong(true) as f64;
        let what = format!(
            "{} subscribers: lost, doubled or out of order",
            one.subscribers
        );
        bars.push(Bar::at_most(&what, wrong, 0.0));
    }
    let report = IdentitiesReport {
        shared_micros: shared.micros,
        users_micros: users.micros,
        kib_per_caller,
        reviews_per_minute: users.reviews_per_minute,
        shared: shared.all,
        users: users.all,
        bars: Bars(bars),
    };
    print_line(&format!(
        "µs per event and further subscriber: {:.2} with one identity, {:.2} with {count} users; {:.1} KiB per \
         caller; {:.0} reviews a minute",
        report.shared_micros, report.users_micros, kib_per_caller, report.reviews_per_minute
    ));
    print_line(&super::table(&report.shared));
    print_line(&super::table(&report.users));
    print_line(&report.bars.table());
    report.bars.conclude(&report, json, "identities.json")
}

/// Grants each user what it needs, by a binding of its own; every other one may read pods too.
async fn grant(cluster: &Cluster, count: usize) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    for (role, resources) in [
        ("bench-events", vec!["events"]),
        ("bench-pods", vec!["events", "pods"]),
    ] {
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": role},
            "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get", "list", "watch"]}],
        });
        let path = format!("/apis/{group}/v1/clusterroles");
        cluster.send("POST", &path, &role).await?;
    }
    let path = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/rolebindings");
    for number in 0..count {
        let role = if number.is_multiple_of(2) {
            "bench-events"
        } else {
            "bench-pods"
        };
        let name = format!("user-{number}");
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        });
        cluster.send("POST", &path, &binding).await?;
    }
    Ok(())
}

/// Measures one subscriber and that many, as one identity or as users.
async fn measure(
    cluster: &Cluster,
    admin: &kube::Client,
    count: usize,
    seconds: u32,
    as_users: bool,
) -> Result<Measured> {
    let mut lines = String::new();
    for number in 0..count {
        writeln!(lines, "user-{number}:{} user=user-{number}", token(number))?;
    }
    let file = NamedTempFile::new()?;
    fs::write(file.path(), lines)?;
    let path = file.path().display().to_string();
    let rate = if count < CALLERS_MIN { RATE } else { MANY_RATE };
    let mut measured = Vec::new();
    let (mut allocated, mut reviews_per_minute) = (0, 0.0);
    for subscribers in [1, count] {
        let (server, tokens) = if as_users {
            let arguments = [
                "--cluster-identity",
                "impersonate",
                "--auth-token-file",
                &path,
            ];
            let server = ServerProcess::start_as(cluster, User::Admin, &arguments).await?;
            let tokens = (0..subscribers).map(|number| Some(token(number))).collect();
            (server, tokens)
        } else {
            let server = ServerProcess::start_as(cluster, User::Admin, &[]).await?;
            (server, vec![None; subscribers])
        };
        let mut run = EventsRun::open_as(server, admin, tokens).await?;
        let caller = as_users.then(|| token(0));
        let before = reviews(run.server()?, caller.as_deref()).await?;
        let began = Instant::now();
        measured.push(run.measure(rate, seconds).await?);
        let asked = reviews(run.server()?, caller.as_deref()).await? - before;
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let asked = asked as f64;
        reviews_per_minute = asked * 60.0 / began.elapsed().as_secs_f64();
        allocated = run.server()?.allocated_bytes()?;
        run.subscribers.close().await?;
    }
    let micros = match &measured[..] {
        [one, many] if many.subscribers > one.subscribers => {
            #[expect(clippy::cast_precision_loss, reason = "thousands at most")]
            let more = (many.subscribers - one.subscribers) as f64;
            (many.cpu() - one.cpu()) / more
        }
        _ => 0.0,
    };
    Ok(Measured {
        all: measured,
        micros,
        allocated,
        reviews_per_minute,
    })
}

/// The reviews that a server has asked so far.
async fn reviews(server: &ServerProcess, token: Option<&str>) -> Result<u64> {
    let mut sum = 0;
    for outcome in OUTCOMES {
        let name = format!("kubecrier_access_reviews_total{{outcome=\"{outcome}\"}}");
        sum += server.metric_as(token, &name).await?;
    }
    Ok(sum)
}
