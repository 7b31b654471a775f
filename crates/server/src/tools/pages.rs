//! `docs/tools`: a page per tool, made from the table of tools. Examples are called on
//! the demo's cluster; what the code does not say is in [`about`].
//!
//! `UPDATE_DOCS=1 cargo test -p kubecrier-server --lib pages` writes the pages.

mod about;
mod notifications;
mod stage;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use self::{
    about::{ABOUT, Example, ToolDoc},
    stage::{CallOutcome, Stage},
};
use super::{ContextChoice, TOOLS, ToolEntry, find};
use crate::tool_filter;

const FOLDER: &str = "../../docs/tools";
const INDEX: &str = "README.md";
const AGAIN: &str = "make them again: UPDATE_DOCS=1 cargo test -p kubecrier-server --lib pages";

/// Lines of an example that are shown.
const TEXT_LINES: usize = 14;
const DATA_LINES: usize = 48;

/// Characters of a text in an example.
const TEXT_CHARS: usize = 300;

/// An argument, as a table shows it.
#[derive(Debug, PartialEq)]
struct ArgumentDoc {
    name: String,
    kind: String,
    required: bool,
    default: String,
    bounds: Option<(i64, i64)>,
    meaning: String,
}

/// The bounds and defaults in descriptions: `(1-500, default 50)`, `(default: all)`,
/// `(0-25)`.
static BOUNDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r" ?\((?:(?P<low>\d+)-(?P<high>\d+)(?:, )?)?(?:default:? (?P<default>[^)]+))?\)$")
        .unwrap()
});

fn about(entry: &ToolEntry) -> &'static ToolDoc {
    let found = ABOUT.iter().find(|about| about.tool == entry.name);
    found.unwrap_or_else(|| {
        panic!(
            "the page of `{}` needs an entry in tools/pages/about.rs: whether it notifies, and an \
             example",
            entry.name
        )
    })
}

/// The arguments; the required ones first, then in the order of the code.
fn arguments(schema: &JsonObject) -> Vec<ArgumentDoc> {
    let required: Vec<&str> = (schema.get("required").and_then(Value::as_array))
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let argument = |(name, property): (&String, &Value)| {
        let text = property["description"].as_str().unwrap_or_default();
        let found = BOUNDS.captures(text);
        let part = |name: &str| found.as_ref()?.name(name).map(|part| part.as_str());
        let number = |name: &str| part(name)?.parse::<i64>().ok();
        let first = text.split_once(" (default)").map(|(word, _)| word);
        let default = match (part("default").or(first), &property["default"]) {
            (Some(text), _) => text.to_owned(),
            (None, Value::Null) => String::new(),
            (None, value) => value.to_string().trim_matches('"').to_owned(),
        };
        let meaning = match &found {
            Some(found) => &text[..found.get(0).unwrap().start()],
            None => text,
        };
        ArgumentDoc {
            name: name.clone(),
            kind: kind(property),
            required: required.contains(&name.as_str()),
            default,
            bounds: number("low").zip(number("high")),
            meaning: meaning.to_owned(),
        }
    };
    let mut arguments: Vec<_> = properties.into_iter().flatten().map(argument).collect();
    arguments.sort_by_key(|argument| !argument.required);
    arguments
}

fn kind(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(", ").replace('"', "");
    }
    match property["type"].as_str().unwrap_or("any") {
        "array" => format!("list of {}", kind(&property["items"])),
        other => other.to_owned(),
    }
}

fn table(arguments: &[ArgumentDoc]) -> String {
    if arguments.is_empty() {
        return "It takes none.\n".to_owned();
    }
    let mut text =
        "| argument | type | default | bounds | what it means |\n|---|---|---|---|---|\n"
            .to_owned();
    for one in arguments {
        let default = if one.required {
            "required"
        } else {
            one.default.as_str()
        };
        let bounds = one.bounds.map(|(low, high)| format!("{low} to {high}"));
        text.push_str(&format!(
            "| `{}` | {} | {default} | {} | {} |\n",
            one.name,
            one.kind,
            bounds.unwrap_or_default(),
            one.meaning.replace('|', "\\|")
        ));
    }
    text
}

