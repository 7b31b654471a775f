//! Measures redaction: `cargo run --release -p kubecrier-redact --example throughput`.

#![expect(clippy::print_stdout, reason = "its output")]
#![expect(
    clippy::disallowed_types,
    reason = "it measures, and nothing pauses its clock"
)]

use std::{fmt::Write as _, time::Instant};

use kubecrier_redact::Redactor;

/// The size of each text.
const BYTES: usize = 8 << 20;

/// How often each is measured; the best run counts, because others work on the machine.
const RUNS: usize = 5;

fn main() {
    println!("| text | MB/s whole | MB/s by line |\n|---|---|---|");
    for (name, text) in ordinary().into_iter().chain(soups()) {
        let redactor = Redactor::default();
        let whole = best(&text, || drop(redactor.workload(&text).into_owned()));
        let by_line = best(&text, || {
            let mut lines = redactor.lines();
            text.lines().for_each(|line| drop(lines.clean(line)));
        });
        println!("| {name} | {whole:.0} | {by_line:.0} |");
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
fn best(text: &str, work: impl Fn()) -> f64 {
    let run = || {
        let began = Instant::now();
        work();
        began.elapsed().as_secs_f64()
    };
    let fastest = (0..RUNS).map(|_| run()).fold(f64::MAX, f64::min);
    text.len() as f64 / 1e6 / fastest
}

/// Text of the size to measure, made of numbered lines.
fn many(line: impl Fn(&mut String, usize)) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < BYTES {
        line(&mut text, number);
        number += 1;
    }
    text
}

fn ordinary() -> Vec<(&'static str, String)> {
    let json = many(|text, n| {
        let _ = writeln!(
            text,
            r#"{{"level":"info","ts":"2026-01-01T00:00:{:02}.123Z","logger":"controller.pod","msg":"reconciled object","controller":"deployment","namespace":"team-{}","name":"web-7d4b9c6f5d-x2x8z","reconcileID":"3f2504e0-4f89-11d3-9a0c-0305e82c{:04}","duration":"{}ms","requeue":false}}"#,
            n % 60,
            n % 7,
            n % 10_000,
            n % 997,
        );
    });
    let logfmt = many(|text, n| {
        let _ = writeln!(
            text,
            "time=2026-01-01T00:00:{:02}Z level=info caller=compact.go:519 component=tsdb msg=\"write block\" mint={n} maxt={} ulid=01HK3V8M2Y7Q duration=1.{}s key=value user=joe status=200 path=/api/v1/query_range",
            n % 60,
            n + 7200,
            n % 1000,
        );
    });
    let klog = many(|text, n| {
        let _ = writeln!(
            text,
            "I0101 00:00:{:02}.123456       1 reflector.go:351] Caches populated for *v1.Pod from k8s.io/client-go/informers/factory.go:{} in namespace kube-system, resource version {n}",
            n % 60,
            n % 200,
        );
    });
    let access = many(|text, n| {
        let _ = writeln!(
            text,
            "10.244.{}.{} - - [01/Jan/2026:00:00:{:02} +0000] \"GET /products/{n}?page=2&sort=price HTTP/1.1\" 200 {} \"https://shop.example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\" 0.012",
            n % 250,
            n % 255,
            n % 60,
            n % 5000,
        );
    });
    let java = many(|text, n| {
        let _ = write!(
            text,
            "2026-01-01 00:00:{:02}.123 ERROR 1 --- [nio-8080-exec-{}] c.e.shop.OrderController : order {n} failed\njava.lang.IllegalStateException: no stock\n\tat com.example.shop.Stock.take(Stock.java:{})\n\tat com.example.shop.security.TokenFilter.doFilter(TokenFilter.java:41)\n\tat org.apache.catalina.core.ApplicationFilterChain.internalDoFilter(ApplicationFilterChain.java:178)\n",
            n % 60,
            n % 10,
            n % 300,
        );
    });
    let strings = many(|text, n| {
        let _ = writeln!(
            text,
            r#"{{"level":"error","time":"2026-01-01T00:00:{:02}Z","message":"cannot read \"/etc/app/config-{n}.yaml\":\n\tat load (/app/src/config.js:{}:7)\n\tat main (/app/src/index.js:12:3)","pid":1,"hostname":"web-0"}}"#,
            n % 60,
            n % 90,
        );
    });
    let foreign = many(|text, n| {
        let _ = writeln!(
            text,
            "2026-01-01 00:00:{:02} INFO Bestellung {n} für Zürich bestätigt — 注文を受け付けました",
            n % 60
        );
    });
    let talk = many(|text, n| {
        let _ = writeln!(
            text,
            "2026-01-01T00:00:{:02}Z level=info msg=\"token refreshed\" tokens=1532 token_count={n} secretName=db-creds auth=ok user=joe password authentication failed for user \"joe\", see https://example.org/docs/auth?page=2",
            n % 60,
        );
    });
    vec![
        ("JSON", json),
        ("logfmt", logfmt),
        ("klog", klog),
        ("access log", access),
        ("Java stack traces", java),
        ("JSON with strings in strings", strings),
        ("not ASCII", foreign),
        ("talk of tokens and passwords", talk),
    ]
}

fn soups() -> Vec<(&'static str, String)> {
    let secret = many(|text, n| {
        let _ = writeln!(
            text,
            "login password=hunter2-{n} at postgres://joe:swordfish{n}@db:5432/app"
        );
    });
    vec![
        ("two secrets in every line", secret),
        ("unterminated C1 strings", "\u{9d}".repeat(BYTES / 2)),
        (
            "one line of begun keys",
            "-----BEGIN PRIVATE KEY-----".repeat(BYTES / 27),
        ),
        (
            "one line of `password=\"`",
            "password=\"".repeat(BYTES / 10),
        ),
        ("one line of `://`", "://".repeat(BYTES / 3)),
        ("one line of `eyJ`", "eyJ".repeat(BYTES / 3)),
        ("one line of `token: `", "token: ".repeat(BYTES / 7)),
        ("one line of backslashes", "\\".repeat(BYTES)),
    ]
}
