//! A corpus of what real software prints: nothing of a secret is seen, nothing ordinary is
//! changed. `cargo run -p kubecrier-redact --example corpus -- crates/redact/tests/corpus -v`
//! prints what fails, and why.

use kubecrier_redact::Redactor;

#[path = "corpus/expand.rs"]
mod expand;

#[path = "corpus/ways.rs"]
mod ways;

use expand::{Entry, entries, expand, names};

const SECRETS: &str = include_str!("corpus/secrets.txt");
const ORDINARY: &str = include_str!("corpus/ordinary.txt");
const NAMES: &str = include_str!("corpus/names.txt");

/// Each entry with several values.
const SEEDS: std::ops::Range<u64> = 0..3;

/// Checks each entry of a file with several values, and shows the first failure of each.
#[track_caller]
fn each(file: &str, what: &str, check: impl Fn(&Entry, u64) -> Option<String>) {
    let entries = entries(file);
    let first = |entry: &Entry| SEEDS.into_iter().find_map(|seed| check(entry, seed));
    none(what, entries.iter().filter_map(first).collect());
}

#[track_caller]
fn none(what: &str, failures: Vec<String>) {
    let shown = failures.join("\n");
    assert!(failures.is_empty(), "{} {what}:\n{shown}", failures.len());
}

#[test]
fn no_secret_is_seen_by_any_way() {
    let redactor = Redactor::default();
    each(SECRETS, "entries leak", |entry, seed| {
        let expanded = expand(&entry.template, seed);
        let outputs = ways::through(&redactor, &expanded.text).into_iter();
        let mut leaks = outputs.filter_map(|(way, output)| {
            let piece = ways::leak(&expanded, &output)?;
            Some(format!("{} ({way}): `{piece}` in {output}", entry.about))
        });
        leaks.next()
    });
}

#[test]
fn nothing_ordinary_is_changed_by_any_way() {
    let redactor = Redactor::default();
    each(ORDINARY, "entries are changed", |entry, seed| {
        let text = expand(&entry.template, seed).text;
        let mut outputs = ways::through(&redactor, &text).into_iter();
        let (way, output) = outputs.find(|(way, output)| *output != ways::untouched(way, &text))?;
        Some(format!("{text} ({way}) becomes {output}"))
    });
}

#[test]
fn no_name_of_a_workload_is_changed_wherever_it_stands() {
    let redactor = Redactor::default();
    let mut changes = Vec::new();
    for name in SEEDS.flat_map(|seed| names(NAMES, seed)) {
        for (way, text) in ways::around(&name) {
            let output = redactor.workload(&text);
            if output != text {
                changes.push(format!("{name} ({way}) becomes {output}"));
            }
        }
    }
    none("names are changed", changes);
}

#[test]
fn every_entry_would_leak_if_nothing_were_redacted() {
    each(SECRETS, "entries have no secret", |entry, seed| {
        let expanded = expand(&entry.template, seed);
        let blind = |way: &&str| {
            let untouched = ways::untouched(way, &expanded.text);
            ways::leak(&expanded, &untouched).is_none()
        };
        let way = ["whole", "record", "string"].into_iter().find(blind)?;
        Some(format!("{} ({way}, seed {seed})", entry.about))
    });
}

#[test]
fn the_corpus_is_as_large_as_it_claims() {
    assert!(entries(SECRETS).len() >= 270);
    assert!(entries(ORDINARY).len() >= 550);
    assert!(NAMES.lines().count() >= 800);
    for cause in [
        "fields", "follows", "names", "base64", "dsn", "tokens", "values",
    ] {
        let count = entries(SECRETS)
            .iter()
            .filter(|entry| entry.about.starts_with(cause))
            .count();
        assert!(count >= 8, "{count} of {cause}");
    }
}

#[test]
fn holes_are_filled_and_the_rest_stays() {
    let text = |template: &str| expand(template, 7).text;
    assert_eq!(
        text("a {b} [[c]] {{ .Values.d }} ${{ e }}"),
        "a {b} [[c]] {{ .Values.d }} ${{ e }}"
    );
    assert_eq!(text("{{base64of<<user:secret>>}}"), "dXNlcjpzZWNyZXQ=");
    assert_eq!(text("{{base64urlof<<a?b>c>>}}"), "YT9iPmM");
    assert_eq!(text("{{percent<<a b/c@d>>}}"), "a%20b%2Fc%40d");
    assert_eq!(text("{{base64of<<{{base64of<<a>>}}\\n>>}}"), "WVE9PQo=");
    let hex = text("{{{hex:8}}}");
    assert_eq!((hex.len(), &hex[..1], &hex[9..]), (10, "{", "}"));
    assert!(
        hex[1..9].chars().all(|one| one.is_ascii_hexdigit()),
        "{hex}"
    );
    assert_eq!(text("{{password}}"), text("{{password}}"));
    assert_ne!(text("{{password}}"), expand("{{password}}", 8).text);
    let indented = text("{{pem:ec:2}}");
    assert!(
        indented.starts_with("-----BEGIN EC PRIVATE KEY-----\n  "),
        "{indented}"
    );
}

#[test]
fn a_leak_is_six_characters_of_a_secret_encoded_or_not() {
    let entry = expand("user=joe password={{alnum:12}}", 1);
    let (_, secret) = entry.text.split_once("word=").unwrap();
    assert!(ways::leak(&entry, &format!("..{}..", &secret[3..9])).is_some());
    assert!(ways::leak(&entry, &secret[3..8]).is_none());
    assert!(ways::leak(&entry, "user=joe password=").is_none());
    let entry = expand("auth={{base64of<<joe:{{alnum:12}}>>}}", 1);
    assert!(ways::leak(&entry, &entry.text).is_some());
    assert!(ways::leak(&entry, "auth=am9l").is_none());
    // What is fixed in an encoded text is no secret, wherever its length puts it.
    let entry = expand("{{base64of<<{{alnum:7}} at https://example.com/path>>}}", 1);
    assert!(ways::leak(&entry, &entry.text[14..]).is_none());
    assert!(ways::leak(&entry, &entry.text[..9]).is_some());
}
