//! Label selectors, globs and the filters of a subscription.
//!
//! The lines of the input are, in this order: a label selector, a glob, a text for the glob,
//! and then texts that are used wherever a filter takes one.

use std::collections::BTreeMap;

use kubecrier_core::{
    Event, EventFields,
    filters::{EventType, FilterRequest, Filters, Glob, Mode},
};
use kubecrier_k8s_api::LabelSelector;

/// The oracle of globs takes the product of both lengths.
const ORACLE_CHARS_MAX: usize = 300;

/// Parses, prints and matches selectors, globs and filters.
///
/// # Panics
///
/// If something does not hold.
pub fn selectors(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (selector, pattern, subject) = (line(), line(), line());
    let rest: Vec<_> = lines.map(str::to_owned).collect();
    label_selector(selector, &rest);
    glob(pattern, subject);
    filters(selector, pattern, subject, rest);
}

fn label_selector(text: &str, labels: &[String]) {
    let labels: BTreeMap<_, _> = (labels.iter())
        .filter_map(|line| line.split_once('='))
        .collect();
    let label = |key: &str| labels.get(key).copied();
    match text.parse::<LabelSelector>() {
        Ok(selector) => {
            let printed = selector.to_string();
            let again: LabelSelector = printed.parse().expect("what is printed can be parsed");
            assert_eq!(again, selector, "what is printed means the same");
            assert_eq!(again.to_string(), printed);
            // A requirement that is stated twice, or beside another selector, narrows nothing.
            let twice: LabelSelector = format!("{printed},{printed}")
                .trim_matches(',')
                .parse()
                .expect("selectors are joined by commas");
            assert_eq!(twice, selector);
            let _matches = selector.matches(label);
        }
        Err(error) => {
            let (message, most) = (error.to_string(), 4 * text.len() + 1000);
            assert!(!message.is_empty() && message.len() <= most, "{message}");
        }
    }
}

fn glob(pattern: &str, text: &str) {
    let matches = Glob::new(pattern).matches(text);
    let pattern: Vec<_> = pattern.chars().collect();
    let text: Vec<_> = text.chars().collect();
    if pattern.len().max(text.len()) > ORACLE_CHARS_MAX {
        return;
    }
    assert_eq!(
        matches,
        matches_by_table(&pattern, &text),
        "{pattern:?} on {text:?}"
    );
}

/// Whether a glob matches, by the textbook: a row of the table says which beginnings of the
/// text the pattern so far matches.
fn matches_by_table(pattern: &[char], text: &[char]) -> bool {
    let mut row = vec![false; text.len() + 1];
    row[0] = true;
    for symbol in pattern {
        let mut next = vec![false; row.len()];
        next[0] = row[0] && *symbol == '*';
        for at in 0..text.len() {
            next[at + 1] = match symbol {
                '*' => row[at + 1] || next[at],
                '?' => row[at],
                exact => row[at] && text[at] == *exact,
            };
        }
        row = next;
    }
    row[text.len()]
}

fn filters(selector: &str, pattern: &str, subject: &str, rest: Vec<String>) {
    let given = |at: usize| rest.get(at).cloned();
    let request = FilterRequest {
        mode: if pattern.len().is_multiple_of(2) {
            Mode::Events
        } else {
            Mode::Faults
        },
        namespace: given(0),
        namespaces: given(1).into_iter().collect(),
        namespace_selector: vec![pattern.to_owned()],
        label_selector: Some(selector.to_owned()),
        involved_kind: given(2),
        involved_name: Some(subject.to_owned()),
        involved_namespace: given(3),
        types: vec![EventType::Warning],
        reason: given(4),
        exclude_reasons: rest.clone(),
    };
    let event = Event::from(EventFields {
        namespace: subject.to_owned(),
        kind: "Warning".to_owned(),
        reason: given(5).unwrap_or_default(),
        ..EventFields::default()
    });
    match Filters::try_from(request) {
        Ok(filters) => {
            // These become parts of a field selector and of a path.
            let (kind, name) = filters.involved();
            for term in kind.into_iter().chain(name) {
                assert!(!term.contains([',', '=', '!', '\\', '/', ' ']), "{term:?}");
            }
            for namespace in filters.exact_namespaces().unwrap_or_default() {
                assert!(filters.admits_namespace(namespace), "{namespace}");
                assert!(
                    !namespace.contains(['/', '.', '%', '*', '?']),
                    "{namespace}"
                );
            }
            if filters.admits(&event) {
                assert!(filters.admits_namespace(&event.namespace));
            }
            let _matches = filters.admits_labels(&event);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
