//! `docs/demo.svg` and the excerpt in the README, generated from a real run of the demo so
//! that they can be reproduced.

mod svg;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::step::{cargo, print_line};

/// The width that a README shows without scrolling, and the number of faults to show.
const COLUMNS: u16 = 112;
const FAULTS: usize = 3;

/// An upper bound for the lines of the demo until all faults have been shown.
const LINES_MAX: usize = 200;

/// The line before the notifications of the demo.
const BEGINS: &str = "What a subscribed agent is told";

/// What a line that goes on below the last one of a fault begins with.
const BELOW: &str = "           ";

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
    let drawn = svg::draw(&shown(&lines), COLUMNS.into());
    fs::write(&picture, drawn).with_context(|| format!("cannot write {}", picture.display()))?;
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context("cannot read README.md")?;
    let text = with_excerpt(&text, &first_fault(&lines)?)?;
    fs::write(&readme, text).context("cannot write README.md")?;
    print_line(&format!("{} lines in {}", lines.len(), picture.display()));
    Ok(())
}

/// The output of the demo in a terminal, with its colors, up to the last of the faults.
fn watch(mut demo: Command) -> Result<Vec<String>> {
    let (ours, theirs) = terminal().context("cannot open a terminal")?;
    demo.args(["demo", "--color", "always"])
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(theirs)
        .stderr(Stdio::null());
    let mut child = demo.spawn().context("cannot start the demo")?;
    // It holds the other end of the terminal.
    drop(demo);
    let lines = BufReader::new(ours).lines().map_while(Result::ok);
    let lines = lines.map(|line| line.trim_end().to_owned());
    // Skips the lines on how to connect, which the README has too.
    let lines = lines.skip_while(|line| !line.contains(BEGINS));
    let collected = collect_faults(lines.take(LINES_MAX));
    child.kill().context("cannot end the demo")?;
    child.wait().context("the demo does not end")?;
    collected
}

/// The two ends of a terminal of the width that a README shows.
fn terminal() -> Result<(File, File)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let size = Winsize {
        ws_row: 40,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs = File::options()
        .read(true)
        .write(true)
        .open(name.to_str()?)?;
    Ok((File::from(ours), theirs))
}

/// The lines up to the end of the last fault that is shown with its pod.
fn collect_faults(lines: impl Iterator<Item = String>) -> Result<Vec<String>> {
    let (mut collected, mut faults, mut at_end) = (Vec::new(), 0, false);
    for line in lines {
        let plain = svg::plain(&line);
        // The line of the pod may go on below.
        if at_end && !plain.starts_with(BELOW) {
            faults += 1;
            if faults == FAULTS {
                return Ok(collected);
            }
        }
        at_end = is_end(&plain) || (at_end && plain.starts_with(BELOW));
        collected.push(line);
    }
    bail!("the demo showed {faults} faults, not {FAULTS}")
}

/// Whether the last line of a fault begins here.
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
    let below = plain[end + 1..].iter();
    let below = below.take_while(|line| line.starts_with(BELOW)).count();
    Ok(plain[begin..=end + below].to_vec())
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
    fn every_fault_is_drawn_as_a_whole() {
        let fault = |name: &str| {
            format!("10:00 FAULT {name}\n  │ panic\n  └ pod of {name} ·\n{BELOW}node\n")
        };
        let again = "10:00 FAULT a (x2) the same\n";
        let text = ["told\n", &fault("a"), again, &fault("b")].concat();
        assert!(
            collect_faults(lines(&text).into_iter()).is_err(),
            "one is missing"
        );
        let text = format!("{text}{}{}", fault("c"), fault("d"));
        let output = collect_faults(lines(&text).into_iter()).unwrap();
        assert_eq!(first_fault(&output).unwrap().len(), 4);
        let output = output.join("\n");
        assert!(
            output.ends_with("└ pod of c ·\n           node") && output.contains("the same"),
            "{output}"
        );
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
