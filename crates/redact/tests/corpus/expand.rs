//! Entries of the corpus, and the values that fill their holes. `{{kind:argument}}` is a
//! secret, `[[kind:argument]]` varies but is none: see README.md beside this file.

/// One entry of a file of the corpus.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Why it is in the corpus: `cause | software | notes`.
    pub(crate) about: String,
    /// The text with its holes.
    pub(crate) template: String,
}

/// A text with its holes filled.
#[derive(Debug)]
pub(crate) struct Expanded {
    /// The text as software would print it.
    pub(crate) text: String,
    /// What must not be seen: the value of each hole, encoded and decoded.
    secrets: Vec<String>,
    /// The same text with other secrets: what both have is no secret.
    control: String,
}

/// A shorter value is no secret worth the name.
const SHORTEST: usize = 6;

/// The entries of a file: blocks between lines of three dashes, each under a line that begins
/// with `# `. Under `# lines` each line is an entry.
pub(crate) fn entries(file: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for block in file.trim_end_matches('\n').split("\n---\n") {
        let (header, body) = block.split_once('\n').unwrap_or((block, ""));
        let about = header.trim_start_matches("# ").trim_end_matches(" |");
        let entry = |template: &str| Entry {
            about: about.to_owned(),
            template: template.to_owned(),
        };
        if about.starts_with("lines |") {
            entries.extend(body.lines().map(entry));
        } else {
            entries.push(entry(body));
        }
    }
    entries
}

/// The names of a file, one per line.
pub(crate) fn names(file: &str, seed: u64) -> Vec<String> {
    file.lines()
        .enumerate()
        .map(|(row, line)| expand(line, seed.wrapping_add(row as u64)).text)
        .collect()
}

/// Fills the holes of a template. The same seed gives the same text.
pub(crate) fn expand(template: &str, seed: u64) -> Expanded {
    let mut filler = Filler::new(seed, seed ^ 0x005e_c3e7);
    let text = filler.fill(template);
    let control = Filler::new(seed, seed ^ 0x0c07_7201).fill(template);
    Expanded {
        text,
        secrets: filler.secrets,
        control,
    }
}

// === impl Expanded ===

impl Expanded {
    /// Every piece of this length of the secrets, and those that are shorter as they are,
    /// without what is also in the text when its secrets are others. A value of a few
    /// characters is none.
    pub(crate) fn pieces(&self, length: usize) -> impl Iterator<Item = String> {
        let secrets = self
            .secrets
            .iter()
            .filter(|secret| secret.len() >= SHORTEST);
        let pieces = secrets.flat_map(move |secret| {
            let chars: Vec<char> = secret.chars().collect();
            let pieces = chars.windows(length.min(chars.len()));
            let pieces = pieces.map(|piece| piece.iter().collect());
            pieces.collect::<Vec<String>>()
        });
        pieces.filter(|piece| !self.control.contains(piece))
    }
}

/// Fills the holes of one text.
struct Filler {
    plain: Random,
    secret: Random,
    secrets: Vec<String>,
}

// === impl Filler ===

impl Filler {
    fn new(plain: u64, secret: u64) -> Self {
        Self {
            plain: Random(plain),
            secret: Random(secret),
            secrets: Vec::new(),
        }
    }

    fn fill(&mut self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '[']) {
            let (before, hole) = rest.split_at(at);
            text.push_str(before);
            rest = match self.hole(hole) {
                Some((value, after)) => {
                    text.push_str(&value);
                    after
                }
                None => {
                    text.push_str(&hole[..1]);
                    &hole[1..]
                }
            };
        }
        text + rest
    }

    /// The value of the hole at the beginning of this text, and what follows it.
    fn hole<'a>(&mut self, text: &'a str) -> Option<(String, &'a str)> {
        if let Some(inner) = text.strip_prefix("[[") {
            let (spec, after) = inner.split_once("]]")?;
            let (kind, argument) = spec.split_once(':').unwrap_or((spec, ""));
            return Some((random_value(kind, argument, &mut self.plain)?, after));
        }
        let inner = text.strip_prefix("{{")?;
        if let Some((kind, argument, wrapped, after)) = wrapper(inner) {
            let known = self.secrets.len();
            let content = self.fill(&wrapped.replace("\\n", "\n"));
            let value = encoded(kind, argument, &content)?;
            let inner = &self.secrets[known..];
            let shown = if kind == "percent" {
                inner.iter().map(|secret| percent(secret)).collect()
            } else {
                let masked = inner.iter().fold(content.clone(), |text, secret| {
                    text.replace(secret, &"\u{1}".repeat(secret.len()))
                });
                differing(&value, &encoded(kind, argument, &masked)?)
            };
            self.secrets.extend(shown);
            return Some((value, after));
        }
        let (spec, after) = inner.split_once("}}")?;
        let (kind, argument) = spec.split_once(':').unwrap_or((spec, ""));
        let value = match kind {
            "pem" => self.pem(argument),
            // What is in every one of them is no secret.
            "jwt" => {
                let (value, other) = (jwt(&mut self.secret), jwt(&mut self.secret));
                self.secrets.extend(differing(&value, &other));
                value
            }
            "pem-escaped" => self.pem(argument).replace('\n', "\\n"),
            _ => {
                let value = random_value(kind, argument, &mut self.secret)?;
                self.secrets.push(value.clone());
                value
            }
        };
        Some((value, after))
    }

    /// A private key block; after the second colon, by how much its lines are indented.
    fn pem(&mut self, argument: &str) -> String {
        let (kind, indent) = argument.split_once(':').unwrap_or((argument, "0"));
        let (label, rows) = match kind {
            "rsa" => ("RSA PRIVATE KEY", 12),
            "ec" => ("EC PRIVATE KEY", 2),
            "openssh" => ("OPENSSH PRIVATE KEY", 5),
            "encrypted" => ("ENCRYPTED PRIVATE KEY", 6),
            _ => ("PRIVATE KEY", 8),
        };
        let mut lines = vec![format!("-----BEGIN {label}-----")];
        for row in 0..rows {
            let length = if row + 1 == rows { 40 } else { 64 };
            let line = self.secret.string(BASE64, length);
            self.secrets.push(line.clone());
            lines.push(line);
        }
        lines.push(format!("-----END {label}-----"));
        let indent = " ".repeat(indent.parse().unwrap_or(0));
        lines.join(&format!("\n{indent}"))
    }
}

