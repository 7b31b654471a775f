//! Text inside of text: strings of JSON, encoded addresses, entities of XML, base64.
//!
//! A line that has such text is decoded, and the same rules look at the result. What they
//! find there is mapped back, so that every rule works at every depth.

use std::ops::Range;

use super::work::examined;

/// A shorter run of characters is not decoded.
const RUN_MIN: usize = 20;

type Escapes = Vec<(usize, usize)>;

/// A decoded text, and where each of its bytes comes from.
#[derive(Debug)]
pub(super) struct View {
    pub(super) text: String,
    /// The escapes: the offset after each, in this text and in the one that was decoded.
    /// Between two of them the texts are the same.
    escapes: Escapes,
}

// === impl View ===

impl View {
    /// Decodes escapes of JSON (`\"`, `\n`, `\u0026`), of addresses (`%3D`) and of XML
    /// (`&quot;`) by one level; `None` if there are none.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut view: Option<(Vec<u8>, Escapes)> = None;
        let mut copied = 0;
        for at in memchr::memchr3_iter(b'\\', b'%', b'&', bytes) {
            // A backslash may be a part of the escape before it.
            if at < copied {
                continue;
            }
            let Some((one, length)) = escape(&bytes[at..]) else {
                continue;
            };
            let (decoded, escapes) =
                view.get_or_insert_with(|| (Vec::with_capacity(bytes.len()), Vec::new()));
            decoded.extend_from_slice(&bytes[copied..at]);
            let mut utf8 = [0; 4];
            decoded.extend_from_slice(one.encode_utf8(&mut utf8).as_bytes());
            copied = at + length;
            escapes.push((decoded.len(), copied));
        }
        let (mut decoded, escapes) = view?;
        examined(bytes.len());
        decoded.extend_from_slice(&bytes[copied..]);
        // Escapes stand for whole characters, so what was text before still is.
        let text = String::from_utf8(decoded).ok()?;
        Some(Self { text, escapes })
    }

    /// Where a range of the decoded text comes from.
    pub(super) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        // The escape before the first byte is not a part of the range, and one before its end
        // is.
        self.at(range.start)..self.at(range.end)
    }

    /// Where the string of JSON ends that a line is the last of; the line begins at `from`.
    pub(super) fn string_end(&self, raw: &str, from: usize, line: &str) -> Option<usize> {
        let bytes = line.as_bytes();
        memchr::memchr_iter(b'"', bytes).find(|at| {
            let structure = matches!(bytes.get(at + 1), None | Some(b',' | b'}' | b']' | b':'));
            structure && raw.as_bytes().get(self.at(from + at)) == Some(&b'"')
        })
    }

    /// Where the last string of JSON begins that begins in a line.
    pub(super) fn string_begin(&self, raw: &str, from: usize, line: &str) -> Option<usize> {
        let bytes = line.as_bytes();
        let quote = memchr::memrchr_iter(b'"', bytes).find(|at| {
            let opens = *at == 0 || matches!(bytes[at - 1], b':' | b'[' | b',' | b' ');
            opens && raw.as_bytes().get(self.at(from + at)) == Some(&b'"')
        });
        quote.map(|quote| quote + 1)
    }

    fn at(&self, offset: usize) -> usize {
        let after = self
            .escapes
            .partition_point(|(decoded, _)| *decoded <= offset);
        let (decoded, origin) = after.checked_sub(1).map_or((0, 0), |nth| self.escapes[nth]);
        origin + (offset - decoded)
    }
}

/// The character that an escape stands for, and the length of the escape.
fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let hex = |digits: Option<&[u8]>| {
        let value = digits?.iter().try_fold(0_u32, |value, digit| {
            Some(value * 16 + char::from(*digit).to_digit(16)?)
        })?;
        // Letters of other languages stand in names; a byte is no letter.
        char::from_u32(value).filter(|one| {
            matches!(one, ' '..='~' | '\n' | '\t' | '\r') || value > 0xff && one.is_alphabetic()
        })
    };
    match bytes {
        [b'\\', b'n' | b'r', ..] => Some(('\n', 2)),
        [b'\\', b't', ..] => Some(('\t', 2)),
        [b'\\', one @ (b'"' | b'\\' | b'/' | b'\''), ..] => Some((char::from(*one), 2)),
        [b'\\', b'u', ..] => Some((hex(bytes.get(2..6))?, 6)),
        [b'\\', b'x', ..] => Some((hex(bytes.get(2..4))?, 4)),
        [b'%', ..] => Some((hex(bytes.get(1..3))?, 3)),
        [b'&', rest @ ..] => {
            let entities: [(&[u8], u8); 9] = [
                (b"quot;", b'"'),
                (b"#34;", b'"'),
                (b"#39;", b'\''),
                (b"#x27;", b'\''),
                (b"#x22;", b'"'),
                (b"apos;", b'\''),
                (b"amp;", b'&'),
                (b"lt;", b'<'),
                (b"gt;", b'>'),
            ];
            let found = entities.iter().find(|(name, _)| rest.starts_with(name))?;
            Some((char::from(found.1), found.0.len() + 1))
        }
        _ => None,
    }
}

