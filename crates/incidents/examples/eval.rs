//! Scores the first answer on recorded cases: `cargo xtask eval`.

#![expect(clippy::print_stdout, reason = "its output")]

use std::{path::PathBuf, process::ExitCode};

use kubecrier_incidents::eval::{
    Case, CaseError, Form, Notifications, Score, Scores, baseline, faults_list, load, notifications,
};

/// How the objects of a case got into the cluster, and what the table calls it.
const FORMS: [(Form, &str); 4] = [
    (Form::Live, "faults_list"),
    (Form::Replayed, "faults_list, replayed"),
    (Form::Orphaned, "faults_list, replayed without owners"),
    (Form::Unshifted, "faults_list, replayed much later"),
];

/// The cases of the repository. Whoever wrote the second ones had seen neither the detectors nor
/// the first ones.
const SETS: [&str; 4] = ["faults", "healthy", "second/faults", "second/healthy"];

fn main() -> Result<ExitCode, CaseError> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_verbose = arguments.next_if(|word| word == "-v").is_some();
    let given = arguments.next().map(PathBuf::from);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cases");
    let folders = match given {
        Some(folder) => vec![folder],
        None => SETS.iter().map(|set| root.join(set)).collect(),
    };
    println!("| cases | answer | top-1 | any | cause | accused | bytes p50 / p90 |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for folder in folders {
        let cases = load(&folder)?;
        let name = folder.strip_prefix(&root).unwrap_or(&folder).display();
        let name = name.to_string();
        for (form, answer) in FORMS {
            let cases: Result<Vec<_>, _> = cases.iter().map(|case| case.in_form(form)).collect();
            let cases = cases.map_err(|error| CaseError {
                file: folder.clone(),
                reason: error.to_string(),
            })?;
            let answers = cases.iter().map(|case| faults_list(case).score(case));
            let scores = Scores(answers.collect());
            if is_verbose {
                let both = cases.iter().zip(&scores.0);
                both.filter(|(_, score)| !score.is_good())
                    .for_each(|(case, score)| explain(case, score));
            }
            println!("| {} {name} | {answer} | {scores} |", cases.len());
            if scores.0.iter().any(|score| score.is_fault) {
                missed.extend(scores.below_bars());
            } else if scores.accused() > 0.0 {
                missed.push("somebody is accused in a healthy cluster");
            }
        }
        if scores_faults(&cases) {
            missed.extend(wakes(&name, &cases));
        }
        let events = cases.iter().map(|case| baseline(case).score(case));
        let events = Scores(events.collect());
        println!(
            "| {} {name} | events_list, Warnings | {events} |",
            cases.len()
        );
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

fn scores_faults(cases: &[Case]) -> bool {
    cases.iter().any(|case| !case.truth.object.is_empty())
}

/// Prints how often a subscriber is woken by a case.
fn wakes(name: &str, cases: &[Case]) -> Option<&'static str> {
    let told: Vec<_> = cases.iter().map(notifications).collect();
    let sum = |of: fn(&Notifications) -> usize| told.iter().map(of).sum::<usize>();
    let most = told
        .iter()
        .map(|one| one.opened + one.changed + one.resolved);
    println!(
        "| {} {name} | a subscriber | opened {}, changed {}, resolved {}; at most {} for one | | | | |",
        cases.len(),
        sum(|one| one.opened),
        sum(|one| one.changed),
        sum(|one| one.resolved),
        most.max().unwrap_or(0),
    );
    let is_calm = told.iter().all(Notifications::is_calm);
    (!is_calm).then_some("a subscriber is told of an incident more than once")
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
