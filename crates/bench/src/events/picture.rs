//! Latency over load as an SVG picture: how long an event is on its way to a client, at each
//! rate and number of subscribers. Both axes are logarithmic.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 46.0;

/// The axis of time, in milliseconds.
const TIMES: [f64; 4] = [0.1, 1.0, 10.0, 100.0];
const LONGEST: f64 = 300.0;

/// For each number of subscribers: light enough for a dark page, dark enough for a light one.
const COLOURS: [&str; 4] = ["#2f81f7", "#d29922", "#2ea043", "#a371f7"];
const BEFORE: &str = "#8b949e";

/// The latencies of one rate with one number of subscribers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) subscribers: u64,
    pub(super) per_second: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// The points of a report of this benchmark.
pub(super) fn read(path: &Path) -> Result<Vec<Point>> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let points = points(&report).with_context(|| {
        format!(
            "{} is no report of `cargo xtask bench events`",
            path.display()
        )
    })?;
    Ok(points)
}

pub(super) fn points(report: &Value) -> Option<Vec<Point>> {
    let measured = report["measured"].as_array()?.iter();
    let points = measured.map(|one| {
        let latency = &one["verdict"]["from_watch"];
        let millis = |percentile: &str| Some(latency[percentile].as_f64()? / 1000.0);
        Some(Point {
            subscribers: one["subscribers"].as_u64()?,
            per_second: one["per_second"].as_u64()?,
            p50_ms: millis("p50")?,
            p99_ms: millis("p99")?,
        })
    });
    points.collect()
}

/// Draws the points of this run, and of an earlier one behind them.
pub(super) fn draw(now: &[Point], before: &[Point]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\" aria-label=\"latency of an event over load\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"{BEFORE}\">\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">From a plain watch to the client, in ms: p50 (solid), \
         p99 (dashed)</text>\n"
    );
    let rates = sorted(now.iter().chain(before).map(|point| point.per_second));
    let Some((least, most)) = rates.first().copied().zip(rates.last().copied()) else {
        return svg + "</svg>\n";
    };
    let at = |rate: u64| {
        let share = share(to_f64(rate), to_f64(least), to_f64(most));
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    for time in TIMES {
        let y = height(time);
        svg.push_str(&format!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{BEFORE}\" stroke-opacity=\".25\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{time}</text>\n",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        ));
    }
    for rate in &rates {
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{rate}</text>\n",
            at(*rate),
            HEIGHT - 24.0
        ));
    }
    svg.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">events a second</text>\n",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 8.0
    ));
    let mut labels = Vec::new();
    for (points, when) in [(before, " before"), (now, "")] {
        let counts = sorted(points.iter().map(|point| point.subscribers));
        for (nth, count) in counts.iter().enumerate() {
            let colour = match when {
                "" => COLOURS.get(nth % COLOURS.len()).copied().unwrap_or(BEFORE),
                _ => BEFORE,
            };
            let plural = if *count == 1 { "" } else { "s" };
            for percentile in ["p50", "p99"] {
                let line = line(points, *count, percentile, at);
                let dashes = match percentile {
                    "p50" => "",
                    _ => " stroke-dasharray=\"6 4\"",
                };
                svg.push_str(&series(&line, colour, dashes));
                if let Some((_, y)) = line.last() {
                    let text = format!("{count} subscriber{plural}, {percentile}{when}");
                    labels.push((*y, colour, text));
                }
            }
        }
    }
    svg + &beside_their_lines(labels) + "</svg>\n"
}

/// Writes labels at their heights, or below one that is already there.
fn beside_their_lines(mut labels: Vec<(f64, &str, String)>) -> String {
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut svg, mut free) = (String::new(), 0.0_f64);
    for (y, colour, text) in labels {
        let y = y.max(free);
        free = y + 14.0;
        svg.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{text}</text>\n",
            WIDTH - RIGHT + 10.0,
            y + 4.0
        ));
    }
    svg
}

/// The places of one line, by rate.
fn line(
    points: &[Point],
    subscribers: u64,
    percentile: &str,
    at: impl Fn(u64) -> f64,
) -> Vec<(f64, f64)> {
    let mut of_it: Vec<_> = (points.iter())
        .filter(|point| point.subscribers == subscribers)
        .collect();
    of_it.sort_by_key(|point| point.per_second);
    let places = of_it.into_iter().map(|point| {
        let time = match percentile {
            "p50" => point.p50_ms,
            _ => point.p99_ms,
        };
        (at(point.per_second), height(time))
    });
    places.collect()
}

fn series(places: &[(f64, f64)], colour: &str, dashes: &str) -> String {
    let joined: Vec<_> = (places.iter())
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let mut svg = format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
        joined.join(" ")
    );
    for (x, y) in places {
        svg.push_str(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n"
        ));
    }
    svg
}

fn height(millis: f64) -> f64 {
    let least = TIMES[0];
    HEIGHT - BOTTOM - share(millis.clamp(least, LONGEST), least, LONGEST) * (HEIGHT - TOP - BOTTOM)
}

/// Where a value lies between two others on a logarithmic axis, from 0 to 1.
fn share(value: f64, least: f64, most: f64) -> f64 {
    if most <= least {
        return 0.5;
    }
    (value / least).ln() / (most / least).ln()
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<_> = values.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[expect(clippy::cast_precision_loss, reason = "thousands at most")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_point_of_a_report_is_drawn() {
        let latency =
            |p50: u64, p99: u64| json!({"from_watch": {"p50": p50, "p99": p99, "max": p99}});
        let report = json!({"measured": [
            {"subscribers": 1, "per_second": 50, "verdict": latency(300, 1700)},
            {"subscribers": 1, "per_second": 500, "verdict": latency(210, 4300)},
            {"subscribers": 100, "per_second": 500, "verdict": latency(12_000, 26_000)},
        ]});
        let points = points(&report).unwrap();
        assert_eq!(points.len(), 3);
        let svg = draw(&points, &points[..1]);
        // Two percentiles of each.
        assert_eq!(svg.matches("<circle ").count(), 2 * 4);
        for label in [
            "1 subscriber, p50<",
            "1 subscriber, p99 before<",
            "100 subscribers, p99<",
        ] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(height(0.0001) > height(1.0) && height(1.0) > height(100_000.0));
    }

    #[test]
    fn what_is_no_report_has_no_points() {
        for other in [json!({}), json!({"measured": [{"subscribers": 1}]})] {
            assert_eq!(points(&other), None);
        }
    }
}
