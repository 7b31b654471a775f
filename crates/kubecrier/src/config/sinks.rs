//! Sinks: tables and URLs, validated.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use kubecrier_core::{
    duration,
    filters::{FilterRequest, Mode},
};
use kubecrier_incidents::{DetectorName, Severity};
use kubecrier_sinks::{
    AllowedAddresses, ContentMode, Credentials, ExecTarget, HttpTarget, SecretSource, SinkConfig,
    SinkFilter, TargetConfig, TargetUrl, Transitions, is_label_name,
};

use super::ConfigError;
use crate::cli::{SinkEntry, SinkTable};

/// Sinks at most: each has a task, a queue and lists of incidents.
const SINKS_MAX: usize = 16;

const KINDS: &str = "alertmanager, alertmanager-webhook, cloudevents, a2a or exec";

/// How long a request and a program may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(1);
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_mins(30);

const QUEUE_MAX: u64 = 1000;
const QUEUES: std::ops::RangeInclusive<u64> = 1..=100_000;

/// The sinks of the settings.
pub(super) fn read(
    entries: Vec<SinkEntry>,
    allowed: &[String],
) -> Result<Vec<SinkConfig>, ConfigError> {
    let allowed = AllowedAddresses::new(allowed).map_err(|value| ConfigError::Value {
        origin: String::new(),
        key: "sink-allow",
        value,
        expected: "a host or a network such as alertmanager.monitoring.svc or 10.96.0.0/12"
            .to_owned(),
    })?;
    if entries.len() > SINKS_MAX {
        return Err(ConfigError::Sink {
            sink: (SINKS_MAX + 1).to_string(),
            reason: format!("there can be {SINKS_MAX} of them"),
        });
    }
    let mut sinks: Vec<SinkConfig> = Vec::new();
    for (number, SinkEntry(table)) in (1..).zip(entries) {
        let known_as = match &*table.name {
            "" => format!("number {number}"),
            name => name.to_owned(),
        };
        let named = |reason: String| ConfigError::Sink {
            sink: known_as.clone(),
            reason,
        };
        let sink = sink(table, number, &allowed).map_err(named)?;
        if sinks.iter().any(|other| other.name == sink.name) {
            return Err(named("another one has this name".to_owned()));
        }
        sinks.push(sink);
    }
    Ok(sinks)
}

fn sink(
    mut table: SinkTable,
    number: usize,
    allowed: &AllowedAddresses,
) -> Result<SinkConfig, String> {
    let kind = take_kind(&mut table)?;
    check_keys(&table, &kind)?;
    let is_exec = kind == "exec";
    let filter = filter(&mut table)?;
    let timeout = match &*table.timeout {
        "" if is_exec => PROGRAM_TIMEOUT,
        "" => REQUEST_TIMEOUT,
        text => duration::parse(text)
            .ok()
            .filter(|time| TIMEOUTS.contains(time))
            .ok_or_else(|| format!("`timeout` is `{text}`, but must be a time from 1s to 30m"))?,
    };
    let queue_max = table.queue_max.unwrap_or(QUEUE_MAX);
    if !QUEUES.contains(&queue_max) {
        return Err(format!(
            "`queue_max` is {queue_max}, but must be a number from 1 to 100000"
        ));
    }
    let name = match std::mem::take(&mut table.name) {
        empty if empty.is_empty() => format!("{kind}-{number}"),
        name if kubecrier_k8s::Name::label("name", &name).is_ok() => name,
        _ => return Err("`name` must be lower-case letters, digits and dashes".to_owned()),
    };
    Ok(SinkConfig {
        name,
        filter,
        target: target(table, &kind, allowed)?,
        queue_max: usize::try_from(queue_max).unwrap_or(usize::MAX),
        timeout,
    })
}

