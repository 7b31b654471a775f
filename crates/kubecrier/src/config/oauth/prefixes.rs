//! What stands before the names of users and groups: one text, or one for each issuer, so that a
//! name of one issuer is never that of another.

use kubecrier_oauth::IssuerUrl;

use super::value;
use crate::config::ConfigError;

/// Before names of users and groups, unless another prefix is chosen.
const DEFAULT: &str = "oidc:";

/// In place of a prefix: none.
const NONE: &str = "-";

/// The prefix of each issuer, in their order. `given` is a text for the only one, or
/// `ISSUER=TEXT,...` for all.
pub(super) fn read(
    key: &'static str,
    given: Option<&str>,
    issuers: &[IssuerUrl],
) -> Result<Vec<String>, ConfigError> {
    let refused = |why: &str| {
        let expected = format!("{why}, as in {}", example(issuers));
        value(key, given.unwrap_or(DEFAULT).to_owned(), &expected)
    };
    let text = given.unwrap_or(DEFAULT);
    let named = |issuer: &IssuerUrl, entry: &str| {
        let prefix = entry.trim().strip_prefix(issuer.as_str())?;
        prefix.strip_prefix('=').map(plain)
    };
    let of = |entry: &str| issuers.iter().any(|issuer| named(issuer, entry).is_some());
    let entries: Vec<_> = text.split(',').collect();
    let prefixes = if entries.iter().any(|entry| of(entry)) {
        if let Some(other) = entries.iter().find(|entry| !of(entry)) {
            let why = format!(
                "for issuers of --oauth-issuer, which `{}` is not",
                other.trim()
            );
            return Err(refused(&why));
        }
        let of_issuer = |issuer| {
            let mut own = entries.iter().filter_map(|entry| named(issuer, entry));
            own.next().filter(|_| own.next().is_none())
        };
        let prefixes = issuers.iter().map(of_issuer).collect::<Option<Vec<_>>>();
        prefixes.ok_or_else(|| refused("one for each issuer"))?
    } else {
        issuers.iter().map(|_| plain(text)).collect()
    };
    // One that begins with another could be the beginning of a name there.
    let is_same = |(at, one): (usize, &String)| {
        let mut others = prefixes.iter().enumerate();
        others.any(|(other, prefix)| other != at && one.starts_with(prefix.as_str()))
    };
    if prefixes.iter().enumerate().any(is_same) {
        return Err(refused(
            "another one for each issuer, of which none begins with another: a name that two issuers \
             give would be the same user of Kubernetes",
        ));
    }
    Ok(prefixes)
}

fn plain(text: &str) -> String {
    match text {
        NONE => String::new(),
        text => text.to_owned(),
    }
}

fn example(issuers: &[IssuerUrl]) -> String {
    let entries = issuers.iter().zip('a'..='z');
    let entries: Vec<_> = entries
        .map(|(issuer, letter)| format!("{issuer}={letter}:"))
        .collect();
    entries.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "https://one.example";
    const TWO: &str = "https://two.example/realms/a";

    fn check(issuers: &[&str], given: Option<&str>, expected: Result<&[&str], &str>) {
        let issuers: Vec<_> = issuers
            .iter()
            .map(|url| IssuerUrl::parse(url).unwrap())
            .collect();
        match (read("username-prefix", given, &issuers), expected) {
            (Ok(prefixes), Ok(expected)) => assert_eq!(prefixes, expected),
            (Err(error), Err(part)) => {
                let error = error.to_string();
                assert!(error.contains(part), "{part} in {error}");
                assert!(error.contains(&format!("{ONE}=a:")), "{error}");
            }
            (read, expected) => panic!("{read:?}, not {expected:?}"),
        }
    }

    #[test]
    fn one_issuer_has_one_prefix() {
        check(&[ONE], None, Ok(&["oidc:"]));
        check(&[ONE], Some("-"), Ok(&[""]));
        check(
            &[ONE],
            Some("https://one.example#"),
            Ok(&["https://one.example#"]),
        );
        check(&[ONE], Some("https://one.example=a:"), Ok(&["a:"]));
        check(&[ONE], Some("a,b"), Ok(&["a,b"]));
    }

    #[test]
    fn several_issuers_never_name_the_same_user() {
        let two = format!("{ONE}=one:, {TWO}=two:");
        check(&[ONE, TWO], Some(&two), Ok(&["one:", "two:"]));
        for same in [
            None,
            Some("oidc:"),
            Some("-"),
            Some("https://one.example=a:,https://two.example/realms/a=a:"),
            Some("https://one.example=a:,https://two.example/realms/a=a:b"),
            Some("https://one.example=-,https://two.example/realms/a=a:"),
        ] {
            check(&[ONE, TWO], same, Err("none begins with another"));
        }
        for some in [
            "https://one.example=a:",
            "https://one.example=a:,https://one.example=b:",
        ] {
            check(&[ONE, TWO], Some(some), Err("one for each issuer"));
        }
        let other = "https://one.example=a:,https://two.example=b:";
        check(
            &[ONE, TWO],
            Some(other),
            Err("which `https://two.example=b:` is not"),
        );
    }
}