/// Calls that every tool refuses, made from its schema.
fn wrong(arguments: &[ArgumentDoc]) -> Vec<Value> {
    let mut calls = vec![json!({"colour": "red"})];
    if arguments.iter().any(|one| one.required) {
        calls.insert(0, json!({}));
    }
    let given = |argument: &ArgumentDoc| {
        let required = arguments.iter().filter(|one| one.required);
        let given = required.map(|one| (one.name.clone(), json!("x")));
        let mut given: JsonObject = given.collect();
        let (_, high) = argument.bounds?;
        given.insert(argument.name.clone(), json!(high + 1));
        Some(Value::Object(given))
    };
    calls.extend(arguments.iter().filter_map(given));
    calls
}

fn fenced(kind: &str, text: &str, lines_max: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    let mut shown = lines[..lines.len().min(lines_max)].join("\n");
    if lines.len() > lines_max {
        shown.push_str(&format!("\n… {} more lines", lines.len() - lines_max));
    }
    format!("```{kind}\n{shown}\n```\n")
}

/// Long lists are shown by their first two, long texts by their beginning.
fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > TEXT_CHARS => {
            let shown: String = text.chars().take(TEXT_CHARS).collect();
            json!(format!("{shown}…"))
        }
        Value::Array(items) => {
            let mut shown: Vec<_> = items.iter().take(2).map(shortened).collect();
            if items.len() > shown.len() {
                shown.push(json!(format!("… {} more", items.len() - shown.len())));
            }
            Value::Array(shown)
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shortened(value)))
            .collect(),
        other => other.clone(),
    }
}

async fn page(entry: &ToolEntry) -> String {
    let about = about(entry);
    let contexts = ContextChoice {
        names: vec!["dev".to_owned(), "prod".to_owned()],
        ..ContextChoice::default()
    };
    let tool = entry.definition(&contexts);
    let mut schema = tool.input_schema.as_ref().clone();
    if let Some(Value::Object(context)) = schema
        .get_mut("properties")
        .and_then(|all| all.get_mut("context"))
    {
        // The contexts of the page are not those of a reader's kubeconfig.
        context.remove("enum");
    }
    let arguments = arguments(&schema);
    let hints = tool
        .annotations
        .as_ref()
        .map(|hints| json!(hints))
        .unwrap_or_default();
    let mut text = format!(
        "<!-- {AGAIN} -->\n# `{}`\n\n{}\n\nToolset `{}` (`--toolsets`). Annotations: `{hints}`.\n\n## Arguments\n\n{}",
        entry.name,
        tool.description.as_deref().unwrap_or_default(),
        tool_filter::toolset_name(entry.name),
        table(&arguments)
    );
    if arguments.iter().any(|one| one.name == "context") {
        text.push_str("\n`context` is offered only where the kubeconfig has more than one.\n");
    }
    text.push_str(&format!("\n## Example\n\n{}", example(entry, about).await));
    text.push_str("\n## Errors\n\nA call that fails is an answer with `isError`, which a model can read and act on. \
                   What can happen to every tool is in [the list of errors](README.md#errors); these were really made:\n\n\
                   | arguments | answer |\n|---|---|\n");
    let more = about
        .wrong
        .iter()
        .map(|text| serde_json::from_str(text).unwrap());
    for given in wrong(&arguments).into_iter().chain(more) {
        let called = Stage::refused(entry, &given).await;
        let answer = called.text.replace('\n', "<br>").replace('|', "\\|");
        text.push_str(&format!("| `{given}` | {answer} |\n"));
    }
    text.push_str(&format!(
        "\n## When a notification fails\n\n{}",
        about.notifies.text()
    ));
    text
}

