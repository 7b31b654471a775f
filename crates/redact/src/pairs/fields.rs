//! A name and its value in two fields: `{Name:DB_PASSWORD Value:...}`, or on two lines.

use super::{
    Context,
    extent::quoted_end,
    separator::{self, Sep},
    value,
    verdict::hides,
};
use crate::{
    names::{self, Class, Name},
    scan::Scan,
    state::Pending,
    work::examined,
};

/// Whether the name is itself the value of `name` or `key`; then the value of `value` is the
/// secret.
pub(super) fn names_a_value(scan: &mut Scan<'_>, start: usize, end: usize, name: Name) -> bool {
    let text = scan.text;
    // A variable of PowerShell.
    if text[..start].ends_with("$env:") {
        return false;
    }
    // `"key": "shop/db/password"`
    let path = path_start(text, start);
    let words = words_start(text, start);
    let open = [start, path, words]
        .into_iter()
        .find_map(|from| value_of_name(text, from));
    let Some(open) = open else {
        return false;
    };
    let Some(rest) = text.get(end..) else {
        return false;
    };
    // `<name>Password Expiration</name>`
    let label = &rest[..rest.floor_char_boundary(48)];
    if label.starts_with(' ')
        && let Some(close) = label.find(['<', '"', '\''])
        && names::classify(&text[start..end + close]).is_none()
    {
        return true;
    }
    // `"name": "password"` and not `name: password: x`.
    let close = rest.trim_start_matches(['"', '\'', '\\', '`']);
    if close.starts_with(['=', ':']) && !close.starts_with("=\"") {
        return false;
    }
    if let Some((key, value)) = value_key(text, end, 200) {
        scan.names_until = scan.names_until.max(key);
        if is_empty_field(text, key, value) {
            return true;
        }
        value::read(scan, strict(name), value, &field());
        return true;
    }
    if changed(scan, name, end) {
        return true;
    }
    // `<entry key="password">x</entry>`
    if let Some(found) = separator::after(text, end)
        && found.sep == Sep::Tag
    {
        let context = super::context(text, start, &found);
        value::read(scan, strict(name), found.at, &context);
        return true;
    }
    // `"value": "x", "name": "password"`
    let near = &text[text.floor_char_boundary(open.saturating_sub(160))..open];
    let object = near.rfind(['{', '}', '<']).map_or(0, |at| at + 1);
    let base = open - near.len();
    if let Some((_, value)) = value_key(text, base + object, open - base - object)
        && value < open
        && value >= scan.done_until
    {
        let quote = text.as_bytes()[value];
        if matches!(quote, b'"' | b'\'') {
            let end = quoted_end(text, value + 1, quote, 0).min(open);
            if hides(strict(name), &text[value + 1..end], None) {
                scan.find_before(value + 1..end, name.kind);
            }
        }
        return true;
    }
    let near = &close[..close.floor_char_boundary(16)];
    let last =
        near.len() == close.len() && near.trim().trim_end_matches([',', '/', '>']).is_empty();
    // A field of a form has its value after an empty line.
    if last && memchr::memmem::find(text.as_bytes(), b"form-data;").is_some() {
        let class = Class::Password;
        scan.next.pending = Some(Pending::Word {
            name: Name { class, ..name },
            lines: 3,
        });
        return true;
    }
    if last || close.starts_with("</") {
        scan.next.pending = Some(Pending::Value {
            name: strict(name),
            lines: 3,
        });
    }
    true
}

/// The value of a field that a check has refused, after the path of the field:
/// `"loc":["body","password"],"input":"x"`.
pub(super) fn rejected(scan: &mut Scan<'_>, name: Name, from: usize) {
    let until = scan
        .text
        .floor_char_boundary((from + 200).min(scan.text.len()));
    let near = &scan.text[from..until];
    examined(near.len());
    let near = &near[..near.find('}').unwrap_or(near.len())];
    for key in ["input", "received", "value", "actual"] {
        let Some(at) = near.find(key) else {
            continue;
        };
        let at = from + at + key.len();
        if let Some(found) = separator::after(scan.text, at).filter(|found| found.closers > 0) {
            scan.names_until = scan.names_until.max(at);
            value::read(scan, strict(name), found.at, &field());
            return;
        }
    }
}

