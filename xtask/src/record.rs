//! `docs/demo.svg` and the excerpt in the README, generated from a real run of the demo so
//! that they can be reproduced.

mod svg;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::step::{cargo, print_line};

/// The width that a README shows without scrolling, and the number of faults to show.
const COLUMNS: usize = 112;
const FAULTS: usize = 3;

/// An upper bound for the lines of the demo until all faults have been shown.
const LINES_MAX: usize = 200;

/// The line before the notifications of the demo.
const BEGINS: &str = "What a subscribed agent is told";

/// The markers before and after the excerpt.
const EXCERPT: (&str, &str) = (
    "<!-- `cargo xtask record` writes this -->\n",
    "<!-- end -->\n",
);

/// Runs the demo, with an existing binary or with one that cargo builds.
pub(crate) fn record(binary: Option<&Path>) -> Result<()> {
    let demo = match binary {
        Some(path) => Command::new(path),
        None => cargo(&["run", "--release", "--quiet", "--"]),
    };
    let lines = watch(demo)?;
    let root = root()?;
    let picture = root.join("docs/demo.svg");
    let drawn = svg::draw(&shown(&lines), COLUMNS);
    fs::write(&picture, drawn).with_context(|| format!("cannot write {}", picture.display()))?;
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context("cannot read README.md")?;
    let text = with_excerpt(&text, &first_fault(&lines)?)?;
    fs::write(&readme, text).context("cannot write README.md")?;
    print_line(&format!("{} lines in {}", lines.len(), picture.display()));
    Ok(())
}

/// The output of the demo, with its colors, up to the last of the faults. A repeated
/// fault is replaced by a line.
fn watch(mut demo: Command) -> Result<Vec<String>> {
    demo.args(["demo", "--color", "always"])
        .env("TZ", "UTC")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = demo.spawn().context("cannot start the demo")?;
    let stdout = child.stdout.take().context("the demo has no output")?;
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    // Skips the lines on how to connect, which the README has too.
    let lines = lines.skip_while(|line| !line.contains(BEGINS));
    let collected = collect_faults(lines.take(LINES_MAX));
    // The pipe is closed, so the demo ends with its next line.
    child.wait().context("the demo does not end")?;
    collected
}

fn collect_faults(lines: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let (mut collected, mut faults, mut again) = (Vec::new(), 0, false);
    for line in lines {
        let plain = svg::plain(&line);
        let begins = plain.contains(" FAULT ");
        if begins {
            let before = again;
            again = plain.contains(" (x");
            if again && !before {
                collected.push("\u{1b}[2m         … and again\u{1b}[0m".to_owned());
            }
        }
        if again {
            continue;
        }
        collected.push(line);
        faults += usize::from(is_end(&plain));
        if faults == FAULTS {
            return Ok(collected);
        }
    }
    bail!("the demo showed {faults} faults, not {FAULTS}")
}

/// Whether this is the last line of a fault.
fn is_end(plain: &str) -> bool {
    plain.trim_start().starts_with('└')
}

/// The lines of the picture, with the command before them.
fn shown(lines: &[String]) -> Vec<String> {
    let command = "\u{1b}[2m$\u{1b}[0m \u{1b}[1mcargo run --release -- demo\u{1b}[0m";
    let mut shown = vec![command.to_owned(), String::new()];
    shown.extend_from_slice(lines);
    shown
}

/// The first fault, without colours.
fn first_fault(lines: &[String]) -> Result<Vec<String>> {
    let plain: Vec<_> = lines.iter().map(|line| svg::plain(line)).collect();
    let begin = plain.iter().position(|line| line.contains(" FAULT "));
    let begin = begin.context("the demo shows no fault")?;
    let end = plain[begin..].iter().position(|line| is_end(line));
    let end = begin + end.context("the fault does not end")?;
    Ok(plain[begin..=end].iter().map(|line| cut(line)).collect())
}

fn cut(line: &str) -> String {
    if line.chars().count() <= COLUMNS {
        return line.to_owned();
    }
    let mut kept: String = line.chars().take(COLUMNS - 1).collect();
    kept.push('…');
    kept
}

fn with_excerpt(readme: &str, lines: &[String]) -> Result<String> {
    let (before, rest) = readme
        .split_once(EXCERPT.0)
        .context("README.md has no place for the excerpt")?;
    let (_, after) = rest
        .split_once(EXCERPT.1)
        .context("the excerpt in README.md has no end")?;
    let (begin, end) = EXCERPT;
    Ok(format!(
        "{before}{begin}```\n{}\n```\n{end}{after}",
        lines.join("\n")
    ))
}

fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.parent().context("xtask lies in the workspace")?;
    Ok(root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_excerpt_is_the_first_fault_and_nothing_else_changes() {
        let output = lines(
            "What a subscribed agent is told\n\u{1b}[2m10:00:00\u{1b}[0m FAULT a\n  │ panic\n  └ pod\n10:00:01 FAULT b\n  └ pod",
        );
        let fault = first_fault(&output).unwrap();
        assert_eq!(fault, ["10:00:00 FAULT a", "  │ panic", "  └ pod"]);
        let (begin, end) = EXCERPT;
        let readme = format!("before\n{begin}old\n{end}after\n");
        let text = with_excerpt(&readme, &fault).unwrap();
        assert!(
            text.starts_with("before\n") && text.ends_with("after\n"),
            "{text}"
        );
        assert!(
            text.contains("```\n10:00:00 FAULT a\n") && !text.contains("old"),
            "{text}"
        );
        assert!(with_excerpt("nothing", &fault).is_err());
        assert!(first_fault(&lines("no faults")).is_err());
    }

    #[test]
    fn every_fault_is_drawn_once_and_as_a_whole() {
        let fault = |name: &str| format!("10:00 FAULT {name}\n  │ panic\n  └ pod of {name}\n");
        let text = [
            "told\n",
            &fault("a"),
            &fault("a (x2)"),
            &fault("a (x3)"),
            &fault("b"),
        ]
        .concat();
        assert!(
            collect_faults(lines(&text).into_iter()).is_err(),
            "one is missing"
        );
        let text = format!("{text}{}{}", fault("c"), fault("d"));
        let output = collect_faults(lines(&text).into_iter()).unwrap().join("\n");
        assert!(
            output.ends_with("└ pod of c") && !output.contains("(x"),
            "{output}"
        );
        assert_eq!(output.matches("and again").count(), 1, "{output}");
    }

    /// What is in the repository was really recorded.
    #[test]
    fn the_picture_and_the_readme_show_a_crash() {
        let root = root().unwrap();
        let svg = fs::read_to_string(root.join("docs/demo.svg")).unwrap();
        assert!(svg.len() < 60_000, "{} bytes", svg.len());
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        assert!(readme.contains("docs/demo.svg"));
        for text in [&svg, &readme] {
            assert!(text.contains("FAULT") && text.contains("panic: runtime error"));
        }
    }
}