/// `kind:argument<<wrapped>>}}after` in its parts. Wrapped text may hold wrappers itself.
fn wrapper(text: &str) -> Option<(&str, &str, &str, &str)> {
    let open = text.find("<<")?;
    let (kind, argument) = text[..open].split_once(':').unwrap_or((&text[..open], ""));
    if !matches!(
        kind,
        "base64of" | "base64urlof" | "percent" | "wrap64" | "wrap76"
    ) {
        return None;
    }
    let (mut depth, mut at) = (0_usize, open);
    loop {
        let rest = &text[at..];
        if rest.starts_with("<<") {
            depth += 1;
            at += 2;
        } else if let Some(after) = rest.strip_prefix(">>}}") {
            depth -= 1;
            if depth == 0 {
                return Some((kind, argument, &text[open + 2..at], after));
            }
            at += 4;
        } else {
            at += rest.chars().next()?.len_utf8();
        }
    }
}

fn encoded(kind: &str, argument: &str, content: &str) -> Option<String> {
    let wrapped = |width: usize| {
        let line = base64(content, BASE64, true);
        let rows: Vec<&str> = (0..line.len())
            .step_by(width)
            .map(|at| &line[at..line.len().min(at + width)])
            .collect();
        rows.join(&format!("\n{}", " ".repeat(argument.parse().unwrap_or(0))))
    };
    match kind {
        "base64of" => Some(base64(content, BASE64, true)),
        "base64urlof" => Some(base64(content, BASE64_URL, false)),
        "wrap64" => Some(wrapped(64)),
        "wrap76" => Some(wrapped(76)),
        "percent" => Some(percent(content)),
        _ => None,
    }
}

/// The parts of a text that are others in a text of the same length; a few characters may be
/// the same by chance.
fn differing(text: &str, other: &str) -> Vec<String> {
    const CHANCE: usize = 3;
    let mut parts: Vec<String> = Vec::new();
    let mut same = CHANCE + 1;
    for (one, another) in text.chars().zip(other.chars()) {
        let open = same <= CHANCE;
        same = if one == another { same + 1 } else { 0 };
        match parts.last_mut() {
            // The next line is another value.
            _ if one == '\n' => same = CHANCE + 1,
            Some(part) if open && same <= CHANCE => part.push(one),
            _ if same == 0 => parts.push(one.to_string()),
            _ => {}
        }
    }
    parts
}

fn base64(content: &str, alphabet: &str, padded: bool) -> String {
    let alphabet = alphabet.as_bytes();
    let mut text = String::new();
    for chunk in content.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                text.push(char::from(
                    alphabet[(group >> (18 - 6 * digit) & 63) as usize],
                ));
            } else if padded {
                text.push('=');
            }
        }
    }
    text
}

