//! The entry in a TOML file: a table of its own, behind all others. Nothing else is touched; an
//! editor of documents such as `toml_edit` would write all line ends anew.

use std::ops::Range;

use super::{document::Content, entry::Node};

/// The name of a table below a table at the top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
}

// === impl Place ===

impl Place {
    /// The text with the entry, appended or replaced.
    pub(super) fn set(&self, text: &str, content: &Content<'_>) -> String {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let block = match content {
            Content::Raw(block) => (*block).to_owned(),
            Content::Entry(node) => self.render(node).replace('\n', newline),
        };
        if let Some(Range { start, end }) = self.find(text) {
            return format!("{}{block}{}", &text[..start], &text[end..]);
        }
        let ends_line = text.is_empty() || text.ends_with('\n');
        let is_apart = text.is_empty() || text.ends_with("\n\n") || text.ends_with("\n\r\n");
        let end = if ends_line { "" } else { newline };
        let blank = if is_apart { "" } else { newline };
        format!("{text}{end}{blank}{block}")
    }

    /// The text without the entry; `None` if it has no table of its own.
    pub(super) fn remove(&self, text: &str) -> Option<String> {
        let Range { start, end } = self.find(text)?;
        let (mut before, after) = (&text[..start], &text[end..]);
        if after.is_empty() {
            // The blank line that stood between.
            for blank in ["\n\r\n", "\n\n"] {
                if let Some(rest) = before.strip_suffix(blank) {
                    before = &before[..=rest.len()];
                }
            }
        }
        Some(format!("{before}{after}"))
    }

    /// The entry as it is written.
    pub(super) fn raw<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.get(self.find(text)?)
    }

    /// The lines from the table's header to the next table's, without the comments of that.
    fn find(&self, text: &str) -> Option<Range<usize>> {
        let mut found: Option<Range<usize>> = None;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            let header = header(line);
            let is_ours = |path: &[String]| path.starts_with(&[self.key.into(), self.name.into()]);
            let is_blank = line.trim().is_empty() || line.trim_start().starts_with('#');
            match (&mut found, header) {
                (None, Some(path)) if is_ours(&path) => found = Some(start..end),
                (Some(_), Some(path)) if !is_ours(&path) => return found,
                (Some(found), _) if !is_blank => found.end = end,
                _ => {}
            }
            start = end;
        }
        found
    }

    fn render(&self, node: &Node) -> String {
        let mut block = format!("[{}.{}]\n", self.key, self.name);
        if let Node::Map(fields) = node {
            for (key, value) in fields {
                block.push_str(&format!("{key} = {}\n", inline(value)));
            }
        }
        block
    }
}

/// The keys of the header in a line that is one. A line in the middle of a value may look like
/// one, too: what was made of the text is parsed again for that.
fn header(line: &str) -> Option<Vec<String>> {
    if !line.trim_start().starts_with('[') {
        return None;
    }
    let mut table: toml::Table = line.parse().ok()?;
    let mut path = Vec::new();
    while let Some((key, value)) = table.into_iter().next() {
        path.push(key);
        table = value.as_table().cloned().unwrap_or_default();
    }
    Some(path)
}

fn inline(node: &Node) -> String {
    match node {
        Node::Text(text) => toml::Value::from(text.as_str()).to_string(),
        Node::Flag(flag) => flag.to_string(),
        Node::List(words) => {
            let words: Vec<_> = words
                .iter()
                .map(|word| toml::Value::from(word.as_str()).to_string())
                .collect();
            format!("[{}]", words.join(", "))
        }
        Node::Map(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(key, node)| format!("{key} = {}", inline(node)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}
