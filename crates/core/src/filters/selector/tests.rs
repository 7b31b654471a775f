use proptest::prelude::*;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[track_caller]
fn check(selector: &str, matching: &[(&str, &str)], not: &[(&str, &str)]) {
    let parsed: Selector = selector.parse().unwrap();
    assert!(
        parsed.matches(&labels(matching)),
        "{selector}: {matching:?}"
    );
    assert!(!parsed.matches(&labels(not)), "{selector}: {not:?}");
    let again: Selector = parsed.to_string().parse().unwrap();
    assert_eq!(again, parsed, "what is echoed means the same");
}

#[test]
fn every_operator_of_kubernetes_is_understood() {
    check("app=web", &[("app", "web")], &[("app", "api")]);
    check("app==web", &[("app", "web")], &[]);
    check("app!=web", &[], &[("app", "web")]);
    check("app in (web, api)", &[("app", "api")], &[("app", "db")]);
    check("app notin (web,api)", &[("tier", "x")], &[("app", "web")]);
    check("app", &[("app", "")], &[]);
    check("!app", &[], &[("app", "x")]);
    check("gen>3", &[("gen", "4")], &[("gen", "3")]);
    check("gen < 3", &[("gen", "-4")], &[("gen", "x")]);
    check("app=", &[("app", "")], &[("app", "x")]);
    check("app in ()", &[("app", "")], &[("app", "x")]);
    check(
        "app.kubernetes.io/name=web,!canary,tier in (a)",
        &[("app.kubernetes.io/name", "web"), ("tier", "a")],
        &[
            ("app.kubernetes.io/name", "web"),
            ("tier", "a"),
            ("canary", ""),
        ],
    );
    assert!("".parse::<Selector>().unwrap().is_empty());
}

#[test]
fn what_is_no_selector_is_refused_with_a_reason() {
    for (text, why) in [
        ("app=web,", "ends with a comma"),
        ("=web", "where a label's name was due"),
        ("app in web", "in brackets"),
        ("app in (web", "not closed"),
        ("app web", "no operator"),
        ("app>x", "not a whole number"),
        ("app=a/b", "no label has the value"),
        ("-app", "no label is called"),
        ("a/b/c", "no label is called"),
        ("/app", "no label is called"),
        ("app=ü", "cannot stand in a label"),
        ("app=$(reboot)", "cannot stand in a label"),
        (",app", "where a label's name was due"),
        ("app=a=b", "where a comma was due"),
    ] {
        let error = text.parse::<Selector>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
        assert!(error.contains(text), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_selector_or_an_error(text in ".{0,60}") {
        if let Ok(selector) = text.parse::<Selector>() {
            let again: Selector = selector.to_string().parse().unwrap();
            prop_assert_eq!(again, selector);
        }
    }

    /// A selector is the conjunction of its parts, each tested the naive way.
    #[test]
    fn parts_hold_one_by_one(
        parts in prop::collection::vec((0..3_usize, "[ab]", "[xy]", "[xy]"), 0..4),
        have in prop::collection::btree_map("[ab]", "[xy]", 0..3),
    ) {
        let mut expected = true;
        let mut text = Vec::new();
        for (kind, key, one, two) in &parts {
            let value = have.get(key);
            let (written, holds) = match kind {
                0 => (format!("{key}={one}"), value == Some(one)),
                1 => (format!("{key} notin ({one},{two})"),
                    value.is_none_or(|value| value != one && value != two)),
                _ => (format!("!{key}"), value.is_none()),
            };
            text.push(written);
            expected &= holds;
        }
        let selector: Selector = text.join(",").parse().unwrap();
        prop_assert_eq!(selector.matches(&have), expected);
    }
}