fn percent(content: &str) -> String {
    content
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A value of this kind, or nothing: then the text is no hole.
fn random_value(kind: &str, argument: &str, random: &mut Random) -> Option<String> {
    let alphabet = match kind {
        "password" => return Some(password(argument, random)),
        "uuid" => {
            let mut part = |length| random.string("0123456789abcdef", length);
            return Some(format!(
                "{}-{}-4{}-a{}-{}",
                part(8),
                part(4),
                part(3),
                part(3),
                part(12)
            ));
        }
        "alnum" => ALNUM,
        "alnumlower" => &ALNUM[26..],
        "alpha" => &ALNUM[..52],
        "upper" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "hex" => "0123456789abcdef",
        "HEX" => "0123456789ABCDEF",
        "digits" => "1234567890",
        "b64" => BASE64,
        "b64url" => BASE64_URL,
        "b64crypt" => "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        "base32" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "upperbech" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "podhash" => "bcdfghjklmnpqrstvwxz2456789",
        "passphrase" => {
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!@#$%^&*()-_ []{}<>~`+=,.;:/?|"
        }
        _ => return None,
    };
    // Not trimmed at its ends by whatever prints it.
    let ends = if kind == "passphrase" {
        ALNUM
    } else {
        alphabet
    };
    let length: usize = argument.parse().ok()?;
    match length {
        0 | 1 => Some(random.string(ends, length)),
        _ => Some(
            random.string(ends, 1) + &random.string(alphabet, length - 2) + &random.string(ends, 1),
        ),
    }
}

fn jwt(random: &mut Random) -> String {
    let kid = random.string(ALNUM, 22);
    let subject = random.string(ALNUM, 20);
    let part = |json: String| base64(&json, BASE64_URL, false);
    let header = part(format!(r#"{{"alg":"ES256","kid":"{kid}","typ":"JWT"}}"#));
    let payload = part(format!(
        r#"{{"iss":"https://sso.example.com","sub":"{subject}","aud":["shop"],"exp":1999999999}}"#
    ));
    format!("{header}.{payload}.{}", random.string(BASE64_URL, 86))
}

/// How people make passwords: `%w` and `%W` a word, `%l %u %d` a letter or digit, `%s` a
/// character of those that the place of the password allows.
const PASSWORDS: [&str; 40] = [
    "%W%d%d%d%d%s",
    "%w%s%d%d%d%d",
    "%w-%w-%w-%d",
    "%W%W%d%d%s",
    "%l%l%s%d%d%u%l%l%s%d",
    "%u%l%d%s%u%l%d%s%u%l%d%s",
    "%w.%w.%d%d",
    "%l%l%l%l%d%d%d%d",
    "%W_%w_%d%d%d",
    "%w%d%d%w%s",
    "%W%s%W%s%d",
    "%u%u%d%d%l%l%s%s%d%d",
    "%w%w%w",
    "%W%d%s%w%d%s",
    "%l%d%l%d%l%d%l%d%l%d",
    "%u%l%l%l%l%l%d%d%s",
    "%w%s%w%s%w%s%d",
    "%d%d%d%d%s%W%s",
    "%W-%d%d%d%d-%W",
    "%l%s%l%s%l%s%l%s%l",
    "my%W%d%d%s",
    "%w_db_%d%d%d%d",
    "Adm1n%s%d%d%d%d%d",
    "%W2026%s%l%l",
    "ch4ng3%s%w%d",
    "%w$%w$%d",
    "Pa$%l%l%l$%d%d%d",
    "%w%d%d%d$",
    "%u%u%u-%d%d%d-%u%u%u",
    "%l%l%l%l%l%l%l%l%l%l%l%l",
    "%d%d%d%d%d%d%d%d%d%d",
    "%u%l%d%u%l%d%u%l%d%u%l%d%u%l%d%u%l%d",
    "%W%s%s%s%d%d%d",
    "r00t%s%w",
    "%w+%w+%d%d",
    "%W.%s%d%d%w",
    "%l%l%l%s%l%l%l%s%l%l%l",
    "q%d%d%w%s%W",
    "S3cr3t%s%d%d%d%w",
    "%W%W%W%d",
];

const WORDS: [&str; 24] = [
    "winter", "dragon", "coffee", "rocket", "purple", "sunset", "planet", "guitar", "castle",
    "falcon", "marble", "banana", "thunder", "velvet", "walrus", "pickle", "orchid", "tundra",
    "zephyr", "quartz", "goblin", "lagoon", "nectar", "saffron",
];

fn password(place: &str, random: &mut Random) -> String {
    let symbols: &[&str] = match place {
        "url" => &["!", "*", "_", "-", ".", "~", "$"],
        "rawurl" => &["@", "#", "!", "/", "_"],
        "word" => &["!", "@", "#", "$", "^", "*", "_", "-", "+", ".", "~"],
        "json" => &["\\\"", "\\\\", "!", "$", "\\/"],
        "wild" => &[
            "!", "@", "#", "$", "%", "^", "&", "*", "(", ")", "_", "-", "+", "=", ";", ":", ",",
            ".", "?", "/", "~", "|", "<", ">", "[", "]", "{", "}",
        ],
        _ => &[
            "!", "@", "#", "$", "%", "^", "*", "_", "-", "+", "=", ".", "?", "~",
        ],
    };
    let mut value = String::new();
    let mut style = random.pick(&PASSWORDS).chars();
    while let Some(next) = style.next() {
        match (next, next == '%') {
            (_, true) => match style.next() {
                Some('w') => value.push_str(random.pick(&WORDS)),
                Some('W') => {
                    let word = random.pick(&WORDS);
                    value.push_str(&word[..1].to_uppercase());
                    value.push_str(&word[1..]);
                }
                Some('l') => value += &random.string(&ALNUM[26..52], 1),
                Some('u') => value += &random.string(&ALNUM[..26], 1),
                Some('d') => value += &random.string(&ALNUM[52..], 1),
                _ => value.push_str(random.pick(symbols)),
            },
            (plain, _) => value.push(plain),
        }
    }
    value
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len())]
    }

    fn string(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        let pick = |_| char::from(alphabet[self.below(alphabet.len())]);
        (0..length).map(pick).collect()
    }
}
