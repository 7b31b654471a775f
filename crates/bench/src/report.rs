//! The measurements, as tables and as JSON, and whether the bars hold.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::{print_line, serve::ServerKind};

/// Ratios to the ceiling and to stock rmcp. Bursts are compared by deliveries per second of
/// the server's CPU, paced messages by CPU for each and by how long they are on their way.
const BURST_OF_CEILING: f64 = 1.0;
const BURST_OF_STOCK: f64 = 25.0;
const PACED_CPU_OF_CEILING: f64 = 1.5;
const PACED_CPU_OF_STOCK: f64 = 1.0 / 3.0;
const PACED_P50_OF_CEILING: f64 = 2.0;
const PACED_P99_OF_CEILING: f64 = 3.0;
const PACED_TIME_OF_STOCK: f64 = 1.0;
const IDLE_KIB: f64 = 32.0;
const STALLED_GROWTH: f64 = 1.1;

/// The report of one run.
#[derive(Default, Serialize)]
pub(crate) struct FanoutReport {
    pub(crate) measured: Vec<FanoutMeasurement>,
    pub(crate) stalled: Option<Stalled>,
    pub(crate) bars: Bars,
}

/// The measurements of one server with one number of sessions.
#[derive(Serialize)]
pub(crate) struct FanoutMeasurement {
    pub(crate) server: ServerKind,
    pub(crate) sessions: usize,
    pub(crate) idle_bytes_per_session: f64,
    pub(crate) burst: Cost,
    pub(crate) paced: Cost,
}

/// The cost of deliveries.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Cost {
    pub(crate) deliveries: u64,
    /// Messages that the server dropped, with a notification of the gap.
    pub(crate) missing: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) seconds: f64,
    /// Latencies are those of the slowest round.
    pub(crate) p50_micros: u64,
    pub(crate) p99_micros: u64,
}

/// The delay of the other readers while one reader stalls.
#[derive(Serialize)]
pub(crate) struct Stalled {
    without_p99_micros: Vec<u64>,
    with_p99_micros: Vec<u64>,
    /// The number of messages announced as missed to the stalled reader.
    announced: u64,
    ratio: f64,
}

/// The three servers with the same number of sessions.
struct Compared<'a> {
    ours: &'a FanoutMeasurement,
    stock: &'a FanoutMeasurement,
    ceiling: &'a FanoutMeasurement,
}

/// The thresholds that must hold, with their results.
#[derive(Default, Serialize)]
pub(crate) struct Bars(pub(crate) Vec<Bar>);

#[derive(Serialize)]
pub(crate) struct Bar {
    what: String,
    measured: f64,
    bound: f64,
    pass: bool,
}

// === impl Cost ===

impl Cost {
    pub(crate) fn add(&mut self, other: Self) {
        self.deliveries += other.deliveries;
        self.missing += other.missing;
        self.cpu_seconds += other.cpu_seconds;
        self.seconds += other.seconds;
        self.p50_micros = self.p50_micros.max(other.p50_micros);
        self.p99_micros = self.p99_micros.max(other.p99_micros);
    }

    #[expect(clippy::cast_precision_loss, reason = "millions")]
    fn per_cpu_second(&self) -> f64 {
        self.deliveries as f64 / self.cpu_seconds
    }

    /// CPU for one delivery.
    fn cpu_micros(&self) -> f64 {
        1e6 / self.per_cpu_second()
    }

    #[expect(clippy::cast_precision_loss, reason = "millions")]
    fn per_second(&self) -> f64 {
        self.deliveries as f64 / self.seconds
    }
}

// === impl Stalled ===

impl Stalled {
    pub(crate) fn new(without: Vec<u64>, with: Vec<u64>, announced: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "of seconds at most")]
        let ratio = median(&with) as f64 / median(&without).max(1) as f64;
        Self {
            without_p99_micros: without,
            with_p99_micros: with,
            announced,
            ratio,
        }
    }
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

// === impl Compared ===

impl<'a> Compared<'a> {
    fn of(report: &'a FanoutReport, sessions: usize) -> Option<Self> {
        let find = |kind| {
            let mut all = report.measured.iter();
            all.find(|one| one.server == kind && one.sessions == sessions)
        };
        Some(Self {
            ours: find(ServerKind::Ours)?,
            stock: find(ServerKind::Stock)?,
            ceiling: find(ServerKind::Ceiling)?,
        })
    }

    /// A value of ours, divided by that of the ceiling and of stock rmcp.
    fn ratios(&self, value: impl Fn(&FanoutMeasurement) -> f64) -> (f64, f64) {
        let ours = value(self.ours);
        (ours / value(self.ceiling), ours / value(self.stock))
    }

    fn bars_of_few(&self) -> Vec<Bar> {
        let sessions = self.ours.sessions;
        let bar = |what: &str, measured, bound| {
            Bar::at_most(
                &format!("paced, {sessions} sessions: {what}"),
                measured,
                bound,
            )
        };
        let (p50, p50_of_stock) = self.ratios(|one| millis(one.paced.p50_micros));
        let (p99, p99_of_stock) = self.ratios(|one| millis(one.paced.p99_micros));
        let (cpu, _) = self.ratios(|one| one.paced.cpu_micros());
        vec![
            bar("p50, of the ceiling's", p50, PACED_P50_OF_CEILING),
            bar("p99, of the ceiling's", p99, PACED_P99_OF_CEILING),
            bar("p50, of stock rmcp's", p50_of_stock, PACED_TIME_OF_STOCK),
            bar("p99, of stock rmcp's", p99_of_stock, PACED_TIME_OF_STOCK),
            bar("CPU, of the ceiling's", cpu, PACED_CPU_OF_CEILING),
        ]
    }