/// The kind, from the key or from the beginning of the URL, which is removed there.
fn take_kind(table: &mut SinkTable) -> Result<String, String> {
    let scheme = table.url.split("://").next().unwrap_or_default();
    let of_url = if let Some((kind, _)) = scheme.split_once('+') {
        let kind = kind.to_owned();
        table.url.drain(..=kind.len());
        kind
    } else if let Some(path) = table.url.strip_prefix("exec:") {
        table.command.insert(0, path.to_owned());
        table.url.clear();
        "exec".to_owned()
    } else {
        String::new()
    };
    let kind = match (std::mem::take(&mut table.kind), of_url) {
        (kind, of_url) if kind.is_empty() || kind == of_url => of_url,
        (kind, of_url) if of_url.is_empty() => kind,
        _ => return Err("`kind` and `url` name different kinds".to_owned()),
    };
    match &*kind {
        "alertmanager" | "alertmanager-webhook" | "cloudevents" | "a2a" | "exec" => Ok(kind),
        "" => Err(format!(
            "it has no kind: write `kind` ({KINDS}), or a URL such as alertmanager+http://host:9093 or \
             exec:/path/to/program"
        )),
        // A word that may be the beginning of anything is not repeated.
        _ => Err(format!("its kind must be {KINDS}")),
    }
}

/// Refuses keys that a kind has no use for.
fn check_keys(table: &SinkTable, kind: &str) -> Result<(), String> {
    let is_exec = kind == "exec";
    let is_alert = kind.starts_with("alertmanager");
    let has_url = !table.url.is_empty() || table.url_file.is_some() || table.url_env.is_some();
    let has_credentials = table.bearer_token_file.is_some()
        || table.bearer_token_env.is_some()
        || !table.basic_auth_user.is_empty()
        || table.basic_auth_password_file.is_some()
        || table.basic_auth_password_env.is_some();
    let signs = table.signing_secret_file.is_some() || table.signing_secret_env.is_some();
    let unfit = [
        ("command", !table.command.is_empty() && !is_exec),
        ("pass_env", !table.pass_env.is_empty() && !is_exec),
        ("url", has_url && is_exec),
        ("bearer_token or basic_auth", has_credentials && is_exec),
        (
            "signing_secret",
            signs && (is_exec || kind == "alertmanager"),
        ),
        ("ca_file", table.ca_file.is_some() && is_exec),
        ("format", !table.format.is_empty() && kind != "cloudevents"),
        ("labels", !table.labels.is_empty() && !is_alert),
        (
            "transitions",
            !table.transitions.is_empty() && kind == "alertmanager",
        ),
    ];
    match unfit.into_iter().find(|(_, is_unfit)| *is_unfit) {
        Some((key, _)) => Err(format!("`{key}` does not go with kind `{kind}`")),
        None => Ok(()),
    }
}

fn filter(table: &mut SinkTable) -> Result<SinkFilter, String> {
    let request = FilterRequest {
        mode: Mode::Incidents,
        namespaces: std::mem::take(&mut table.namespaces),
        ..FilterRequest::default()
    };
    let severity = match &*table.severity {
        "" | "info" => Severity::Info,
        "warning" => Severity::Warning,
        "critical" => Severity::Critical,
        other => {
            return Err(format!(
                "`severity` is `{other}`, but must be info, warning or critical"
            ));
        }
    };
    let mut detectors = BTreeSet::new();
    for name in &table.detectors {
        let parsed = name.parse::<DetectorName>();
        let parsed = parsed.map_err(|error| format!("`detectors` has `{name}`: {error}"))?;
        detectors.insert(parsed.as_str().to_owned());
    }
    let mut transitions = Transitions {
        opened: false,
        changed: false,
        resolved: false,
    };
    for word in &table.transitions {
        match &**word {
            "opened" => transitions.opened = true,
            "changed" => transitions.changed = true,
            "resolved" => transitions.resolved = true,
            other => {
                return Err(format!(
                    "`transitions` has `{other}`, but takes opened, changed and resolved"
                ));
            }
        }
    }
    Ok(SinkFilter {
        contexts: std::mem::take(&mut table.contexts),
        filters: request
            .try_into()
            .map_err(|error: kubecrier_core::filters::FilterError| error.to_string())?,
        severity,
        detectors,
        transitions: if table.transitions.is_empty() {
            Transitions::ENDS
        } else {
            transitions
        },
    })
}

