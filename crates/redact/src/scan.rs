//! The search in one line. One pass finds where a secret may begin; the rule for what was
//! found there reads on. Each rule reads what it then replaces, a bounded piece of text, or
//! a stretch that is remembered as read, so that no line makes the search slow.

mod ends;
mod search;
mod triggers;

use std::ops::Range;

use self::{
    ends::EndMarkers,
    triggers::{SEARCH, TRIGGERS, Trigger},
};
use super::{
    calls::{self, CALLS},
    commands,
    encoded::{self, Content, View},
    finds::{self, Finds, MARK},
    keys::{self, Block},
    manifest,
    names::Name,
    pairs, paths, sql,
    state::{Next, Pending, State},
    tokens::{self, Runs, SHAPES},
    urls::{self, Urls},
    values,
    work::examined,
};

/// How deep text inside of text is looked at.
pub(super) const DEPTH_MAX: u8 = 3;

/// Lines that a JWT may be cut into.
const JWT_LINES_MAX: u8 = 40;

/// The search in one line, and what it remembers on its way.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    finds: &'a mut Finds,
    /// What the next lines have to know.
    pub(super) next: Next,
    /// Names before this offset were read.
    pub(super) names_until: usize,
    /// Secrets before this offset were found.
    pub(super) done_until: usize,
    /// Maps under a name before this offset were read.
    pub(super) maps_until: usize,
    /// A mark ends here.
    marks_until: usize,
    /// Where the line ends without spaces.
    pub(super) end: usize,
    jwts_until: usize,
    urls: Urls,
    runs: Runs,
    ends: EndMarkers,
    has_command: bool,
    has_jwt: bool,
    lines: commands::Lines,
    has_token: bool,
    has_aws_id: bool,
    has_web_key: bool,
    is_public: bool,
}

/// What earlier lines say about a line.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineContext {
    /// An id of an AWS key is near.
    pub(super) aws: bool,
    /// An earlier line spoke of a token.
    pub(super) token: bool,
    /// What an earlier line of a command says.
    pub(super) lines: commands::Lines,
    /// A JSON Web Key has begun.
    pub(super) web_key: bool,
    /// It is a line of a certificate or another public block.
    pub(super) public: bool,
    /// An earlier line has the name of a value.
    pub(super) pending: Option<(Name, u8)>,
}

/// Finds the secrets of a line, and what the lines after it have to know.
pub(super) fn line(text: &str, finds: &mut Finds, context: &LineContext, depth: u8) -> Next {
    let mut scan = Scan {
        text,
        finds,
        next: Next::default(),
        names_until: 0,
        done_until: 0,
        maps_until: 0,
        marks_until: 0,
        end: text.trim_end().len(),
        jwts_until: 0,
        urls: Urls::default(),
        runs: Runs::default(),
        ends: EndMarkers::default(),
        has_command: false,
        has_jwt: false,
        lines: context.lines,
        has_token: context.token,
        has_aws_id: context.aws,
        has_web_key: context.web_key,
        is_public: context.public,
    };
    examined(text.len());
    if let Some((name, lines)) = context.pending
        && !pairs::value_line(&mut scan, name)
        && lines > 1
    {
        let lines = lines - 1;
        scan.next.pending = Some(Pending::Value { name, lines });
    }
    let mut quiet = true;
    SEARCH.each(text, |hit| {
        quiet = false;
        scan.trigger(TRIGGERS[hit.nth], hit.start, hit.end);
    });
    scan.whole_line();
    // Where nothing was found, text inside of text hides nothing either.
    quiet &= !scan.base64(depth) && !has_letters(text);
    let mut next = std::mem::take(&mut scan.next);
    let is_public = scan.is_public;
    if depth < DEPTH_MAX
        && !is_public
        && !quiet
        && let Some(view) = View::of(text)
    {
        inner(&view, text, finds, depth, &mut next);
    }
    next
}