    fn bars_of_many(&self) -> Vec<Bar> {
        let sessions = self.ours.sessions;
        let named = |what: &str| what.replace('#', &sessions.to_string());
        let (_, p99) = self.ratios(|one| millis(one.paced.p99_micros));
        let (cpu, cpu_of_stock) = self.ratios(|one| one.paced.cpu_micros());
        let (burst, burst_of_stock) = self.ratios(|one| one.burst.per_cpu_second());
        vec![
            Bar::at_most(
                &named("paced, # sessions: p99, of stock rmcp's"),
                p99,
                PACED_TIME_OF_STOCK,
            ),
            Bar::at_most(
                &named("paced, # sessions: CPU, of the ceiling's"),
                cpu,
                PACED_CPU_OF_CEILING,
            ),
            Bar::at_most(
                &named("paced, # sessions: CPU, of stock rmcp's"),
                cpu_of_stock,
                PACED_CPU_OF_STOCK,
            ),
            Bar::at_least(
                &named("burst, # sessions: of the ceiling's deliveries per CPU second"),
                burst,
                BURST_OF_CEILING,
            ),
            Bar::at_least(
                &named("burst, # sessions: times stock rmcp's"),
                burst_of_stock,
                BURST_OF_STOCK,
            ),
            Bar::at_most(
                &named("KiB of an idle session with an open stream, # sessions"),
                self.ours.idle_bytes_per_session / 1024.0,
                IDLE_KIB,
            ),
        ]
    }
}

// === impl Bars ===

impl Bars {
    /// The bars for which this run has measurements: of time with few sessions, of CPU and
    /// memory with many.
    pub(crate) fn of(report: &FanoutReport, few: usize, many: usize) -> Self {
        let mut bars = Vec::new();
        if let Some(compared) = Compared::of(report, few) {
            bars.extend(compared.bars_of_few());
        }
        if let Some(compared) = Compared::of(report, many) {
            bars.extend(compared.bars_of_many());
        }
        if let Some(stalled) = &report.stalled {
            bars.push(Bar::at_most(
                "p99 of the others with one stalled reader, times that without",
                stalled.ratio,
                STALLED_GROWTH,
            ));
        }
        Self(bars)
    }

    /// Formats a Markdown table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        if !self.0.is_empty() {
            text += "\n| bar | measured | bound | |\n|---|---|---|---|\n";
        }
        for bar in &self.0 {
            let verdict = if bar.pass { "pass" } else { "FAIL" };
            text += &format!(
                "| {} | {:.2} | {:.2} | {verdict} |\n",
                bar.what, bar.measured, bar.bound
            );
        }
        text
    }

    /// Ends a run: writes its numbers to a file, by default beside this program. A missed bar
    /// is an error.
    pub(crate) fn conclude(
        &self,
        report: &impl Serialize,
        path: Option<PathBuf>,
        default_name: &str,
    ) -> Result<()> {
        let path = match path {
            Some(path) => path,
            None => env::current_exe()?.with_file_name(default_name),
        };
        fs::write(&path, serde_json::to_string_pretty(report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        print_line(&format!("numbers: {}", path.display()));
        ensure!(self.0.iter().all(|bar| bar.pass), "a bar was missed");
        Ok(())
    }
}

impl Bar {
    pub(crate) fn at_least(what: &str, measured: f64, bound: f64) -> Self {
        Self {
            what: what.to_owned(),
            measured,
            bound,
            pass: measured >= bound,
        }
    }

    pub(crate) fn at_most(what: &str, measured: f64, bound: f64) -> Self {
        Self {
            what: what.to_owned(),
            measured,
            bound,
            pass: measured <= bound,
        }
    }
}

// === impl FanoutReport ===

impl FanoutReport {
    /// Formats a Markdown table.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from(
            "\n| sessions | server | idle KiB | burst: µs of CPU each | burst: a second | paced: µs of CPU each | paced p50 | paced p99 |\n|---|---|---|---|---|---|---|---|\n",
        );
        for one in &self.measured {
            text += &format!(
                "| {} | {} | {:.1} | {:.2} | {:.0} | {:.1} | {:.1} ms | {:.1} ms |\n",
                one.sessions,
                one.server.name(),
                one.idle_bytes_per_session / 1024.0,
                one.burst.cpu_micros(),
                one.burst.per_second(),
                one.paced.cpu_micros(),
                millis(one.paced.p50_micros),
                millis(one.paced.p99_micros),
            );
        }
        if let Some(stalled) = &self.stalled {
            text += &format!(
                "\none stalled among 100: p99 of the others {:.2} ms, without {:.2} ms (medians); {} missed and announced\n",
                millis(median(&stalled.with_p99_micros)),
                millis(median(&stalled.without_p99_micros)),
                stalled.announced,
            );
        }
        text += "\nnothing out of order, nothing lost unannounced\n";
        text + &self.bars.table()
    }
}

#[expect(clippy::cast_precision_loss, reason = "of seconds at most")]
pub(crate) fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}
