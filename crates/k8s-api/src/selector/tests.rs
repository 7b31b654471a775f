use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Labels = BTreeMap<String, String>;

fn parse(text: &str) -> LabelSelector {
    text.parse().unwrap()
}

fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[track_caller]
fn check(selector: &str, matching: &[(&str, &str)], not: &[(&str, &str)]) {
    let parsed = parse(selector);
    assert!(
        matches(&parsed, &labels(matching)),
        "{selector}: {matching:?}"
    );
    assert!(!matches(&parsed, &labels(not)), "{selector}: {not:?}");
    let again = parse(&parsed.to_string());
    assert_eq!(again, parsed, "what is printed means the same");
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
    assert!(parse("").is_empty() && parse(" ").is_empty());
}

#[test]
fn requirements_all_hold() {
    let labels = labels(&[
        ("app", "web"),
        ("tier", ""),
        ("weight", "5"),
        ("example.com/team", "a"),
    ]);
    for (selector, expected) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("! canary", true),
        ("app=web,weight=5", true),
        ("app == web , tier=", true),
        ("app=web,tier=x", false),
        ("app!=web", false),
        ("canary!=yes", true),
        ("app in (api, web)", true),
        ("app notin (api,web)", false),
        ("canary notin (yes)", true),
        ("canary in (yes)", false),
        ("tier in ()", true),
        ("tier in (,a)", true),
        ("tier in (a,)", true),
        ("tier in (a,,b)", true),
        ("tier in (a,,)", true),
        ("app in (a,b)", false),
        ("weight>4,weight<6", true),
        ("weight>5", false),
        ("example.com/team=a", true),
    ] {
        assert_eq!(matches(&parse(selector), &labels), expected, "{selector}");
    }
}

#[test]
fn many_values_are_searched_as_few_are() {
    for count in [LINEAR_SEARCH_MAX, LINEAR_SEARCH_MAX + 1, 100] {
        let values: Vec<_> = (0..count).map(|number| format!("v{number}")).collect();
        let selector = parse(&format!("app in ({})", values.join(",")));
        let has = |value: &str| matches(&selector, &labels(&[("app", value)]));
        assert!(values.iter().all(|value| has(value)), "{count}");
        assert!(!has("v") && !has("v100") && !has("w"), "{count}");
    }
}

#[test]
fn selectors_that_mean_the_same_are_equal() {
    assert_eq!(parse("b,a=x,b"), parse("a==x , b"));
    assert_eq!(parse("a in (y,x,y)").to_string(), "a in (x,y)");
    assert_eq!(parse("a in (x)").to_string(), "a=x");
}

#[test]
fn operators_may_be_keys_and_values() {
    check("in in (in,notin)", &[("in", "notin")], &[("in", "x")]);
    check("notin=in", &[("notin", "in")], &[]);
}

#[test]
fn what_is_no_selector_is_refused_with_a_reason() {
    for (text, why) in [
        ("app=web,", "ends with a comma"),
        ("=web", "where a label's name was due"),
        ("!", "nothing where a label's name was due"),
        ("app in web", "in brackets"),
        ("app in (web", "not closed"),
        ("app web", "no operator"),
        ("app>x", "not a whole number"),
        ("app>", "nothing where a number was due"),
        ("app=a/b", "no label has the value"),
        ("gen>-5", "no label has the value"),
        ("-app", "no label is called"),
        ("a/b/c", "no label is called"),
        ("/app", "no label is called"),
        ("app=ü", "cannot stand in a label"),
        ("app=$(reboot)", "cannot stand in a label"),
        (",app", "where a label's name was due"),
        ("app=a=b", "where a comma was due"),
        ("app=(", "where a value was due"),
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
        assert!(error.contains(text), "{error}");
    }
}

/// The demo cluster's tests compare more of these with a real API server.
#[test]
fn the_api_servers_words_are_kept() {
    for (text, message) in [
        (
            "(",
            "found '(', expected: !, identifier, or 'end of string'",
        ),
        ("a=b,", "found '', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a b c",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "a in (b c)",
            "unable to parse requirement: found 'c', expected: ',' or ')'",
        ),
        (
            "a in (b,=)",
            "unable to parse requirement: found '=', expected: ',', or identifier",
        ),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' \
             operators, the value must be an integer",
        ),
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err();
        assert_eq!(error.api_message(), message, "{text}");
    }
    let message = |text: &str| text.parse::<LabelSelector>().unwrap_err().api_message();
    let prefix = "unable to parse requirement: ";
    let key = message("x/=b");
    assert!(
        key.starts_with(&format!(
            "{prefix}<nil>: Invalid value: \"x/\": name part must be non-empty; name part must"
        )),
        "{key}"
    );
    // The API server sorts the values before it checks them.
    let value = message("a in (b,-c)");
    assert!(
        value.starts_with(&format!(
            "{prefix}values[0][a]: Invalid value: \"-c\": a valid label must"
        )),
        "{value}"
    );
}

proptest! {
    #[test]
    fn fuzz_any_text_is_a_selector_or_an_error(text in ".{0,60}|[ab!=<>(), ]{0,20}") {
        match text.parse::<LabelSelector>() {
            Ok(selector) => prop_assert_eq!(parse(&selector.to_string()), selector),
            Err(error) => prop_assert!(!error.api_message().is_empty()),
        }
    }

    #[test]
    fn a_value_is_in_what_names_it(value in "[a-z0-9]{1,8}", other in "[A-Z]{1,8}") {
        let labels = labels(&[("key", &value)]);
        let matches = |text: String| matches(&parse(&text), &labels);
        prop_assert_eq!(matches(format!("key={value}")), true);
        prop_assert_eq!(matches(format!("key in ({other},{value})")), true);
        prop_assert_eq!(matches(format!("key notin ({other},{value})")), false);
        prop_assert_eq!(matches(format!("key in ({other})")), false);
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
        prop_assert_eq!(matches(&parse(&text.join(",")), &have), expected);
    }

    /// What matches surely matches whatever the labels are that were not known; what does
    /// not, fails for some of them.
    #[test]
    fn unknown_labels_never_decide(
        parts in prop::collection::vec((0..4_usize, "[ab]", "[xy]"), 1..4),
        known in prop::collection::btree_map("[ab]", "[xy]", 0..3),
        unknown in prop::collection::btree_map("[ab]", "[xyz]", 0..3),
    ) {
        let written = parts.iter().map(|(kind, key, value)| match kind {
            0 => format!("{key}={value}"),
            1 => format!("{key} notin ({value})"),
            2 => key.clone(),
            _ => format!("!{key}"),
        });
        let selector = parse(&written.collect::<Vec<_>>().join(","));
        let surely = selector.matches_surely(|key| known.get(key).map(String::as_str));
        let mut whole = unknown;
        whole.extend(known.clone());
        prop_assert!(!surely || matches(&selector, &whole));
        let negative = parts.iter().all(|(kind, ..)| *kind == 1 || *kind == 3);
        prop_assert!(!(negative && known.is_empty() && surely), "nothing known is no match");
    }
}