fn target(
    table: SinkTable,
    kind: &str,
    allowed: &AllowedAddresses,
) -> Result<TargetConfig, String> {
    if kind == "exec" {
        let mut command = table.command.into_iter();
        let program = command.next().map(PathBuf::from);
        let program = program.filter(|program| program.is_absolute());
        return Ok(TargetConfig::Exec(ExecTarget {
            program: program.ok_or("`command` must begin with the absolute path of a program")?,
            arguments: command.collect(),
            passed: table.pass_env,
        }));
    }
    if let Some(name) = table.labels.keys().find(|name| !is_label_name(name)) {
        return Err(format!("`labels` has `{name}`, which no label is called"));
    }
    let http = HttpTarget {
        url: url(&table.url, table.url_file, table.url_env, allowed)?,
        credentials: credentials(
            secret(
                "bearer_token",
                table.bearer_token_file,
                table.bearer_token_env,
            )?,
            table.basic_auth_user,
            secret(
                "basic_auth_password",
                table.basic_auth_password_file,
                table.basic_auth_password_env,
            )?,
        )?,
        signing_secrets: secret(
            "signing_secret",
            table.signing_secret_file,
            table.signing_secret_env,
        )?,
        ca_file: table.ca_file,
        allowed: allowed.clone(),
    };
    let labels = table.labels;
    Ok(match kind {
        "alertmanager" => TargetConfig::Alertmanager { http, labels },
        "alertmanager-webhook" => TargetConfig::AlertmanagerWebhook { http, labels },
        "a2a" => TargetConfig::A2a { http },
        _ => TargetConfig::CloudEvents {
            http,
            mode: match &*table.format {
                "" | "structured" => ContentMode::Structured,
                "binary" => ContentMode::Binary,
                other => {
                    return Err(format!(
                        "`format` is `{other}`, but must be structured or binary"
                    ));
                }
            },
        },
    })
}

fn url(
    text: &str,
    file: Option<PathBuf>,
    variable: Option<String>,
    allowed: &AllowedAddresses,
) -> Result<TargetUrl, String> {
    let secret = secret("url", file, variable)?;
    match (text, secret) {
        ("", Some(secret)) => Ok(TargetUrl::Secret(secret)),
        ("", None) => Err("it has no URL: write `url`, `url_file` or `url_env`".to_owned()),
        (_, Some(_)) => Err("write one of `url`, `url_file` and `url_env`".to_owned()),
        (text, None) => {
            let url = TargetUrl::parse(text).map_err(|error| format!("its URL must be {error}"))?;
            // Names are checked when they are resolved.
            let checked = allowed.check_literal(url.host().unwrap_or_default());
            checked.map_err(|error| error.to_string())?;
            Ok(TargetUrl::Known(url))
        }
    }
}

fn credentials(
    token: Option<SecretSource>,
    user: String,
    password: Option<SecretSource>,
) -> Result<Option<Credentials>, String> {
    match (token, &*user, password) {
        (None, "", None) => Ok(None),
        (Some(token), "", None) => Ok(Some(Credentials::Bearer(token))),
        (None, _, Some(password)) if !user.is_empty() => {
            Ok(Some(Credentials::Basic { user, password }))
        }
        (Some(_), ..) => Err("write a bearer token or basic authentication, not both".to_owned()),
        (None, ..) => Err("`basic_auth_user` needs `basic_auth_password_file` or \
                           `basic_auth_password_env`, and these need it"
            .to_owned()),
    }
}

fn secret(
    key: &str,
    file: Option<PathBuf>,
    variable: Option<String>,
) -> Result<Option<SecretSource>, String> {
    match (file, variable) {
        (None, None) => Ok(None),
        (Some(path), None) => Ok(Some(SecretSource::File(path))),
        (None, Some(name)) => Ok(Some(SecretSource::Environment(name))),
        (Some(_), Some(_)) => Err(format!("write one of `{key}_file` and `{key}_env`")),
    }
}

#[cfg(test)]
mod tests;