/// Calls `found` with every long run of the characters of base64.
pub(super) fn runs(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let inside = |byte: &u8| BASE64[usize::from(*byte)] != NONE;
    // A long run has one of its characters at every so many bytes, and there is no need to
    // look at those between.
    let mut at = RUN_MIN - 1;
    let mut from = 0;
    while at < bytes.len() {
        if !inside(&bytes[at]) {
            from = at + 1;
            at += RUN_MIN;
            continue;
        }
        let before = bytes[from..at]
            .iter()
            .rev()
            .take_while(|byte| inside(byte))
            .count();
        let after = bytes[at..].iter().take_while(|byte| inside(byte)).count();
        examined(before + after);
        let end = at + after;
        let end = end
            + bytes[end..]
                .iter()
                .take(2)
                .take_while(|byte| **byte == b'=')
                .count();
        if before + after >= RUN_MIN {
            found(at - before..end);
        }
        from = end;
        at = end + RUN_MIN;
    }
}

/// What a run decodes to.
#[derive(Debug)]
pub(super) enum Content {
    PrivateKey,
    Text(String),
}

/// Decodes a run of base64 if that gives a text or a private key.
pub(super) fn content(run: &str) -> Option<Content> {
    let run = run
        .trim_matches('=')
        .trim_start_matches(['/', '-', '_', '+']);
    let bytes = run.as_bytes();
    let head = decode_base64(&bytes[..bytes.len().min(24)]);
    if head.starts_with(b"openssh-key-v1") || is_private_der(&head) && bytes.len() >= 80 {
        return Some(Content::PrivateKey);
    }
    let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t' | 0x80..);
    if head.len() < 12
        || !head[..12]
            .iter()
            .all(|byte| printable(byte) && byte.is_ascii())
    {
        return None;
    }
    examined(bytes.len());
    let decoded = decode_base64(bytes);
    let strange = decoded.iter().filter(|byte| !printable(byte)).count();
    // What was cut off may end with half a character.
    (strange * 20 <= decoded.len())
        .then(|| Content::Text(String::from_utf8_lossy(&decoded).into_owned()))
}

/// What a line decodes to that is base64 and nothing else.
pub(super) fn whole_text(line: &str) -> Option<String> {
    let body = line.trim_end_matches('=');
    let inside = |byte: u8| BASE64[usize::from(byte)] != NONE;
    if line.len() - body.len() > 2 || !body.bytes().all(inside) {
        return None;
    }
    examined(line.len());
    let decoded = decode_base64(body.as_bytes());
    let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
    let text = !decoded.is_empty() && decoded.iter().all(printable);
    text.then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// Whether DER begins a private key: a sequence whose first element is the version 0 or 1.
/// A certificate or a public key begins with another sequence or a large number.
fn is_private_der(head: &[u8]) -> bool {
    let inner = match head {
        [0x30, 0x82, _, _, inner @ ..] | [0x30, 0x81, _, inner @ ..] => inner,
        [0x30, length, inner @ ..] if *length < 0x80 => inner,
        _ => return false,
    };
    matches!(inner, [0x02, 0x01, 0x00 | 0x01, ..])
}

const NONE: u8 = 0xff;

/// The value of each character, in both alphabets.
const BASE64: [u8; 256] = {
    let mut table = [NONE; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut nth = 0;
    while nth < 64 {
        table[alphabet[nth as usize] as usize] = nth;
        nth += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};

/// Decodes up to the first character that is not base64.
pub(super) fn decode_base64(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let value = BASE64[usize::from(*byte)];
        if value == NONE {
            break;
        }
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count).to_le_bytes()[0]);
        }
    }
    decoded
}