/// The old and the new value of a name in a record of a change:
/// `"key":"password","old":"x","new":"y"`.
fn changed(scan: &mut Scan<'_>, name: Name, from: usize) -> bool {
    let until = scan
        .text
        .floor_char_boundary((from + 200).min(scan.text.len()));
    let near = &scan.text[from..until];
    examined(near.len());
    let near = &near[..near.find(['{', '}']).unwrap_or(near.len())];
    let mut any = false;
    for key in [
        "\"old\"",
        "\"new\"",
        "\"from\"",
        "\"to\"",
        "\"before\"",
        "\"after\"",
    ] {
        let Some(at) = near.find(key) else {
            continue;
        };
        let at = from + at + key.len();
        if let Some(found) =
            separator::after(scan.text, at - 1).filter(|found| found.sep == Sep::Colon)
        {
            value::read(scan, strict(name), found.at, &field());
            any = true;
        }
    }
    any
}

/// What stands around the value of a field.
fn field() -> Context {
    Context {
        sep: Sep::Assign,
        spaced: false,
        prose: false,
        alone: false,
        before: None,
        enclosing: None,
        escapes: 0,
        tight: false,
        column: 0,
    }
}

/// Where the path begins whose last part begins at `start`.
fn path_start(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let inside =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if start == 0 || bytes[start - 1] != b'/' {
        return start;
    }
    let length = bytes[start.saturating_sub(80)..start]
        .iter()
        .rev()
        .take_while(inside)
        .count();
    examined(length);
    start - length
}

/// Where the words begin that stand before `start` in the same field:
/// `<name>Kerberos Password</name>`.
fn words_start(text: &str, start: usize) -> usize {
    let near = &text.as_bytes()[start.saturating_sub(48)..start];
    let words = near
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-' | b'_'))
        .count();
    examined(words);
    let opens = near[..near.len() - words].last();
    let from = start - words;
    match opens {
        Some(b'>' | b'"' | b'\'' | b':') if words > 0 => from,
        _ => start,
    }
}

/// Whether the next field follows at once, as Go prints an empty text:
/// `{Name:DB_PASSWORD Value: ValueFrom:...}`.
fn is_empty_field(text: &str, key: usize, value: usize) -> bool {
    let bytes = text.as_bytes();
    let next = &bytes[value..];
    let word = next
        .iter()
        .take(40)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    bytes[key].is_ascii_uppercase()
        && bytes[value - 1] == b' '
        && next.first().is_some_and(u8::is_ascii_uppercase)
        && next.get(word) == Some(&b':')
}

/// A variable whose name is a secret's has a secret in it, and not the name of an object.
pub(super) fn strict(name: Name) -> Name {
    let class = match name.class {
        Class::Object | Class::Header | Class::Cookie => Class::Secret,
        other => other,
    };
    Name { class, ..name }
}

/// Where the key begins whose value begins at `start`, if the key is `name` or the like.
fn value_of_name(text: &str, start: usize) -> Option<usize> {
    let near = &text[text.floor_char_boundary(start.saturating_sub(24))..start];
    let before = near.trim_end_matches(['"', '\'', '\\', '`', ' ', '\t', '&', '$']);
    let before = before.trim_end_matches(['=', ':', '>']);
    let key = before.trim_end_matches(['"', '\'', '\\', '`', ' ', '\t', ']']);
    let word = key.len()
        - key
            .trim_end_matches(|one: char| one.is_ascii_alphanumeric() || one == '_')
            .len();
    let written = &key[key.len() - word..];
    let lower = written.to_ascii_lowercase();
    let separated = near
        .trim_end_matches(['"', '\'', '\\', '`', ' ', '\t'])
        .ends_with(['=', ':', '>']);
    // `option_name`, `meta_key`
    let last = lower.rsplit('_').next().unwrap_or_default();
    let names = matches!(last, "name" | "key") && lower.len() <= 16
        || matches!(
            lower.as_str(),
            "name"
                | "key"
                | "variable"
                | "var"
                | "param"
                | "parameter"
                | "parametername"
                | "parameterkey"
                | "field"
                | "property"
                | "setting"
                | "option"
                | "header"
                | "env"
                | "envname"
                | "n"
                | "k"
                | "id"
                | "path"
                | "file"
                | "filename"
        );
    (separated && names).then(|| start - near.len() + key.len() - word)
}