/// Looks at decoded text, which may have several lines.
fn inner(view: &View, raw: &str, finds: &mut Finds, depth: u8, next: &mut Next) {
    let mut state = State::default();
    let mut found = Finds::default();
    let mut from = 0;
    let mut block = None;
    for line in view.text.split('\n') {
        // A line of a string begins and ends with the string.
        let end = view.string_end(raw, from, line).filter(|_| from > 0);
        let end = end.unwrap_or(if from > 0 { line.len() } else { 0 });
        let last = from + line.len() == view.text.len();
        let begin = view
            .string_begin(raw, from, line)
            .filter(|begin| !last && *begin > end);
        let begin = begin.unwrap_or(end);
        let pieces = [0..end, end..begin, begin..line.len()];
        for (nth, piece) in pieces.into_iter().enumerate() {
            if nth > 0 && piece.is_empty() {
                continue;
            }
            if nth > 0 {
                block = block.or(state.private_block());
                state = State::default();
            }
            state.line(&line[piece.clone()], &mut found, depth + 1);
            for find in found.iter() {
                let range = find.range.start..find.range.end;
                let at = from + piece.start;
                finds.add(view.origin(&(at + range.start..at + range.end)), find.kind);
            }
            found.clear();
        }
        from += line.len() + 1;
    }
    // A key that a string of JSON cuts off goes on in the next record.
    if next.block.is_none() && view.text.contains("PRIVATE KEY") {
        next.block = block.or(state.private_block());
    }
}

// === impl Scan ===

