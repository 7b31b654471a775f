//! Output generated from the declarations in [`crate::cli`]: completion scripts, the man
//! page and the schema of the configuration file.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use kubecrier_client::{OutputError, Screen};
use serde_json::{Value, json};

use crate::cli::{Args, Settings};

const NAME: &str = "kubecrier";

/// Writes generated output to standard output.
pub async fn print(output: &[u8]) -> Result<()> {
    let written = Screen::new(false).write(output).await;
    Ok(written.or_else(OutputError::ignore_closed_pipe)?)
}

/// The completion script of a shell.
pub fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    script
}

/// The name and the version, as `--version` prints them.
pub fn version() -> Vec<u8> {
    Args::command().render_version().into_bytes()
}

/// The man page, with a section for each command.
pub fn man() -> Result<Vec<u8>> {
    let mut command = Args::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands() {
        page.extend_from_slice(format!(".SH \"{NAME} {}\"\n", sub.get_name()).as_bytes());
        let part = clap_mangen::Man::new(sub.clone());
        part.render_synopsis_section(&mut page)?;
        part.render_description_section(&mut page)?;
        part.render_options_section(&mut page)?;
    }
    Ok(page)
}

/// The JSON schema of the configuration file.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Settings).to_value();
    schema["title"] = json!("the configuration file of kubecrier");
    let ranges = Settings::default().numbers();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            remove_null(property);
            if let Some((_, _, range)) = ranges.iter().find(|(key, ..)| key == name) {
                property["minimum"] = json!(range.start());
                property["maximum"] = json!(range.end());
                if let Value::Object(property) = property {
                    property.remove("format");
                }
            }
        }
    }
    if let Some(Value::Object(tables)) = schema.get_mut("$defs") {
        for table in tables.values_mut() {
            let properties = table.get_mut("properties").and_then(Value::as_object_mut);
            for property in properties.into_iter().flat_map(|all| all.values_mut()) {
                remove_null(property);
            }
        }
    }
    format!("{schema:#}\n")
}

/// Removes `null`, which TOML does not have: a key that is not set is left out.
fn remove_null(property: &mut Value) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            property["type"] = only.clone();
        }
    }
    if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
        choices.retain(|one| one["type"] != "null");
    }
    if let Value::Object(property) = property
        && property.get("default").is_some_and(Value::is_null)
    {
        property.remove("default");
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    const REFERENCE: &str = "../../docs/configuration.md";

    /// Every setting, by group.
    fn reference() -> String {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        let mut groups: Vec<(String, String)> = Vec::new();
        for arg in Args::command().get_arguments() {
            let Some(variable) = arg.get_env().and_then(|name| name.to_str()) else {
                continue;
            };
            let group = arg.get_help_heading().unwrap_or("General").to_owned();
            let key = variable.trim_start_matches("KUBECRIER_").to_lowercase();
            let property = &schema["properties"][&key];
            let range = match (&property["minimum"], &property["maximum"]) {
                (Value::Null, _) => String::new(),
                (low, high) => format!(" ({low} to {high})"),
            };
            let key = if property.is_null() {
                String::new()
            } else {
                format!("`{key}`")
            };
            let help = arg
                .get_help()
                .unwrap_or_default()
                .to_string()
                .replace('|', "\\|");
            let row = format!(
                "| `--{}` | `{variable}` | {key} | {help}{range} |\n",
                arg.get_long().unwrap(),
            );
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, rows)) => rows.push_str(&row),
                None => groups.push((group, row)),
            }
        }
        let mut text = "# Configuration\n\nEvery setting is a flag, an environment variable and a key of the TOML \
                        file that `--config` names; the flag wins over the variable, the variable over the file. \
                        `kubecrier schema` prints the schema of the file. This page is made from the \
                        declarations, and a test compares them.\n"
            .to_owned();
        for (group, rows) in groups {
            text.push_str(&format!(
                "\n## {group}\n\n| flag | variable | key | what it sets |\n|---|---|---|---|\n{rows}"
            ));
        }
        text
    }

    #[test]
    fn the_reference_of_settings_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REFERENCE);
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, reference()).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == reference(),
            "make it again: UPDATE_DOCS=1 cargo test -p kubecrier --lib generate"
        );
    }

    #[test]
    fn the_schema_has_every_key_with_its_range_and_no_other() {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let properties = schema["properties"].as_object().unwrap();
        let command = Args::command();
        let flags = command
            .get_arguments()
            .filter_map(|arg| arg.get_env()?.to_str());
        let mut keys: Vec<_> = flags
            .map(|variable| variable.trim_start_matches("KUBECRIER_").to_lowercase())
            .filter(|key| key != "config")
            .collect();
        keys.sort_unstable();
        let known: Vec<_> = properties.keys().cloned().collect();
        assert_eq!(known, keys);
        assert_eq!(properties["port"]["maximum"], 65_535);
        assert_eq!(properties["port"]["type"], "integer");
        assert_eq!(properties["redact"]["items"]["type"], "string");
        assert!(!schema.to_string().contains("null"), "{schema:#}");
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [
            Shell::Bash,
            Shell::Elvish,
            Shell::Fish,
            Shell::PowerShell,
            Shell::Zsh,
        ] {
            let script = String::from_utf8(completion(shell)).unwrap();
            assert!(
                script.contains("doctor") && script.contains("log-level"),
                "{shell}"
            );
        }
    }

    #[test]
    fn the_man_page_has_every_command() {
        let page = String::from_utf8(man().unwrap()).unwrap();
        for command in Args::command().get_subcommands() {
            let heading = format!("kubecrier {}", command.get_name());
            assert!(page.contains(&heading), "no {heading}");
        }
        assert!(page.contains("exec\\-at\\-once"), "no flags of a command");
    }
}