/// The key `value` within the next characters, or one that says the same, and where its
/// value begins.
pub(super) fn value_key(text: &str, from: usize, length: usize) -> Option<(usize, usize)> {
    key_of(text, from, length, *b"vV").or_else(|| key_of(text, from, length, *b"cC"))
}

/// The key with one of these letters at its beginning, or within it: `paramValue`.
fn key_of(text: &str, from: usize, length: usize, letters: [u8; 2]) -> Option<(usize, usize)> {
    let until = text.floor_char_boundary((from + length).min(text.len()));
    let near = text.get(from..until)?;
    examined(near.len());
    let bytes = near.as_bytes();
    // Another object has another value.
    let object = near.find(['}', '{']).unwrap_or(near.len());
    // The lines of a string are looked at one by one.
    let object = near[..object].find("\\n").unwrap_or(object);
    let mut at = 0;
    while let Some(found) = memchr::memchr2(letters[0], letters[1], &bytes[at..object]) {
        let key = at + found;
        at = key + 1;
        // Value, paramValue, but not evaluation.
        let alone = key == 0
            || !bytes[key - 1].is_ascii_alphanumeric()
            || bytes[key] == letters[1] && bytes[key - 1].is_ascii_lowercase();
        // parameterValue, stringValue, ValueString
        let word = bytes[key..]
            .iter()
            .take(24)
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        let lower = near[key..key + word].to_ascii_lowercase();
        let says = match lower.as_str() {
            "valuefrom" | "values" => return None,
            "val" | "v" | "content" | "contents" => true,
            other => other.starts_with("value"),
        };
        if !alone || !says {
            continue;
        }
        let Some(separator) = separator::after(text, from + key + word) else {
            continue;
        };
        if matches!(separator.sep, Sep::Assign | Sep::Colon | Sep::Tag) && separator.at < text.len()
        {
            return Some((from + key, separator.at));
        }
    }
    None
}

/// The value of the key `value` in a line that follows one with its name.
pub(crate) fn value_line(scan: &mut Scan<'_>, name: Name) -> bool {
    let default = || {
        let start = scan.text.len() - scan.text.trim_start().len();
        let end = start + "default".len();
        let key = scan.text.get(start..end).filter(|key| *key == "default");
        key.and_then(|_| separator::after(scan.text, end))
            .map(|found| (start, found.at))
    };
    // `<key>Password</key>`, and then `<string>x</string>`
    let element = || {
        let start = scan.text.len() - scan.text.trim_start().len();
        let length = ["<string>", "<data>"]
            .iter()
            .find_map(|tag| scan.text[start..].starts_with(tag).then_some(tag.len()))?;
        Some((start, start + length))
    };
    let found = value_key(scan.text, 0, 200)
        .or_else(default)
        .or_else(element);
    let Some((_, value)) = found else {
        // Another item has another value.
        return scan.text.trim_start().starts_with("- ");
    };
    if value >= scan.text.len() {
        return false;
    }
    let context = Context {
        sep: Sep::Colon,
        spaced: true,
        prose: false,
        alone: true,
        before: None,
        enclosing: None,
        escapes: 0,
        tight: false,
        column: 0,
    };
    value::read(scan, name, value, &context);
    true
}
