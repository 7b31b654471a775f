use proptest::prelude::*;

use super::*;
use crate::{cli::Settings, config::Config};

fn read_file(text: &str) -> Result<Vec<SinkConfig>, String> {
    let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
    let config = Config::try_from(settings).map_err(|error| error.to_string())?;
    Ok(config.sinks)
}

fn flags(urls: &[&str], allowed: &[&str]) -> Result<Vec<SinkConfig>, String> {
    let arguments = urls.iter().flat_map(|url| ["--sink", url]);
    let allowed = allowed.iter().flat_map(|entry| ["--sink-allow", entry]);
    let arguments = ["kubecrier"].into_iter().chain(arguments).chain(allowed);
    let config = Config::load(arguments.map(Into::into), []);
    config
        .map(|config| config.sinks)
        .map_err(|error| error.to_string())
}

#[test]
fn a_url_says_what_kind_of_sink_it_is() {
    let urls = [
        "alertmanager+http://alertmanager.monitoring.svc:9093/prefix",
        "alertmanager-webhook+https://robusta.example/api/alerts",
        "cloudevents+https://events.example",
        "a2a+https://kagent.example/api/a2a/kagent/k8s-agent",
        "exec:/usr/local/bin/page",
    ];
    let sinks = flags(&urls, &[]).unwrap();
    let names: Vec<_> = sinks.iter().map(|sink| &*sink.name).collect();
    let expected = [
        "alertmanager-1",
        "alertmanager-webhook-2",
        "cloudevents-3",
        "a2a-4",
        "exec-5",
    ];
    assert_eq!(names, expected);
    let TargetConfig::Alertmanager { http, .. } = &sinks[0].target else {
        panic!("{:?}", sinks[0])
    };
    let shown = format!("{:?}", http.url);
    assert!(
        shown.contains("http://alertmanager.monitoring.svc:9093/prefix"),
        "{shown}"
    );
    assert_eq!(sinks[4].timeout, Duration::from_mins(1));
}

#[test]
fn a_table_says_everything() {
    let sinks = read_file(
        r#"
        sink_allow = ["10.0.0.0/8"]
        [[sink]]
        kind = "cloudevents"
        url = "https://10.1.2.3/hook"
        name = "hook"
        contexts = ["dev", "prod"]
        namespaces = ["shop", "team-*"]
        severity = "warning"
        detectors = ["crash-loop"]
        transitions = ["opened", "changed"]
        format = "binary"
        bearer_token_file = "/run/secrets/token"
        signing_secret_env = "HOOK_SECRETS"
        ca_file = "/etc/ca.pem"
        timeout = "5s"
        queue_max = 7
        [[sink]]
        url = "alertmanager+https://alertmanager.example"
        basic_auth_user = "crier"
        basic_auth_password_env = "PASSWORD"
        labels = { team = "shop" }
        "#,
    );
    let sinks = sinks.unwrap();
    assert_eq!(sinks.len(), 2);
    assert_eq!((sinks[0].queue_max, sinks[0].timeout.as_secs()), (7, 5));
    assert!(!sinks[0].filter.transitions.resolved && sinks[0].filter.transitions.changed);
    let TargetConfig::CloudEvents { http, mode } = &sinks[0].target else {
        panic!("{:?}", sinks[0])
    };
    assert_eq!(*mode, ContentMode::Binary);
    assert!(http.credentials.is_some() && http.signing_secrets.is_some());
    assert_eq!(read_file("sink = [\"exec:/bin/true\"]").unwrap().len(), 1);
}

#[test]
fn what_a_sink_cannot_be_is_said_with_what_to_do() {
    let table = |lines: &str| read_file(&format!("[[sink]]\n{lines}")).unwrap_err();
    let good = "kind = \"a2a\"\nurl = \"https://a.example\"\n";
    for (lines, part) in [
        ("", "it has no kind: write `kind`"),
        ("kind = \"slack\"", "its kind must be alertmanager, "),
        ("kind = \"a2a\"", "it has no URL: write `url`, `url_file`"),
        ("kind = \"a2a\"\nurl = \"exec:/x\"", "name different kinds"),
        (
            "kind = \"a2a\"\nurl = \"example\"",
            "its URL must be a URL that begins with http://",
        ),
        ("kind = \"exec\"\ncommand = [\"page\"]", "the absolute path"),
        (
            "kind = \"exec\"\ncommand = [\"/x\"]\nca_file = \"/x\"",
            "`ca_file` does not go with kind `exec`",
        ),
        (
            &format!("{good}severity = \"bad\""),
            "info, warning or critical",
        ),
        (
            &format!("{good}detectors = [\"nope\"]"),
            "`detectors` has `nope`",
        ),
        (
            &format!("{good}transitions = [\"closed\"]"),
            "opened, changed and resolved",
        ),
        (
            &format!("{good}namespaces = [\"A b\"]"),
            "which no namespace is called",
        ),
        (
            &format!("{good}labels = {{ a = \"b\" }}"),
            "`labels` does not go with kind `a2a`",
        ),
        (
            &format!("{good}bearer_token_file = \"/a\"\nbearer_token_env = \"A\""),
            "one of `bearer_token_file` and",
        ),
        (
            &format!("{good}basic_auth_user = \"a\""),
            "needs `basic_auth_password_file`",
        ),
        (
            &format!("{good}url_env = \"A\""),
            "one of `url`, `url_file`",
        ),
        (&format!("{good}timeout = \"1h\""), "from 1s to 30m"),
        (&format!("{good}queue_max = 0"), "from 1 to 100000"),
        (&format!("{good}name = \"A B\""), "lower-case letters"),
        (&format!("{good}tokn = 1"), "tokn"),
    ] {
        let error = table(lines);
        assert!(error.contains(part), "{part} in {error}");
    }
    let twice = read_file(&format!(
        "[[sink]]\n{good}name = \"x\"\n[[sink]]\n{good}name = \"x\""
    ));
    assert!(
        twice
            .unwrap_err()
            .contains("sink `x`: another one has this name")
    );
    let error = flags(&["cloudevents+https://user:hunter2@a.example/s3cret"], &[]).unwrap_err();
    assert!(error.contains("basic_auth_password_file"), "{error}");
    assert!(
        !error.contains("hunter2") && !error.contains("s3cret"),
        "{error}"
    );
}

#[test]
fn an_internal_address_needs_the_flag_that_the_error_names() {
    for url in [
        "http://127.0.0.1:9093",
        "http://localhost:9093",
        "http://169.254.169.254",
    ] {
        let url = format!("alertmanager+{url}");
        let error = flags(&[&url], &[]).unwrap_err();
        let flag = error.split("add --sink-allow ").nth(1).unwrap();
        assert_eq!(flags(&[&url], &[flag]).unwrap().len(), 1);
    }
    let error = flags(&[], &["http://x"]).unwrap_err();
    assert!(error.contains("`sink-allow` is `http://x`"), "{error}");
}

proptest! {
    #[test]
    fn fuzz_urls_are_read_or_refused(url in "[a-z0-9+:/@.?=-]{0,40}|.{0,40}") {
        let table = SinkTable { url, ..SinkTable::default() };
        let _read = read(vec![SinkEntry(table)], &[]);
    }
}
