//! What is known of clients by the name and version that they give themselves. Each line was
//! seen with the real client (docs/clients.md); a client that is not here is taken at its word.

use rmcp::model::Implementation;

/// A client that was watched.
struct KnownClient {
    /// The name in its `clientInfo`; longer names that go on with `-` are the same.
    name: &'static str,
    /// What people call it.
    title: &'static str,
    /// Declares tasks and refuses the answer that is one, up to this version.
    refuses_tasks_until: Option<&'static str>,
}

/// None of them shows a notification to its model.
const CLIENTS: [KnownClient; 7] = [
    client("claude-code", "Claude Code"),
    client("codex-mcp-client", "Codex"),
    client("opencode", "OpenCode"),
    KnownClient {
        refuses_tasks_until: Some("1.0.102"),
        ..client("copilot-cli", "Copilot CLI")
    },
    // The same client, as older releases call themselves.
    KnownClient {
        refuses_tasks_until: Some("1.0.102"),
        ..client("github-copilot-developer", "Copilot CLI")
    },
    client("gemini-cli-mcp-client", "Gemini CLI"),
    client("goose", "goose"),
];

const fn client(name: &'static str, title: &'static str) -> KnownClient {
    KnownClient {
        name,
        title,
        refuses_tasks_until: None,
    }
}

/// The name that people know, of a client that shows no notification to its model.
pub(super) fn drops_notifications(client: &Implementation) -> Option<&'static str> {
    find(client).map(|known| known.title)
}

/// Whether the client refuses tasks although it declares them. A version that cannot be
/// compared, or is newer than what was tried, is taken at its word.
pub(super) fn refuses_tasks(client: &Implementation) -> bool {
    let until = find(client).and_then(|known| known.refuses_tasks_until);
    until.is_some_and(|until| match (numbers(&client.version), numbers(until)) {
        (Some(version), Some(until)) => version <= until,
        _ => false,
    })
}

fn find(client: &Implementation) -> Option<&'static KnownClient> {
    let name = client.name.to_ascii_lowercase();
    CLIENTS.iter().find(|known| {
        let rest = name.strip_prefix(known.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// The numbers of a version, without what follows them.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let end = version.find(['-', '+', ' ']).unwrap_or(version.len());
    version[..end]
        .split('.')
        .map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str, version: &str) -> Implementation {
        Implementation::new(name, version)
    }

    #[test]
    fn a_client_that_refuses_tasks_gets_the_call_and_a_newer_one_its_word() {
        for (name, version, refuses) in [
            ("copilot-cli", "1.0.102", true),
            ("copilot-cli", "1.0.57-3", true),
            ("github-copilot-developer", "0.9", true),
            ("copilot-cli", "1.0.103", false),
            ("copilot-cli", "1.1", false),
            ("copilot-cli", "nightly", false),
            ("claude-code", "2.1.325", false),
            ("copilot-clip", "1.0.102", false),
        ] {
            assert_eq!(
                refuses_tasks(&named(name, version)),
                refuses,
                "{name} {version}"
            );
        }
    }

    #[test]
    fn clients_that_drop_notifications_are_known_by_any_of_their_names() {
        for (name, title) in [
            ("claude-code", Some("Claude Code")),
            ("Codex-MCP-Client", Some("Codex")),
            ("gemini-cli-mcp-client-kubecrier", Some("Gemini CLI")),
            ("goose-desktop", Some("goose")),
            ("mongoose", None),
            ("claude-ai", None),
            ("", None),
        ] {
            assert_eq!(drops_notifications(&named(name, "1")), title, "{name}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_names_and_versions(name in ".{0,40}", version in ".{0,40}") {
            let client = named(&name, &version);
            prop_assert!(!refuses_tasks(&client) || drops_notifications(&client).is_some());
        }
    }
}
