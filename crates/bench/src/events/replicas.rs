//! What it costs that servers share their watches over NATS: the same events and the same number of
//! subscribers, with one server that shares nothing, then with one, two and more that do.

use anyhow::Result;
use serde::Serialize;
use testbed::{Cluster, NatsOptions, NatsServer};

use super::{EventsArgs, EventsMeasurement, EventsRun, prepare};
use crate::{
    bed, print_line,
    process::{self, Cpu},
    report::{Bar, Bars, millis},
    server::ServerProcess,
    subscribers::Seat,
};

/// An event of another server comes over NATS: a write, and a read on each server.
const P99_MS: f64 = 60.0;

#[derive(Serialize)]
struct ReplicasReport {
    measured: Vec<Measured>,
    bars: Bars,
}

/// A number of servers with a number of subscribers, at one rate.
#[derive(Serialize)]
struct Measured {
    /// Servers that share their watches; 0 is one server without NATS.
    replicas: usize,
    deliveries_per_second: f64,
    /// µs of CPU of all servers for a delivery.
    micros_per_delivery: f64,
    /// µs of CPU of NATS for an event.
    nats: Cpu,
    events: EventsMeasurement,
}

pub(super) async fn run(most: usize, args: EventsArgs) -> Result<()> {
    let cluster = bed::start()?;
    let admin = prepare(&cluster).await?;
    let mut measured = Vec::new();
    for count in &args.subscribers {
        for replicas in 0..=most {
            print_line(&format!("{replicas} servers that share their watches"));
            let step = Step {
                replicas,
                subscribers: *count,
            };
            measured.extend(step.measure(&cluster, &admin, &args).await?);
        }
    }
    conclude(measured, args)
}

/// A number of servers with a number of subscribers.
struct Step {
    replicas: usize,
    subscribers: usize,
}

// === impl Step ===

impl Step {
    async fn measure(
        &self,
        cluster: &Cluster,
        admin: &kube::Client,
        args: &EventsArgs,
    ) -> Result<Vec<Measured>> {
        let folder = tempfile::tempdir()?;
        let nats = (self.replicas > 0)
            .then(|| NatsServer::start(folder.path(), NatsOptions::default()))
            .transpose()?;
        let mut servers = Vec::new();
        for _ in 0..self.replicas.max(1) {
            let url = nats.as_ref().map(NatsServer::url);
            let shared = url.iter().flat_map(|url| ["--cluster-store", url]);
            let shared: Vec<_> = shared.collect();
            servers.push(ServerProcess::start_with(cluster, &shared).await?);
        }
        let ports: Vec<_> = servers.iter().map(ServerProcess::port).collect();
        // In turns, as a proxy gives them out.
        let seats = ports.iter().cycle().take(self.subscribers);
        let seats = seats.map(|port| Seat {
            port: *port,
            token: None,
        });
        let mut run = EventsRun::open_at(servers, admin, seats.collect()).await?;
        let mut measured = Vec::new();
        for rate in &args.rates {
            let before = cpu_of(nats.as_ref())?;
            let events = run.measure(*rate, args.seconds).await?;
            measured.push(self.measured(events, before, cpu_of(nats.as_ref())?));
        }
        run.subscribers.close().await?;
        Ok(measured)
    }

    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    fn measured(&self, events: EventsMeasurement, before: Cpu, after: Cpu) -> Measured {
        let (count, subscribers) = (events.events as f64, self.subscribers as f64);
        let per_event = |before: f64, after: f64| (after - before) * 1e6 / count;
        Measured {
            replicas: self.replicas,
            deliveries_per_second: events.achieved * subscribers,
            micros_per_delivery: events.cpu() / subscribers,
            nats: Cpu {
                user: per_event(before.user, after.user),
                system: per_event(before.system, after.system),
            },
            events,
        }
    }
}

fn cpu_of(nats: Option<&NatsServer>) -> Result<Cpu> {
    nats.map_or(Ok(Cpu::default()), |nats| process::cpu(nats.pid()?))
}

fn conclude(measured: Vec<Measured>, args: EventsArgs) -> Result<()> {
    let mut bars = Vec::new();
    for one in &measured {
        let Measured {
            replicas, events, ..
        } = one;
        let what = format!(
            "{replicas} servers, {} subscribers, {} a second",
            events.subscribers, events.per_second
        );
        #[expect(clippy::cast_precision_loss, reason = "of few")]
        let wrong = events.verdict.wrong(true) as f64;
        bars.push(Bar::at_most(
            &format!("{what}: lost, doubled or out of order"),
            wrong,
            0.0,
        ));
        bars.push(Bar::at_most(
            &format!("{what}: ms from a plain watch to the client, p99"),
            millis(events.verdict.from_watch.p99),
            P99_MS,
        ));
    }
    print_line(&table(&measured));
    let report = ReplicasReport {
        measured,
        bars: Bars(bars),
    };
    print_line(&report.bars.table());
    report.bars.conclude(&report, args.json, "replicas.json")
}

fn table(measured: &[Measured]) -> String {
    let mut text = String::from(
        "\nTimes in ms, p50 / p99. CPU of all servers and of NATS in µs per event, user + system.\n\n| subscribers | a second | servers | deliveries a second | plain watch to client | CPU | CPU per delivery | NATS | RSS MiB | load |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        let Measured {
            replicas,
            events,
            nats,
            ..
        } = one;
        let Cpu { user, system } = events.cpu_micros_per_event;
        let servers = match replicas {
            0 => "1, without NATS".to_owned(),
            more => more.to_string(),
        };
        text += &format!(
            "| {} | {} | {servers} | {:.0} | {} | {user:.0} + {system:.0} | {:.1} | {:.0} + {:.0} | {:.1} | {} |\n",
            events.subscribers,
            events.per_second,
            one.deliveries_per_second,
            events.verdict.from_watch,
            one.micros_per_delivery,
            nats.user,
            nats.system,
            super::mib(events.rss_after),
            events.load_average,
        );
    }
    text
}
