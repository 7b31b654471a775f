//! Lines of a terminal as an SVG picture. It is dark on any page, and `textLength` gives
//! every line its width with any font.

use std::mem;

/// The size of a cell and the padding, in pixels.
const CELL: (f32, f32) = (7.85, 18.5);
const MARGIN: f32 = 20.0;
const BAR: f32 = 34.0;

const HEAD: &str = "<style>text{white-space:pre}.b{font-weight:bold}.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#7ee787}\
.y{fill:#e3b341}.c{fill:#79c0ff}</style>\n";

/// The style of a piece of text.
#[derive(Clone, Copy, Default, PartialEq)]
struct Style {
    bold: bool,
    dim: bool,
    colour: Option<&'static str>,
}

/// Draws lines with their escape sequences, cut to that many columns.
#[expect(clippy::cast_precision_loss, reason = "a hundred columns")]
pub(super) fn draw(lines: &[String], columns: usize) -> String {
    let width = CELL.0 * columns as f32 + 2.0 * MARGIN;
    let height = CELL.1 * lines.len() as f32 + BAR + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"kubecrier demo: faults with the lines that say what \
         crashed\" font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation \
         Mono',monospace\" font-size=\"13\" fill=\"#e6edf3\" xml:space=\"preserve\">\n{HEAD}\
         <rect x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"10\" fill=\"#0d1117\" stroke=\"#444c56\"/>\n",
        width - 1.0,
        height - 1.0
    );
    for (at, colour) in [(20, "#ff5f57"), (38, "#febc2e"), (56, "#28c840")] {
        svg.push_str(&format!(
            "<circle cx=\"{at}\" cy=\"18\" r=\"5.5\" fill=\"{colour}\"/>\n"
        ));
    }
    for (row, line) in lines.iter().enumerate() {
        let y = BAR + CELL.1 * (row as f32 + 0.75);
        let count = plain(line).chars().count().min(columns);
        if count == 0 {
            continue;
        }
        svg.push_str(&format!(
            "<text x=\"{MARGIN:.0}\" y=\"{y:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>\n",
            CELL.0 * count as f32,
            spans(line, columns)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A line without its escape sequences.
pub(super) fn plain(line: &str) -> String {
    pieces(line).into_iter().map(|(_, text)| text).collect()
}

/// A line with its escape sequences as spans, cut to the width.
fn spans(line: &str, columns: usize) -> String {
    let mut room = columns;
    let mut spans = String::new();
    let all = plain(line).chars().count();
    for (style, text) in pieces(line) {
        let length = text.chars().count();
        let mut shown: String = text.chars().take(room).collect();
        if all > columns && length >= room && room > 0 {
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

fn pieces(line: &str) -> Vec<(Style, &str)> {
    let mut style = Style::default();
    let mut pieces = Vec::new();
    for (index, part) in line.split('\u{1b}').enumerate() {
        let mut text = part;
        if index > 0
            && let Some((code, rest)) = part.strip_prefix('[').and_then(|part| part.split_once('m'))
        {
            style = code.split(';').fold(mem::take(&mut style), restyle);
            text = rest;
        }
        pieces.push((style, text));
    }
    pieces
}

fn restyle(mut style: Style, code: &str) -> Style {
    match code {
        "1" => style.bold = true,
        "2" => style.dim = true,
        "31" => style.colour = Some("r"),
        "32" => style.colour = Some("g"),
        "33" => style.colour = Some("y"),
        "36" => style.colour = Some("c"),
        _ => return Style::default(),
    }
    style
}

fn span(style: Style, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let colour = style.colour.or(style.dim.then_some("d"));
    let classes: Vec<_> = style
        .bold
        .then_some("b")
        .into_iter()
        .chain(colour)
        .collect();
    if classes.is_empty() {
        return text;
    }
    format!("<tspan class=\"{}\">{text}</tspan>", classes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_become_spans_and_long_lines_are_cut() {
        let line = "\u{1b}[1m\u{1b}[31mFAULT\u{1b}[0m a <b> & c";
        assert_eq!(
            spans(line, 80),
            "<tspan class=\"b r\">FAULT</tspan> a &lt;b> &amp; c"
        );
        assert_eq!(plain(line), "FAULT a <b> & c");
        let long = spans(&"x".repeat(500), 80);
        assert_eq!(long.chars().count(), 80);
        assert!(long.ends_with('…'));
        assert_eq!(spans("abc\u{1b}[0mdef", 3), "ab…");
    }

    #[test]
    fn every_line_has_its_width() {
        let lines = [
            "one".to_owned(),
            String::new(),
            "\u{1b}[2mthree\u{1b}[0m".to_owned(),
        ];
        let svg = draw(&lines, 80);
        assert_eq!(svg.matches("<text ").count(), 2, "{svg}");
        assert!(
            svg.contains("textLength=\"39.2\"") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
    }
}
