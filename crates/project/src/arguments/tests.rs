//! Schemas, and arguments that fit them or not.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(schema: &Value, arguments: &Value) -> Result<(), String> {
    InputSchema::compile(schema).unwrap().check(arguments)
}

#[test]
fn the_whole_schema_is_enforced() {
    let schema = json!({
        "type": "object",
        "required": ["pod"],
        "additionalProperties": false,
        "properties": {
            "pod": {"type": "string", "pattern": "^[a-z-]+$", "maxLength": 10},
            "lines": {"type": "integer", "minimum": 1, "maximum": 100},
            "level": {"enum": ["info", "warn"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "owner": {"$ref": "#/$defs/owner"},
        },
        "$defs": {"owner": {"type": "object", "required": ["name"]}},
    });
    let whole = json!({"pod": "web", "lines": 5, "level": "info", "labels": ["a"],
        "owner": {"name": "x", "more": 1}});
    assert_eq!(check(&schema, &whole), Ok(()));
    for (arguments, says) in [
        (json!({}), "the argument `pod` is missing"),
        (json!({"pod": null}), "the argument `pod` is missing"),
        (json!({"pod": 3}), "`pod`: it is not of type \"string\""),
        (
            json!({"pod": "a b"}),
            "`pod`: it does not match \"^[a-z-]+$\"",
        ),
        (
            json!({"pod": "a", "lines": 0}),
            "`lines`: it is less than the minimum of 1",
        ),
        (
            json!({"pod": "a", "lines": "5"}),
            "`lines`: it is not of type \"integer\"",
        ),
        (
            json!({"pod": "a", "level": "debug"}),
            "`level`: it is not one of \"info\" or \"warn\"",
        ),
        (
            json!({"pod": "a", "labels": ["x", 1]}),
            "`labels/1`: it is not of type \"string\"",
        ),
        (
            json!({"pod": "a", "owner": {}}),
            "`owner`: \"name\" is a required property",
        ),
        (json!({"pod": "a", "pdo": 1}), "('pdo' was unexpected)"),
    ] {
        let error = check(&schema, &arguments).unwrap_err();
        assert!(error.contains(says), "{arguments}: {error}");
    }
}

#[test]
fn an_invalid_schema_says_where() {
    for (schema, says) in [
        (
            json!({"properties": {"a": {"type": "str"}}}),
            "at `/properties/a/type`",
        ),
        (
            json!({"properties": {"a": {"required": true}}}),
            "at `/properties/a/required`",
        ),
        (
            json!({"properties": {"a": {"pattern": "("}}}),
            "at `/properties/a/pattern`",
        ),
        (
            json!({"properties": {"a": {"pattern": "(?=x)"}}}),
            "at `/properties/a/pattern`",
        ),
        (
            json!({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}),
            "at `/properties/a/pattern`",
        ),
        (
            json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}),
            "nothing is fetched",
        ),
        (
            json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            "nothing is fetched",
        ),
        (json!({"$ref": "#/$defs/none"}), "is no schema"),
        (
            json!({"$schema": "https://example.com/mine"}),
            "https://example.com/mine",
        ),
        (
            json!({"properties": {"a-b": {}, "a_b": {}}}),
            "`a-b` and `a_b`",
        ),
        (
            json!({"properties": {"pod": {}, "POD": {}}}),
            "KUBECRIER_ARG_POD",
        ),
    ] {
        let error = InputSchema::compile(&schema).unwrap_err();
        assert!(error.contains(says), "{schema}: {error}");
    }
    for known in [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
    ] {
        assert!(
            InputSchema::compile(&json!({"$schema": known})).is_ok(),
            "{known}"
        );
    }
}

/// An object in an object, that many levels deep.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"c": inner}))
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let twice =
        json!({"type": "object", "required": ["c"], "properties": {"c": {"$ref": "#/$defs/n"}}});
    let double = json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [twice, twice]}}});
    assert!(check(&double, &nested(REFERENCED_DEPTH_MAX)).is_err());
    let deep = check(&double, &nested(100)).unwrap_err();
    assert!(deep.contains("more than 10 levels"), "{deep}");
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
    ] {
        let _either = InputSchema::compile(&schema).map(|schema| schema.check(&nested(3)));
    }
    assert!(check(&json!({}), &nested(DEPTH_MAX)).is_ok());
    assert!(check(&json!({}), &nested(DEPTH_MAX + 1)).is_err());
}

#[test]
fn a_pattern_takes_linear_time() {
    let schema = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
    // With backtracking it would never end.
    let long = format!("{}!", "a".repeat(20_000));
    assert!(check(&schema, &json!({"a": long})).is_err());
}

#[test]
fn arguments_that_cannot_be_variables_are_refused() {
    let refused = |arguments: Value| variables(arguments.as_object().unwrap()).unwrap_err();
    assert!(refused(json!({"a": "x\0y"})).contains("`a` has a NUL"));
    assert!(refused(json!({"a-b": 1, "a_b": 2})).contains("`a-b` and `a_b`"));
    let many: Map<_, _> = (0..20)
        .map(|number| (format!("a{number}"), json!("x".repeat(60_000))))
        .collect();
    assert!(refused(Value::Object(many)).contains("may have 524288"));
    let large = json!({"a": "x".repeat(3_000_000), "b": ["\0"]});
    assert!(
        variables(large.as_object().unwrap()).is_ok(),
        "it is on stdin"
    );
    assert!(check_uri("x://\0").is_err());
    assert!(check_uri(&"x".repeat(20_000)).is_err());
    assert!(check_uri("x://a").is_ok());
}

proptest! {
    #[test]
    fn names_with_one_variable_never_pass_together(a in "[aA_. -]{1,4}", b in "[aA_. -]{1,4}") {
        prop_assume!(a != b);
        let clash = check_clashes([&a, &b].into_iter()).is_err();
        prop_assert_eq!(clash, variable_name(&a) == variable_name(&b));
    }

    #[test]
    fn fuzz_whatever_is_a_schema_is_compiled_or_refused(text in r#"[{}\[\]":,0-9a-z$#/]{0,60}"#) {
        if let Ok(schema) = serde_json::from_str::<Value>(&text) {
            let _either = InputSchema::compile(&schema);
        }
    }
}