async fn example(entry: &ToolEntry, about: &ToolDoc) -> String {
    let (before, given, called) = match about.example {
        Example::Called { before, arguments } => {
            let made = Stage::called(entry, before, arguments).await;
            (made.before, made.given, made.called)
        }
        Example::Made { arguments, answer } => {
            let given = serde_json::from_str(arguments).unwrap();
            let before = "The demo has no metrics-server, so these rows are made up; the tool's own code shows them.\n\n";
            (before.to_owned(), given, CallOutcome::from(answer()))
        }
    };
    let request =
        json!({"method": "tools/call", "params": {"name": entry.name, "arguments": given}});
    let data = serde_json::to_string_pretty(&shortened(&called.data)).unwrap();
    let mut text = format!("{before}{}\n", fenced("json", &request.to_string(), 1));
    if serde_json::from_str::<Value>(&called.text).is_ok() {
        text.push_str("answers, as text and as `structuredContent`:\n\n");
        text.push_str(&fenced("json", &data, DATA_LINES));
    } else {
        text.push_str("answers\n\n");
        text.push_str(&fenced("text", &called.text, TEXT_LINES));
        text.push_str("\nand the same as `structuredContent`:\n\n");
        text.push_str(&fenced("json", &data, DATA_LINES));
    }
    text
}

/// The page of pages.
fn index() -> String {
    let mut text = format!(
        "<!-- {AGAIN} -->\n# Tools\n\nA page per tool, made from the code that runs: arguments, an example that was \
         really called on the cluster of `kubecrier demo`, errors, and what becomes of its notifications. A test \
         compares them.\n\n| tool | what it is for | toolset | notifies |\n|---|---|---|---|\n"
    );
    for entry in &TOOLS {
        let about = about(entry);
        text.push_str(&format!(
            "| [`{0}`]({0}.md) | {1} | `{2}` | {3} |\n",
            entry.name,
            entry
                .description
                .split(['.', ':', ';', '('])
                .next()
                .unwrap_or_default()
                .trim_end(),
            tool_filter::toolset_name(entry.name),
            about.notifies.word(),
        ));
    }
    text.push_str(notifications::INDEX);
    text
}

async fn all() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::from([(INDEX.to_owned(), index())]);
    for entry in &TOOLS {
        pages.insert(format!("{}.md", entry.name), page(entry).await);
    }
    pages
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER)
}

#[tokio::test(start_paused = true)]
async fn every_tool_has_a_page_that_is_up_to_date() {
    let pages = all().await;
    if env::var_os("UPDATE_DOCS").is_some() {
        // A tool that was removed has no page.
        let _was_there = fs::remove_dir_all(folder());
        fs::create_dir_all(folder()).unwrap();
        for (name, text) in &pages {
            fs::write(folder().join(name), text).unwrap();
        }
    }
    let there = fs::read_dir(folder()).unwrap_or_else(|error| panic!("{error}; {AGAIN}"));
    let there: BTreeSet<_> = there
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, pages.keys().cloned().collect(), "{AGAIN}");
    for (name, text) in &pages {
        let kept = fs::read_to_string(folder().join(name)).unwrap();
        assert!(kept == *text, "docs/tools/{name} is stale; {AGAIN}\n{text}");
    }
}

/// The bounds in a description are those that the tool enforces.
#[tokio::test(start_paused = true)]
async fn the_bounds_on_the_pages_are_those_of_the_tools() {
    let mut bounded = 0;
    for entry in &TOOLS {
        let arguments = arguments(&(entry.schema)());
        let required: JsonObject = (arguments.iter())
            .filter(|one| one.required)
            .map(|one| (one.name.clone(), json!("x")))
            .collect();
        for argument in &arguments {
            let Some((low, high)) = argument.bounds else {
                assert!(
                    argument.kind != "integer" || argument.name == "limitBytes",
                    "{}.{} has no bounds on its page",
                    entry.name,
                    argument.name
                );
                continue;
            };
            bounded += 1;
            for (value, fits) in [
                (low, true),
                (high, true),
                (low - 1, false),
                (high + 1, false),
            ] {
                let mut given = required.clone();
                given.insert(argument.name.clone(), json!(value));
                let called = Stage::answer(entry, &Value::Object(given)).await;
                let complains = called.text.contains(&format!("`{}`", argument.name));
                assert_eq!(
                    !complains, fits,
                    "{}.{} = {value}: {}",
                    entry.name, argument.name, called.text
                );
            }
        }
    }
    assert!(bounded > 10, "descriptions are read wrongly: {bounded}");
}

#[test]
fn what_is_said_of_tools_is_said_of_tools_there_are() {
    for about in ABOUT {
        assert!(find(about.tool).is_some(), "`{}` is no tool", about.tool);
    }
}
