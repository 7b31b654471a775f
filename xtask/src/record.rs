//! `docs/demo.svg`: what the demo shows, drawn by a program, so that it can be drawn
//! again when it looks different.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result};

use crate::step::{cargo, say};

/// As wide as a README shows without scrolling, and as long as one looks at.
const COLUMNS: usize = 112;
const LINES: usize = 34;

/// Pixels of a cell.
const CELL: (f32, f32) = (7.83, 18.0);

/// How a piece of text looks.
#[derive(Clone, Copy, Default, PartialEq)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<&'static str>,
}

pub(crate) fn record() -> Result<()> {
    let mut demo = cargo(&["run", "--release", "--quiet", "--", "demo"]);
    demo.args(["--speed", "4", "--color", "always"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = demo.spawn().context("cannot start the demo")?;
    let stdout = child.stdout.take().context("the demo has no output")?;
    let lines: Vec<String> = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        // How to connect stands in the README itself.
        .skip_while(|line| !line.contains("What a subscribed agent is told"))
        .take(LINES)
        .collect();
    // Its pipe is closed: it ends with the next line.
    child.wait().context("the demo does not end")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the workspace")?
        .join("docs/demo.svg");
    fs::write(&path, draw(&lines)).with_context(|| format!("cannot write {}", path.display()))?;
    say(&format!("{} lines in {}", lines.len(), path.display()));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a hundred columns")]
fn draw(lines: &[String]) -> String {
    let (width, height) = (
        CELL.0 * COLUMNS as f32 + 32.0,
        CELL.1 * lines.len() as f32 + 32.0,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" fill=\"#d8dee9\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b2028\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = 28.0 + CELL.1 * row as f32;
        svg.push_str(&format!(
            "<text x=\"16\" y=\"{y:.0}\" xml:space=\"preserve\">{}</text>\n",
            spans(line)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A line with its escape sequences as spans, cut to the width.
fn spans(line: &str) -> String {
    let mut spans = String::new();
    let mut style = Style::default();
    let mut room = COLUMNS;
    for (index, part) in line.split('\u{1b}').enumerate() {
        let mut text = part;
        if index > 0
            && let Some((code, rest)) = part.strip_prefix('[').and_then(|part| part.split_once('m'))
        {
            style = restyle(style, code);
            text = rest;
        }
        let length = text.chars().count();
        let mut shown: String = text.chars().take(room).collect();
        if length > room && room > 0 {
            shown.pop();
            shown.push('…');
        }
        room = room.saturating_sub(length);
        if !shown.is_empty() {
            spans.push_str(&span(style, &shown));
        }
    }
    spans
}

fn restyle(style: Style, codes: &str) -> Style {
    codes.split(';').fold(style, |style, code| match code {
        "1" => Style {
            bold: true,
            ..style
        },
        "2" => Style { dim: true, ..style },
        "31" => Style {
            colour: Some("#ff7b72"),
            ..style
        },
        "32" => Style {
            colour: Some("#7ee787"),
            ..style
        },
        "33" => Style {
            colour: Some("#e3b341"),
            ..style
        },
        "36" => Style {
            colour: Some("#76d9e6"),
            ..style
        },
        _ => Style::default(),
    })
}

fn span(style: Style, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    if style == Style::default() {
        return text;
    }
    let mut attributes = String::new();
    if style.bold {
        attributes.push_str(" font-weight=\"bold\"");
    }
    match style.colour {
        Some(colour) => attributes.push_str(&format!(" fill=\"{colour}\"")),
        None if style.dim => attributes.push_str(" fill=\"#8b95a5\""),
        None => {}
    }
    format!("<tspan{attributes}>{text}</tspan>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_become_spans_and_long_lines_are_cut() {
        let line = "\u{1b}[1m\u{1b}[31mFAULT\u{1b}[0m a <b> & c";
        assert_eq!(
            spans(line),
            "<tspan font-weight=\"bold\" fill=\"#ff7b72\">FAULT</tspan> a &lt;b> &amp; c"
        );
        let long = spans(&"x".repeat(500));
        assert_eq!(long.chars().count(), COLUMNS);
        assert!(long.ends_with('…'));
    }
}
