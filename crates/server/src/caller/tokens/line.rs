//! A line of a file of tokens: `name:token`, and the Kubernetes user of the token.
//!
//! ```text
//! ann:0123456789abcdef user=ann@example.com groups=dev,ops
//! bob:0123456789abcdef user="Bob Ray" groups="Team A","Ops, EU"
//! ```
//!
//! A name with blanks, commas or quotes stands in double quotes, in which `\` takes the next
//! character as it is. What comes after the token is read as `key=value` if its first word has
//! a `=` after letters; else it is a part of the token, which may have blanks.

use std::sync::Arc;

use kubecrier_core::KubernetesUser;

use super::{TOKEN_BYTES_MIN, digest};
use crate::caller::kubernetes::{MappingError, mapped_user};

/// A line of the file.
#[derive(Debug)]
pub(super) struct TokenLine<'a> {
    pub(super) name: &'a str,
    pub(super) digest: [u8; 32],
    pub(super) user: Option<Arc<KubernetesUser>>,
}

/// What is wrong with a line. Never has anything of it, which may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("is not of the form `name:token`")]
    Form,
    #[error("has no name")]
    NoName,
    #[error("has a token of fewer than {TOKEN_BYTES_MIN} characters")]
    ShortToken,
    #[error("has a name that was there before")]
    Repeated,
    #[error("has after its token something that is neither `user=` nor `groups=`")]
    UnknownKey,
    #[error("has `user=` or `groups=` twice; groups are separated by commas")]
    RepeatedKey,
    #[error("has a quote in the wrong place, or one that does not end")]
    Quote,
    #[error("has groups and no `user=`")]
    GroupsOnly,
    #[error(transparent)]
    User(#[from] MappingError),
}

// === impl TokenLine ===

impl<'a> TokenLine<'a> {
    pub(super) fn parse(line: &'a str) -> Result<Self, LineError> {
        let (name, rest) = line.split_once(':').ok_or(LineError::Form)?;
        let (name, rest) = (name.trim(), rest.trim());
        if name.is_empty() {
            return Err(LineError::NoName);
        }
        let (token, attributes) = split_attributes(rest);
        if token.len() < TOKEN_BYTES_MIN {
            return Err(LineError::ShortToken);
        }
        Ok(Self {
            name,
            digest: digest(token),
            user: user(attributes)?,
        })
    }
}

/// The token, and what comes after it.
fn split_attributes(rest: &str) -> (&str, &str) {
    let Some((token, after)) = rest.split_once(char::is_whitespace) else {
        return (rest, "");
    };
    let after = after.trim_start();
    let word = after.split(char::is_whitespace).next().unwrap_or_default();
    let is_key = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    match word.split_once('=') {
        Some((key, _value)) if is_key(key) => (token, after),
        _ => (rest, ""),
    }
}

/// The user that the text after a token names.
fn user(attributes: &str) -> Result<Option<Arc<KubernetesUser>>, LineError> {
    let (mut name, mut groups) = (None, None);
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or(LineError::UnknownKey)?;
        let (values, after) = values(after)?;
        let slot = match key {
            "user" => &mut name,
            "groups" => &mut groups,
            _ => return Err(LineError::UnknownKey),
        };
        if slot.replace(values).is_some() {
            return Err(LineError::RepeatedKey);
        }
        rest = after.trim_start();
    }
    let groups = groups.unwrap_or_default();
    match name.as_deref() {
        None if groups.is_empty() => Ok(None),
        None => Err(LineError::GroupsOnly),
        // A comma in the name of a user needs quotes too: nobody is called half of it.
        Some([name]) => Ok(Some(mapped_user(name, groups.iter().map(String::as_str))?)),
        Some(_) => Err(LineError::Quote),
    }
}

/// The values before the next blank, separated by commas, and the text after them.
fn values(text: &str) -> Result<(Vec<String>, &str), LineError> {
    let mut values = vec![String::new()];
    let mut chars = text.char_indices();
    // Whether a quote may begin, and whether one has ended.
    let (mut is_start, mut is_closed) = (true, false);
    while let Some((at, one)) = chars.next() {
        let value = values.last_mut().ok_or(LineError::Quote)?;
        match one {
            one if one.is_whitespace() => return Ok((values, &text[at..])),
            ',' => {
                values.push(String::new());
                (is_start, is_closed) = (true, false);
            }
            '"' if is_start => {
                quoted(&mut chars, value)?;
                (is_start, is_closed) = (false, true);
            }
            '"' => return Err(LineError::Quote),
            _ if is_closed => return Err(LineError::Quote),
            one => {
                value.push(one);
                is_start = false;
            }
        }
    }
    Ok((values, ""))
}

