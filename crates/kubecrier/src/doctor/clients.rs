//! Checks the configuration files of MCP clients: the entries for kubecrier, and whether
//! they can work. The files are only read, and no secret in them is repeated.

mod check;
mod entry;

use std::path::PathBuf;

use futures_util::{StreamExt, stream};

use self::entry::ServerEntry;
use super::report::{Finding, Section};
use crate::clients::{CLIENTS, ClientFile, McpClient, SearchPaths, read};
use kubecrier_redact::Redactor;

/// Files and entries that are checked at once, so that servers that do not answer time out
/// side by side.
const CONCURRENCY: usize = 16;

/// Checks the files of all clients. A missing file is not a failure.
pub(super) async fn check_clients(paths: &SearchPaths, redactor: &Redactor) -> Vec<Section> {
    let files = CLIENTS.iter().flat_map(|client| {
        let path = |file: &ClientFile| Some((*file, paths.find(file)?));
        client
            .files
            .iter()
            .filter_map(path)
            .map(move |(file, path)| (client, file, path))
    });
    let checks = files.map(|(client, file, path)| check_file(client, file, path, paths, redactor));
    let checked: Vec<_> = stream::iter(checks).buffered(CONCURRENCY).collect().await;
    let count = checked.len();
    let sections: Vec<_> = checked.into_iter().flatten().collect();
    if !sections.is_empty() {
        return sections;
    }
    let text = match count {
        0 => "no configuration of an MCP client is here".to_owned(),
        1 => "the configuration of an MCP client is here; it does not name kubecrier".to_owned(),
        _ => format!("{count} configurations of MCP clients are here; none names kubecrier"),
    };
    let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
    let names = names.join(", ");
    let finding = Finding::ok(format!("{text} (looked for {names})"));
    vec![Section::new("clients", vec![finding])]
}

/// Checks the entries for kubecrier in a file; `None` if there are none.
async fn check_file(
    client: &McpClient,
    file: ClientFile,
    path: PathBuf,
    paths: &SearchPaths,
    redactor: &Redactor,
) -> Option<Section> {
    let about = format!("{}, {}", client.name, paths.display(&path));
    let text = match read(&path) {
        Ok(text) => text,
        Err(why) => {
            let finding = Finding::note(format!("cannot be read: {why}"));
            return Some(Section::new(about, vec![finding]));
        }
    };
    let servers = match entry::parse(&text, file.format, file.key) {
        Ok(servers) => servers,
        // A broken file matters only if it has an entry for kubecrier.
        Err(_) if !text.to_lowercase().contains("kubecrier") => return None,
        Err(error) => {
            let finding = Finding::fail(format!("line {}: {}", error.line, error.reason));
            let hint = format!("{} reads nothing of it until that is mended", client.name);
            return Some(Section::new(about, vec![finding.hint(hint)]));
        }
    };
    let entries = servers.iter().filter(|server| server.is_kubecrier());
    let checks = entries.map(|server| check::check_entry(client, server, paths));
    let findings: Vec<Vec<Finding>> = stream::iter(checks).buffered(CONCURRENCY).collect().await;
    let clean = |mut finding: Finding| {
        finding.text = redactor.workload(&finding.text).into_owned();
        finding.hint = finding
            .hint
            .map(|hint| redactor.workload(&hint).into_owned());
        finding
    };
    let findings: Vec<_> = findings.into_iter().flatten().map(clean).collect();
    (!findings.is_empty()).then(|| Section::new(about, findings))
}

// === impl ServerEntry ===

impl ServerEntry {
    /// Whether the entry is for kubecrier: by its name, by its command or by its URL.
    fn is_kubecrier(&self) -> bool {
        let named = |text: &str| text.to_lowercase().contains("kubecrier");
        named(&self.name) || self.connection.names_kubecrier()
    }
}

#[cfg(test)]
mod tests;