impl Scan<'_> {
    /// Notes a secret; what was read up to its end is not read again.
    pub(super) fn find(&mut self, range: Range<usize>, kind: &'static str) {
        self.done_until = self.done_until.max(range.end);
        self.finds.add(range, kind);
    }

    /// Notes a secret that stands before what was read.
    pub(super) fn find_before(&mut self, range: Range<usize>, kind: &'static str) {
        self.finds.add(range, kind);
    }

    fn trigger(&mut self, trigger: Trigger, start: usize, end: usize) {
        let text = self.text;
        if start < self.marks_until {
            return;
        }
        self.has_jwt |= matches!(trigger, Trigger::Jwt);
        // What is found inside a secret belongs to it.
        if start < self.done_until && !matches!(trigger, Trigger::Begin | Trigger::End) {
            return;
        }
        match trigger {
            Trigger::Mark => {
                if let Some(length) = finds::mark_length(&text[start..]) {
                    self.marks_until = start + length;
                }
            }
            Trigger::Nothing => {}
            Trigger::Name => {
                let token = text.as_bytes()[start..end].eq_ignore_ascii_case(b"token");
                self.has_token |= token;
                self.next.token |= token;
                pairs::at(self, start);
            }
            Trigger::Parameter => pairs::at(self, start + 1),
            Trigger::Foreign(nth) => pairs::foreign::at(self, start, end, nth),
            Trigger::Node => self.found(tokens::node(text, start), "token"),
            Trigger::Call(nth) => self.found(calls::password(text, end, CALLS[nth].1), "password"),
            Trigger::Shape(nth) => {
                let shape = &SHAPES[nth];
                if let Some(range) = tokens::shaped(text, start, shape, &mut self.runs) {
                    self.has_aws_id |= shape.kind == "aws key";
                    self.next.aws |= shape.kind == "aws key";
                    // A prefix that is a word stays.
                    let from = if shape.prefix.contains('/') && shape.kind == "webhook" {
                        range.start + shape.prefix.len()
                    } else {
                        range.start
                    };
                    self.find(from..range.end, shape.kind);
                }
            }
            Trigger::Url => {
                let secret = self.urls.secret(text, end);
                self.found(secret, "password");
            }
            Trigger::At => {
                let secret = urls::before_at(text, self.done_until, start);
                self.found(secret, "password");
            }
            Trigger::Slash => self.found(urls::after_slash(text, end), "password"),
            Trigger::Connect => self.found(sql::connect(text, start, end), "password"),
            Trigger::Begin => self.begin(start),
            Trigger::End => self.end(start),
            Trigger::Jwt => self.jwt(start),
            Trigger::Scheme => self.scheme(start, end),
            Trigger::Hash => self.found(tokens::hash(text, start), "password"),
            Trigger::Telegram => self.found(tokens::telegram(text, start), "token"),
            Trigger::TelegramAddress => self.found(tokens::telegram_address(text, end), "token"),
            Trigger::Terraform => self.found(tokens::terraform(text, start), "token"),
            Trigger::Azure => self.found(tokens::azure(text, start), "azure key"),
            Trigger::NewRelic => self.found(tokens::new_relic(text, start), "token"),
            Trigger::Mailchimp => self.found(tokens::mailchimp(text, start), "token"),
            Trigger::Adyen => self.found(tokens::adyen(text, start), "token"),
            Trigger::Esp => self.found(tokens::esp_key(text, end), "secret"),
            Trigger::RandomPassword => self.found(tokens::random_password(text, end), "password"),
            Trigger::Number => self.found(tokens::xml_number(text, end), "private key"),
            Trigger::Command => self.has_command = true,
            Trigger::Identified => self.found(sql::identified(text, end), "password"),
            Trigger::Path(nth) => self.found(paths::secret(text, start, end, nth), "webhook"),
            Trigger::Query => self.found(urls::query_password(text, start, end), "password"),
            Trigger::Plain => self.found(tokens::plain(text, end), "password"),
            Trigger::Insert => {
                let finds = &mut *self.finds;
                let read = sql::inserted(text, end, |range| finds.add(range, "password"));
                self.done_until = self.done_until.max(read);
            }
            Trigger::DatabaseKey => self.found(sql::key(text, end), "password"),
            Trigger::Quoted => self.found(commands::quoted(text, end), "password"),
            Trigger::Logon => self.found(sql::logon(text, end), "password"),
            Trigger::Shows => self.next.pending = Some(pairs::shown_next()),
            Trigger::AsksAtEnd if end < self.end => {}
            Trigger::Asks | Trigger::AsksAtEnd => {
                self.next.pending = Some(Pending::Answer { lines: 3 });
            }
            Trigger::QueryKey => self.found(urls::query_key(text, end), "secret"),
            Trigger::Section => {
                if let Some(pending) = pairs::section(text, self.end, start) {
                    self.next.pending = Some(pending);
                }
            }
            Trigger::WebKey => {
                self.has_web_key = true;
                self.next.web_key = true;
            }
            Trigger::Putty => {
                // Nothing else is in such a line.
                let digits = &text[end..self.end.max(end)];
                let digits = digits.get(..digits.len().min(8)).unwrap_or_default();
                if let Some(lines) = digits
                    .trim()
                    .parse()
                    .ok()
                    .filter(|lines| (1..=200).contains(lines))
                {
                    self.next.block = Some(Block::Counted { lines });
                }
            }
            Trigger::Mac => {
                let gap = text[end..]
                    .bytes()
                    .take_while(|byte| *byte == b' ')
                    .count()
                    .min(4);
                let length = tokens::Alphabet::Hex.run(&text.as_bytes()[end + gap..]);
                self.find(end + gap..end + gap + length, "private key");
            }
            Trigger::PassFile => self.found(urls::password_file(text, start), "password"),
            Trigger::Object => self.next.object = true,
        }
    }

    fn found(&mut self, secret: Option<Range<usize>>, kind: &'static str) {
        if let Some(range) = secret {
            self.find(range, kind);
        }
    }

    /// A block that begins in this line.
    fn begin(&mut self, start: usize) {
        let Some(marker) = keys::marker(self.text, start) else {
            return;
        };
        let end = self.ends.after(self.text, marker.range.end);
        if !marker.private {
            self.is_public = true;
            if end.is_none() {
                self.next.block = Some(Block::Public);
            }
            return;
        }
        match end {
            Some(end) => {
                let close = keys::marker(self.text, end).map_or(end + 8, |marker| marker.range.end);
                self.find(
                    marker.range.start..close.min(self.text.len()),
                    "private key",
                );
            }
            None => {
                let end = keys::material_end(self.text, marker.range.end);
                self.find(marker.range.start..end, "private key");
                self.next.block = Some(Block::Private { strangers: 0 });
            }
        }
    }

    /// A block that ends in this line and began in none that is known.
    fn end(&mut self, start: usize) {
        let Some(marker) = keys::marker(self.text, start) else {
            return;
        };
        if start < self.done_until || !marker.private {
            return;
        }
        let from = keys::material_start(self.text, self.done_until, start);
        self.next.block = None;
        self.find(from..marker.range.end, "private key");
    }

    fn jwt(&mut self, start: usize) {
        let text = self.text;
        if start < self.jwts_until || !text[start..].starts_with("eyJ") {
            return;
        }
        let before = start.checked_sub(1).map(|at| text.as_bytes()[at]);
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return;
        }
        let (end, read) = tokens::jwt(text, start);
        self.jwts_until = read;
        self.found(end.map(|end| start..end), "jwt");
    }

    /// A token after `Bearer ` or `Basic `.
    fn scheme(&mut self, start: usize, end: usize) {
        let text = self.text;
        if start > 0 && text.as_bytes()[start - 1].is_ascii_alphanumeric() {
            return;
        }
        let gap = text[end..]
            .bytes()
            .take(4)
            .take_while(|byte| *byte == b' ')
            .count();
        let at = end + gap;
        let inside = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'-' | b'=' | b':')
        };
        let length = text[at..].bytes().take_while(|byte| inside(byte)).count();
        examined(length);
        let token = text[at..at + length].trim_end_matches(['.', ':']);
        self.jwts_until = self.jwts_until.max(at);
        if token.len() < 8 {
            return;
        }
        let seen = &token[..token.len().min(values::SEEN_MAX)];
        let digit = seen.bytes().any(|byte| byte.is_ascii_digit());
        let capital = seen.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
            && seen.bytes().any(|byte| byte.is_ascii_lowercase());
        let opaque = digit || token.ends_with('=') || capital || token.len() >= 32;
        if opaque
            && !values::is_location(seen)
            && !values::is_measure(seen)
            && !values::is_pair(seen)
            && !values::is_kubernetes_name(seen)
        {
            self.find(at..at + token.len(), "token");
        }
    }

    /// What needs the whole line, once.
    fn whole_line(&mut self) {
        let text = self.text;
        let finds = &mut *self.finds;
        let lines = self.lines;
        if self.has_command || lines.input || lines.user {
            let add = |range| finds.add(range, "password");
            self.next.lines = commands::arguments(text, lines, add);
        }
        if self.has_jwt && tokens::is_cut_jwt(&text[..self.end]) {
            self.next.pending = Some(Pending::Jwt {
                lines: JWT_LINES_MAX,
            });
        }
        if self.has_token {
            tokens::bootstrap_tokens(text, |range| finds.add(range, "token"));
        }
        if self.has_aws_id {
            tokens::aws_secrets(text, |range| finds.add(range, "aws key"));
        }
        if self.has_web_key {
            commands::web_key(text, |range| finds.add(range, "private key"));
        }
        if self.next.secret_kind {
            manifest::in_line(text, finds);
        }
    }

    /// Text and keys in base64.
    fn base64(&mut self, depth: u8) -> bool {
        if self.is_public || depth >= DEPTH_MAX {
            return false;
        }
        let text = self.text;
        let finds = &mut *self.finds;
        let mut any = false;
        encoded::runs(text, |range| {
            // Shorter ones are paths and names more often than a part of wrapped text.
            any |= range.len() >= 40;
            if let Some(range) = tokens::discord(text, &range) {
                finds.add(range, "token");
                return;
            }
            let kind = match encoded::content(&text[range.clone()]) {
                Some(Content::PrivateKey) => "private key",
                Some(Content::Text(inner)) if has_secret(&inner, depth + 1) => "secret",
                _ => return,
            };
            finds.add(range, kind);
        });
        any
    }
}

/// Whether a text has letters as escapes: `\u0070assword`.
fn has_letters(text: &str) -> bool {
    let bytes = text.as_bytes();
    let escape = |at: usize| {
        matches!(
            &bytes[at..],
            [b'\\', b'u', b'0', b'0', b'4'..=b'7', ..]
                // Letters of other languages.
                | [b'\\', b'u', b'0', b'1'..=b'9', ..]
                | [b'\\', b'u', b'3'..=b'9' | b'a'..=b'c' | b'A'..=b'C', ..]
                | [b'\\', b'x', b'4'..=b'7', ..]
                | [b'%', b'4'..=b'7', ..]
        )
    };
    memchr::memchr2_iter(b'\\', b'%', bytes).any(escape)
}

/// Whether a decoded text has a secret.
pub(super) fn has_secret(text: &str, depth: u8) -> bool {
    let mut state = State::default();
    let mut found = Finds::default();
    let found = text.split('\n').any(|line| {
        state.line(line, &mut found, depth);
        !found.is_empty()
    });
    found || text.contains(MARK)
}
