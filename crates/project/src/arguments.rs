//! The arguments of a call: checked against the tool's schema, and passed on as environment
//! variables.

use std::{collections::BTreeMap, sync::Arc};

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::{Map, Value};

/// The memory that one compiled pattern of a schema may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// The nesting of arguments.
const DEPTH_MAX: usize = 32;
/// The nesting of arguments where the schema has references. With them a schema can lead to
/// twice the work for each level.
const REFERENCED_DEPTH_MAX: usize = 10;
/// The number of problems that an error names.
const PROBLEMS_MAX: usize = 5;
/// The length of the text of one problem.
const PROBLEM_CHARS_MAX: usize = 300;
/// The size of all variables of a call. Linux refuses to start a process with more than
/// 2 MiB as a rule, the arguments as JSON and the server's own variables included.
const VARIABLES_BYTES_MAX: usize = 512 * 1024;
/// The length of a URI that a provider gets as its argument.
const URI_BYTES_MAX: usize = 16 * 1024;

/// The compiled `inputSchema` of a tool.
#[derive(Clone)]
pub struct InputSchema {
    validator: Arc<Validator>,
    required: Vec<String>,
    depth_max: usize,
}

/// Fetches no schema, whatever a reference names.
struct NoRetrieval;

// === impl InputSchema ===

impl InputSchema {
    /// Compiles a schema. It has to be complete: nothing is fetched for it.
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        check_clashes(
            schema["properties"]
                .as_object()
                .into_iter()
                .flat_map(Map::keys),
        )?;
        // Patterns are matched in linear time, so that no argument makes a call slow.
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
        let validator = jsonschema::options()
            .with_retriever(NoRetrieval)
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| {
                let problem = shortened(&error.to_string());
                match error.instance_path().as_str() {
                    "" => format!("`inputSchema` is no schema: {problem}"),
                    path => format!("`inputSchema` is no schema at `{path}`: {problem}"),
                }
            })?;
        let required = schema["required"].as_array().into_iter().flatten();
        Ok(Self {
            validator: Arc::new(validator),
            required: required
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            depth_max: if has_references(schema) {
                REFERENCED_DEPTH_MAX
            } else {
                DEPTH_MAX
            },
        })
    }

    /// Checks arguments; the error names each place, and what is wanted there.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), String> {
        for name in &self.required {
            if arguments.get(name).is_none_or(Value::is_null) {
                return Err(format!("the argument `{name}` is missing"));
            }
        }
        if is_deeper(arguments, self.depth_max) {
            return Err(format!(
                "the arguments are nested more than {} levels deep",
                self.depth_max
            ));
        }
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        let problems = self.validator.iter_errors(arguments).take(PROBLEMS_MAX);
        let problems: Vec<_> = problems
            .map(|error| {
                let problem = error.masked_with("it").to_string();
                match error.instance_path().as_str().strip_prefix('/') {
                    Some(path) => format!("`{path}`: {}", shortened(&problem)),
                    None => shortened(&problem),
                }
            })
            .collect();
        Err(format!(
            "the arguments do not fit the tool's inputSchema: {}",
            problems.join("; ")
        ))
    }
}

impl std::fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputSchema")
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

/// The tool's definition has the schema, and is what is compared.
impl PartialEq for InputSchema {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Retrieve for NoRetrieval {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("`{uri}` is not part of the schema, and nothing is fetched").into())
    }
}

/// The arguments of a call as environment variables: a string as it is, any other value as
/// JSON.
pub(super) fn variables(arguments: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    check_clashes(arguments.keys())?;
    let mut bytes = 0;
    let mut variables = Vec::with_capacity(arguments.len());
    for (name, value) in arguments {
        let value = match value {
            Value::String(text) if text.contains('\0') => {
                return Err(format!(
                    "the argument `{name}` has a NUL character, which cannot be passed on"
                ));
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let variable = variable_name(name);
        if value.len() <= super::process::VARIABLE_MAX {
            bytes += variable.len() + value.len();
        }
        variables.push((variable, value));
    }
    if bytes > VARIABLES_BYTES_MAX {
        return Err(format!(
            "the arguments have {bytes} bytes as environment variables, and may have \
             {VARIABLES_BYTES_MAX}; pass less, or put large values into one argument"
        ));
    }
    Ok(variables)
}

/// Checks that each name has a variable of its own: `a-b` and `a_b` are both
/// `KUBECRIER_ARG_A_B`.
pub(super) fn check_clashes<N: AsRef<str>>(names: impl Iterator<Item = N>) -> Result<(), String> {
    let mut known: BTreeMap<String, N> = BTreeMap::new();
    for name in names {
        let variable = variable_name(name.as_ref());
        if let Some(first) = known.get(&variable) {
            return Err(format!(
                "the arguments `{}` and `{}` would both be the variable {variable}; rename one",
                first.as_ref(),
                name.as_ref()
            ));
        }
        known.insert(variable, name);
    }
    Ok(())
}

/// Checks that a URI can be the argument of a process.
pub(super) fn check_uri(uri: &str) -> Result<(), String> {
    if uri.contains('\0') {
        return Err("the URI has a NUL character".to_owned());
    }
    if uri.len() > URI_BYTES_MAX {
        return Err(format!(
            "the URI has {} bytes, and may have {URI_BYTES_MAX}",
            uri.len()
        ));
    }
    Ok(())
}

/// The variable of an argument: `podName` is `KUBECRIER_ARG_PODNAME`, `dry-run` is
/// `KUBECRIER_ARG_DRY_RUN`.
pub(super) fn variable_name(name: &str) -> String {
    let plain = |one: char| {
        if one.is_ascii_alphanumeric() {
            one.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!(
        "KUBECRIER_ARG_{}",
        name.chars().map(plain).collect::<String>()
    )
}

fn has_references(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef")
                || has_references(value)
        }),
        Value::Array(items) => items.iter().any(has_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_deeper(value: &Value, depth: usize) -> bool {
    let inner = |mut values: Box<dyn Iterator<Item = &Value> + '_>| match depth.checked_sub(1) {
        Some(depth) => values.any(|value| is_deeper(value, depth)),
        None => true,
    };
    match value {
        Value::Object(fields) => inner(Box::new(fields.values())),
        Value::Array(items) => inner(Box::new(items.iter())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(PROBLEM_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
