//! Lines of real software from the corpus of the `redact` crate, packed into texts that fit
//! everywhere: a log, an event, an annotation.

#[path = "../../../../redact/tests/corpus/expand.rs"]
mod expand;

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use self::expand::{Entry, Expanded, entries, expand, names};

/// A file of the corpus.
fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../redact/tests/corpus");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The same selection and the same values in each run.
const SEED: u64 = 20_261_116;

/// As many characters in a row count as a leak. A shorter piece would be met by chance in
/// the ids and times of what the tests read.
const PIECE: usize = 12;

/// Fits into what is kept of an event's message, and into one update of a log.
const PACK_BYTES: usize = 2_500;

/// Texts with secrets, and how to find the secrets again.
pub(super) struct Secrets {
    /// Some entries each.
    pub(super) packs: Vec<Pack>,
    /// A secret without a text around it.
    pub(super) alone: String,
    /// The pieces, by their length; backslashes are left out.
    pieces: HashMap<usize, HashSet<Vec<char>>>,
}

/// Some entries as one text.
pub(super) struct Pack {
    /// A word that shows that the text was met.
    pub(super) marker: String,
    /// The entries, each on lines of its own.
    pub(super) text: String,
}

// === impl Secrets ===

impl Secrets {
    /// Secrets in packs, of as many entries as wanted.
    pub(super) fn choose(count: usize) -> Self {
        let fits = |entry: &Entry| {
            // Numbers are met by chance, and a key without an end hides what follows it.
            let fair = !entry.template.contains("{{digits") && !entry.about.contains("cut");
            fair && entry.template.len() < 1_500
        };
        let alone = expand("{{password:word}}", SEED);
        let mut secrets = Self {
            packs: Vec::new(),
            alone: alone.text.clone(),
            pieces: HashMap::new(),
        };
        secrets.look_for(&alone);
        for entry in chosen("secrets.txt", count, fits) {
            let expanded = expand(&entry.template, order(&entry.template));
            secrets.pack(&expanded.text);
            secrets.look_for(&expanded);
        }
        secrets
    }

    fn look_for(&mut self, expanded: &Expanded) {
        for piece in expanded.pieces(PIECE) {
            let piece: Vec<char> = piece.chars().filter(|one| *one != '\\').collect();
            self.pieces.entry(piece.len()).or_default().insert(piece);
        }
    }

    fn pack(&mut self, text: &str) {
        let full = |pack: &Pack| pack.text.len() + text.len() > PACK_BYTES;
        if self.packs.last().is_none_or(full) {
            self.packs.push(Pack {
                marker: format!("met-{:02}", self.packs.len()),
                text: String::new(),
            });
        }
        if let Some(pack) = self.packs.last_mut() {
            pack.text.push_str(text);
            pack.text.push('\n');
        }
    }

    /// Checks that nothing of a secret is in an output. Escapes are undone by leaving out
    /// all backslashes, here and in the pieces.
    #[track_caller]
    pub(super) fn are_not_in(&self, what: &str, output: &str) {
        let chars: Vec<char> = output.chars().filter(|one| *one != '\\').collect();
        for (length, pieces) in &self.pieces {
            let found = chars.windows(*length).position(|one| pieces.contains(one));
            if let Some(at) = found {
                let around = &chars[at.saturating_sub(200)..chars.len().min(at + 100)];
                let around: String = around.iter().collect();
                let piece: String = chars[at..at + length].iter().collect();
                panic!("{what} lets out `{piece}`:\n...{around}...");
            }
        }
    }

    /// The same for a message, the content of its blobs included.
    #[track_caller]
    pub(super) fn are_not_in_message(&self, what: &str, message: &Value) {
        self.are_not_in(what, &message.to_string());
        let mut rest = vec![message];
        while let Some(value) = rest.pop() {
            if let Some(blob) = value.get("blob").and_then(Value::as_str) {
                let bytes = BASE64_STANDARD.decode(blob).unwrap();
                self.are_not_in(what, &String::from_utf8_lossy(&bytes));
            }
            match value {
                Value::Array(values) => rest.extend(values),
                Value::Object(fields) => rest.extend(fields.values()),
                _ => {}
            }
        }
    }
}

/// Ordinary lines, of which nothing may be changed.
pub(super) fn ordinary_lines(count: usize) -> Vec<String> {
    let fits = |entry: &Entry| {
        let text = &entry.template;
        // What seems to name a value makes the next line one.
        let open = [':', '=', '|', '>'].iter().any(|end| text.ends_with(*end));
        !open && !text.contains(['\n', '\t']) && text.trim() == text && text.len() < 400
    };
    let expanded = |entry: &Entry| expand(&entry.template, order(&entry.template)).text;
    chosen("ordinary.txt", count, fits)
        .iter()
        .map(expanded)
        .collect()
}

/// Names of pods that have something of a secret.
pub(super) fn nasty_names(count: usize) -> Vec<String> {
    let nasty = |name: &String| {
        let secret = [
            "token", "secret", "passw", "key", "auth", "sk-", "pypi", "gh", "xox", "gl",
        ];
        let character = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        name.len() <= 60
            && name.chars().all(character)
            && name.matches('-').count() >= 2
            && secret.iter().any(|word| name.contains(word))
    };
    let mut all: Vec<_> = names(&file("names.txt"), SEED)
        .into_iter()
        .filter(nasty)
        .collect();
    all.sort_by_key(|name| order(name));
    all.dedup();
    // A few of those that look most like a token, and others.
    let (like_tokens, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|name| name.starts_with("sk-"));
    let like_tokens = like_tokens.into_iter().take(count / 3);
    like_tokens.chain(others).take(count).collect()
}

/// As many entries of a file as wanted, in an order that has nothing to do with the file's.
fn chosen(name: &str, count: usize, fits: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let mut all: Vec<_> = entries(&file(name)).into_iter().filter(fits).collect();
    all.sort_by_key(|entry| order(&entry.template));
    all.truncate(count);
    assert_eq!(all.len(), count, "the corpus is smaller");
    all
}

/// FNV-1a.
fn order(text: &str) -> u64 {
    text.bytes()
        .fold(SEED ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
