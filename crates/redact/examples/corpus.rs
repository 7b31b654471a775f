//! Counts what a corpus of log lines leaks and what is changed without need:
//! `cargo run -p kubecrier-redact --example corpus -- DIR [-v] [--seeds N]`. DIR holds
//! `secrets.txt`, `ordinary.txt` and `names.txt`; `-v` prints the entries.

#![expect(clippy::print_stdout, reason = "its output")]

use std::{collections::BTreeMap, error::Error, fs, path::PathBuf};

use kubecrier_redact::Redactor;

#[path = "../tests/corpus/expand.rs"]
mod expand;

#[path = "../tests/corpus/ways.rs"]
mod ways;

use expand::{entries, expand, names};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut directory, mut verbose, mut seeds) = (None, false, 5);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-v" => verbose = true,
            "--seeds" => seeds = arguments.next().ok_or("--seeds needs a number")?.parse()?,
            _ => directory = Some(PathBuf::from(argument)),
        }
    }
    let directory = directory.ok_or("which directory?")?;
    let redactor = Redactor::default();
    let read = |name: &str| fs::read_to_string(directory.join(name));

    let mut report = Report::new("secrets", "leak", verbose);
    for entry in entries(&read("secrets.txt")?) {
        report.entry(&entry.about);
        for seed in 0..seeds {
            let expanded = expand(&entry.template, seed);
            for (way, output) in ways::through(&redactor, &expanded.text) {
                report.case(way, ways::leak(&expanded, &output), &output);
            }
        }
    }
    report.print();

    let mut report = Report::new("ordinary", "change", verbose);
    for entry in entries(&read("ordinary.txt")?) {
        report.entry(&entry.about);
        for seed in 0..seeds {
            let text = expand(&entry.template, seed).text;
            for (way, output) in ways::through(&redactor, &text) {
                let same = output == ways::untouched(way, &text);
                report.case(way, (!same).then(|| text.clone()), &output);
            }
        }
    }
    report.print();

    let mut report = Report::new("names", "change", verbose);
    let file = read("names.txt")?;
    for (row, line) in file.lines().enumerate() {
        report.entry(line);
        for seed in 0..seeds {
            for name in names(line, seed.wrapping_add(row as u64)) {
                for (way, text) in ways::around(&name) {
                    let output = redactor.workload(&text);
                    report.case(way, (output != text).then(|| text.clone()), &output);
                }
            }
        }
    }
    report.print();
    Ok(())
}

/// Counts entries, in all and by the way they took.
struct Report {
    of: &'static str,
    what: &'static str,
    verbose: bool,
    entries: usize,
    failed: usize,
    this_failed: bool,
    about: String,
    by_way: BTreeMap<&'static str, usize>,
    seen: Vec<&'static str>,
}

// === impl Report ===

impl Report {
    fn new(of: &'static str, what: &'static str, verbose: bool) -> Self {
        Self {
            of,
            what,
            verbose,
            entries: 0,
            failed: 0,
            this_failed: false,
            about: String::new(),
            by_way: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    fn entry(&mut self, about: &str) {
        self.failed += usize::from(self.this_failed);
        self.entries += 1;
        self.this_failed = false;
        self.seen.clear();
        about.clone_into(&mut self.about);
    }

    fn case(&mut self, way: &'static str, failure: Option<String>, output: &str) {
        let count = self.by_way.entry(way).or_default();
        let Some(piece) = failure else { return };
        if self.seen.contains(&way) {
            return;
        }
        *count += 1;
        self.seen.push(way);
        if self.verbose {
            println!(
                "== {} | {way} | {}\n{piece}\n-> {output}",
                self.of, self.about
            );
        }
        self.this_failed = true;
    }

    fn print(mut self) {
        self.failed += usize::from(self.this_failed);
        println!(
            "{}: {} of {} entries {}; by way {:?}",
            self.of, self.failed, self.entries, self.what, self.by_way
        );
    }
}
