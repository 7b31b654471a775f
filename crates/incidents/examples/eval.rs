//! Scores the first answer on recorded cases: `cargo xtask eval`.

#![expect(clippy::print_stdout, reason = "its output")]

use std::{path::PathBuf, process::ExitCode};

use kubecrier_incidents::eval::{Case, CaseError, Score, Scores, baseline, faults_list, load};

fn main() -> Result<ExitCode, CaseError> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_verbose = arguments.next_if(|word| word == "-v").is_some();
    let given = arguments.next().map(PathBuf::from);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cases");
    let folders = match given {
        Some(folder) => vec![folder],
        None => vec![root.join("faults"), root.join("healthy")],
    };
    println!("| cases | answer | top-1 | any | cause | accused | bytes p50 / p90 |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for folder in folders {
        let cases = load(&folder)?;
        let ours = Scores(
            cases
                .iter()
                .map(|case| faults_list(case).score(case))
                .collect(),
        );
        if is_verbose {
            let both = cases.iter().zip(&ours.0);
            both.filter(|(_, score)| !score.is_good())
                .for_each(|(case, score)| explain(case, score));
        }
        let theirs = Scores(
            cases
                .iter()
                .map(|case| baseline(case).score(case))
                .collect(),
        );
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        println!("| {} {name} | faults_list | {ours} |", cases.len());
        println!(
            "| {} {name} | events_list, Warnings | {theirs} |",
            cases.len()
        );
        if ours.0.iter().any(|score| score.is_fault) {
            missed.extend(ours.below_bars());
        } else if ours.accused() > 0.0 {
            missed.push("somebody is accused in a healthy cluster");
        }
    }
    for bar in &missed {
        println!("missed: {bar}");
    }
    Ok(if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What was answered, and what is true.
fn explain(case: &Case, score: &Score) {
    let Case {
        name,
        class,
        title,
        truth,
        ..
    } = case;
    println!("\n{name} ({class}): {title}");
    println!("  truth {} {:?}", truth.object, truth.words);
    let Score {
        top,
        any,
        cause,
        accused,
        ..
    } = score;
    println!("  top {top} any {any} cause {cause} accused {accused:?}");
    for line in faults_list(case).lines {
        println!("  | {}", line.text);
    }
}