/// Takes the text up to the closing quote.
fn quoted(chars: &mut std::str::CharIndices<'_>, value: &mut String) -> Result<(), LineError> {
    while let Some((_, one)) = chars.next() {
        match one {
            '"' => return Ok(()),
            '\\' => value.push(chars.next().ok_or(LineError::Quote)?.1),
            one => value.push(one),
        }
    }
    Err(LineError::Quote)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn parse(after: &str) -> Result<Option<(String, Vec<String>)>, LineError> {
        let line = format!("ann:{TOKEN}{after}");
        let line = TokenLine::parse(&line)?;
        assert_eq!(line.name, "ann");
        assert_eq!(line.digest, digest(TOKEN), "{after}");
        Ok(line.user.map(|user| {
            let groups = user.groups().iter().map(ToString::to_string);
            let groups = groups.filter(|group| group != "system:authenticated");
            (user.name().to_owned(), groups.collect())
        }))
    }

    fn check(after: &str, name: &str, groups: &[&str]) {
        let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
        assert_eq!(parse(after), Ok(Some((name.to_owned(), groups))), "{after}");
    }

    #[test]
    fn a_line_can_name_a_user_and_groups() {
        assert_eq!(parse(""), Ok(None));
        check(" user=ann@example.com", "ann@example.com", &[]);
        check("\tuser=ann groups=dev,ops", "ann", &["dev", "ops"]);
        check("  groups=dev   user=ann", "ann", &["dev"]);
        check(r#" user="Ann \"A\" Ray, Jr.""#, r#"Ann "A" Ray, Jr."#, &[]);
        check(
            r#" user=ann groups="Team A","Ops, EU",dev"#,
            "ann",
            &["Ops, EU", "Team A", "dev"],
        );
        check(" user=oidc:a=b groups=CN=dev", "oidc:a=b", &["CN=dev"]);
    }

    #[test]
    fn what_a_line_gets_wrong_is_said() {
        for (after, error) in [
            (" usr=ann", LineError::UnknownKey),
            (" user=ann extra", LineError::UnknownKey),
            (" user=ann uid=7", LineError::UnknownKey),
            (" user=ann user=bob", LineError::RepeatedKey),
            (" groups=dev", LineError::GroupsOnly),
            (" user=ann,bob", LineError::Quote),
            (" user=\"ann", LineError::Quote),
            (" user=\"ann\"x", LineError::Quote),
            (" user=a\"n\"n", LineError::Quote),
            (" user=", LineError::User(MappingError::Name)),
            (" user=ann groups=dev,", LineError::User(MappingError::Name)),
            (" user=\"ann \"", LineError::User(MappingError::Name)),
            (
                " user=system:admin",
                LineError::User(MappingError::ReservedUser),
            ),
            (
                " user=ann groups=dev,system:masters",
                LineError::User(MappingError::ReservedGroup),
            ),
        ] {
            assert_eq!(parse(after), Err(error), "{after}");
        }
        assert_eq!(TokenLine::parse("ann").unwrap_err(), LineError::Form);
        let short = TokenLine::parse("ann:0123456789 user=ann@example.com");
        assert_eq!(short.unwrap_err(), LineError::ShortToken);
    }

    #[test]
    fn a_token_with_blanks_stays_a_token() {
        for token in [
            "0123456789abcdef and more",
            "0123456789 abc:def ==",
            "01234567 89ab-cd=ef",
        ] {
            let line = format!("ann:{token}");
            let line = TokenLine::parse(&line).unwrap();
            assert_eq!(line.digest, digest(token));
            assert!(line.user.is_none());
        }
    }

    proptest! {
        /// Any name can be written, in quotes.
        #[test]
        fn fuzz_a_quoted_name_is_read_as_it_is(
            name in "\\PC{1,20}|[\", \\\\=a]{1,9}",
            groups in vec("\\PC{1,12}|[\", \\\\=a]{1,9}", 0..4),
        ) {
            let quote = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let all: Vec<_> = groups.iter().map(quote).collect();
            let mut after = format!(" user={}", quote(&name));
            if !all.is_empty() {
                after += &format!(" groups={}", all.join(","));
            }
            match (parse(&after), mapped_user(&name, groups.iter().map(String::as_str))) {
                (Ok(Some((read, _))), Ok(user)) => prop_assert_eq!(read, user.name()),
                (Err(LineError::User(error)), Err(expected)) => prop_assert_eq!(error, expected),
                other => prop_assert!(false, "{after}: {other:?}"),
            }
        }

        #[test]
        fn fuzz_any_line_is_read_or_refused(line in "\\PC{0,60}|[a-z:= \",\\\\]{0,60}") {
            let _either = TokenLine::parse(&line);
        }
    }
}
