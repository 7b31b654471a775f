//! What stands between a name and its value.

use crate::work::examined;

/// The spaces around a separator, as in aligned columns.
const GAP_MAX: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sep {
    /// `=`, `:=`, `=>`, `->`
    Assign,
    Colon,
    /// `, ` between the parts of a tuple or of a command.
    Comma,
    /// `>` of a tag.
    Tag,
    /// `|` of a table.
    Pipe,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Separator {
    pub(super) sep: Sep,
    /// Where the value begins.
    pub(super) at: usize,
    /// A space or tab stands before the value.
    pub(super) spaced: bool,
    /// The number of quotes and brackets that close the name.
    pub(super) closers: usize,
    /// Where they begin: the end of the name, which may be longer than the word that was found.
    pub(super) closers_at: usize,
}

/// The separator after a name that ends at `end`.
pub(super) fn after(text: &str, end: usize) -> Option<Separator> {
    let bytes = text.as_bytes();
    let closes = |byte: &&u8| matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b']' | b')' | b'*');
    let closers = bytes[end..].iter().take(12).take_while(closes).count();
    let closers = closers + visibility(&bytes[end + closers..]);
    let gap = gap(&bytes[end + closers..]);
    if let Some(found) = leader(bytes, end + closers + gap) {
        return Some(found);
    }
    let rest = &bytes[end + closers + gap..];
    let (sep, length) = match rest {
        [b'=', b'=', b'=', ..] | [b':', b':', b'=', ..] | [0xe2, 0x86, 0x92, ..] => {
            (Sep::Assign, 3)
        }
        [b'=', b'>' | b'=', ..] | [b':', b'=', ..] | [b'-', b'>', ..] => (Sep::Assign, 2),
        [b'?', b'=', ..] | [b'<', b'-', b' ' | b'"' | b'\'', ..] if gap > 0 => (Sep::Assign, 2),
        // `s:8:"password";s:14:"x";` of PHP
        [b';', b's', b':', more @ ..] if closers == 1 => {
            let digits = more
                .iter()
                .take(6)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if more.get(digits) != Some(&b':') {
                return None;
            }
            (Sep::Assign, 4 + digits)
        }
        // A colon of Chinese and Japanese.
        [0xef, 0xbc, 0x9a, ..] => (Sep::Colon, 3),
        // `userPassword:: aHVudGVyMg==`, as LDIF marks base64
        [b':', b':', b' ', ..] => (Sep::Colon, 2),
        [b'=', b'~' | b'?', ..] | [b':', b':', ..] | [b':', b'/', b'/', ..] | [b'|', b'|', ..] => {
            return None;
        }
        [b'=', ..] => (Sep::Assign, 1),
        [b':', ..] => (Sep::Colon, 1),
        [b',', ..] if gap == 0 => (Sep::Comma, 1),
        [b'>', ..] if gap == 0 => (Sep::Tag, 1),
        [b'|', ..] if gap > 0 => (Sep::Pipe, 1),
        [0xe2, 0x94, 0x82, ..] if gap > 0 => (Sep::Pipe, 3),
        // `<password type="plain">x</password>`
        [b'a'..=b'z' | b'A'..=b'Z', ..]
            if gap == 1 && bytes[end.saturating_sub(40)..end].contains(&b'<') =>
        {
            let close = rest.iter().take(64).position(|byte| *byte == b'>')?;
            if rest[..close].contains(&b'<')
                || rest[close - 1] == b'/'
                || !rest[..close].contains(&b'=')
            {
                return None;
            }
            (Sep::Tag, close + 1)
        }
        _ => return None,
    };
    let at = end + closers + gap + length;
    let space = self::gap(&bytes[at..]);
    examined(closers + gap + space + 3);
    Some(Separator {
        sep,
        at: at + space,
        spaced: space > 0,
        closers,
        closers_at: end,
    })
}

/// The length of what PHP says about a member of an object, with the bracket that closes its
/// name: `["password":protected]=>`, `["password":"App\\Config":private]=>`.
fn visibility(rest: &[u8]) -> usize {
    let Some(b':') = rest.first() else {
        return 0;
    };
    let close = rest.iter().take(96).position(|byte| *byte == b']');
    close
        .filter(|close| {
            let says = &rest[..*close];
            says.ends_with(b":protected") || says.ends_with(b":private")
        })
        .map_or(0, |close| close + 1)
}

/// The separator after dots that lead to a value: `password ........: x`.
fn leader(bytes: &[u8], at: usize) -> Option<Separator> {
    let dots = bytes[at..]
        .iter()
        .take(GAP_MAX)
        .take_while(|byte| **byte == b'.')
        .count();
    if dots < 3 {
        return None;
    }
    examined(dots);
    let at = at + dots;
    let at = at + gap(&bytes[at..]);
    let colon = usize::from(matches!(bytes.get(at), Some(b':' | b'=')));
    let space = gap(&bytes[at + colon..]);
    (colon + space > 0 || bytes.get(at).is_some_and(u8::is_ascii_alphanumeric)).then_some(
        Separator {
            sep: Sep::Assign,
            at: at + colon + space,
            spaced: true,
            closers: 0,
            closers_at: at,
        },
    )
}

fn gap(bytes: &[u8]) -> usize {
    let space = |byte: &&u8| matches!(byte, b' ' | b'\t');
    bytes.iter().take(GAP_MAX).take_while(space).count()
}
