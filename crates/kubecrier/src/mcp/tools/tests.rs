use serde_json::json;

use super::*;

fn all(contexts: &[&str]) -> Vec<Tool> {
    let names: Vec<_> = contexts.iter().map(ToString::to_string).collect();
    TOOLS
        .iter()
        .map(|entry| entry.definition(&names, contexts.first().copied()))
        .collect()
}

#[test]
fn the_list_of_tools_stays_small() {
    let names: Vec<_> = (0..15)
        .map(|n| format!("arn:aws:eks:eu-west-1:123456789012:cluster/c-{n}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let bytes = serde_json::to_string(&all(&names)).unwrap().len();
    assert!(bytes / 4 < 8000, "tools/list costs {} tokens", bytes / 4);
    let usual = serde_json::to_string(&all(&["dev"])).unwrap().len();
    assert!(
        usual / 4 < 2300,
        "tools/list costs {} tokens with one context",
        usual / 4
    );
}

#[test]
fn every_tool_only_reads() {
    for tool in all(&["dev"]) {
        let hints = tool.annotations.unwrap();
        assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
        assert_eq!(hints.destructive_hint, Some(false), "{}", tool.name);
    }
}

#[test]
fn every_argument_says_what_it_does() {
    for tool in all(&["dev", "prod"]) {
        assert_eq!(
            tool.input_schema["additionalProperties"],
            json!(false),
            "{}",
            tool.name
        );
        for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}.{name}", tool.name);
            assert!(
                property["type"].is_string(),
                "{}.{name}: {property}",
                tool.name
            );
        }
    }
}

#[test]
fn a_context_is_offered_only_where_there_is_a_choice() {
    let context = |contexts: &[&str]| {
        let tools = all(contexts);
        let pods = tools
            .into_iter()
            .find(|tool| tool.name == "pods_list")
            .unwrap();
        pods.input_schema["properties"].get("context").cloned()
    };
    assert_eq!(context(&["dev"]), None);
    let offered = context(&["dev", "prod"]).unwrap();
    assert_eq!(offered["enum"], json!(["dev", "prod"]));
    assert_eq!(offered["default"], json!("dev"));
    let many: Vec<_> = (0..16).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(context(&many).unwrap().get("enum"), None);
}

#[test]
fn what_a_model_sees_is_as_it_was() {
    insta::assert_json_snapshot!(all(&["dev", "prod"]));
}
