//! `kubecrier install CLIENT`: writes kubecrier into the configuration of an MCP client, or takes
//! it out again. The change is shown first, and nothing else in the file is touched.

mod change;
mod document;
mod entry;
mod json;
mod store;
mod toml;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use anyhow::Result;
use futures_util::{Stream, StreamExt};
use kubecrier_client::Screen;
use kubecrier_redact::Redactor;

use self::{
    change::{Backup, Change},
    document::{Content, Document, EditError},
    store::{backup_path, read_if_there},
};
use crate::{
    cli::{InstallArgs, InstallScope},
    clients::{BaseDir, ClientFile, McpClient, SearchPaths},
};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The client has no files of projects.
    #[error("{client} has no configuration of a project\nhint: leave --scope out")]
    NoProjects {
        /// The client.
        client: &'static str,
    },
    /// The folder of the user, or the current one, is not known.
    #[error(
        "there is no folder in which {client} would keep its configuration\nhint: set HOME to the \
         folder of the user, and change to that of the project"
    )]
    NoFolder {
        /// The client.
        client: &'static str,
    },
    /// The client starts programs only.
    #[error(
        "the configuration file of {client} takes no URL\nhint: leave --url out, so that it starts \
         kubecrier itself"
    )]
    UrlNotTaken {
        /// The client.
        client: &'static str,
    },
    /// The client is not known to take a token out of a variable.
    #[error(
        "{client} is not known to take a token out of a variable\nhint: leave --token-env out, and \
         let the client ask for the header `Authorization: Bearer TOKEN`"
    )]
    TokenNotTaken {
        /// The client.
        client: &'static str,
    },
    /// This program does not know where it is.
    #[error("cannot find out where this program is: {source}\nhint: use --via npx or --via uvx")]
    Program {
        /// Why.
        source: io::Error,
    },
    /// This program is at a path that no configuration file can hold.
    #[error("this program is at `{}`, which is not UTF-8\nhint: move it", path.display())]
    ProgramPath {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file is broken.
    #[error(
        "line {line} of `{}`: {reason}; nothing was written\nhint: {client} reads nothing of it \
         until that is mended", path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// The client.
        client: &'static str,
    },
    /// The entry cannot be written without touching others.
    #[error(
        "`{}` is written in a way that kubecrier cannot change without touching other entries; \
         nothing was written\nhint: change it by hand, where `{key}` is", path.display()
    )]
    OnlyByHand {
        /// The file.
        path: PathBuf,
        /// The key of the servers.
        key: &'static str,
    },
    /// Nobody can be asked.
    #[error(
        "nothing was written: this is not a terminal, so nobody can be asked\nhint: --yes writes \
         what is shown above"
    )]
    Unconfirmed,
    /// The file was changed by something else.
    #[error("`{}` was changed in the meantime; nothing was written\nhint: try again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Shows the change, asks, and makes it; `false` if the answer was no.
///
/// # Errors
///
/// [`InstallError`], and nothing was written.
pub async fn run(
    args: &InstallArgs,
    redactor: &Redactor,
    mut stop: impl Stream<Item = ()> + Unpin,
) -> Result<bool> {
    let client = args.client.about();
    let paths = SearchPaths::of_this_process();
    let (file, path) = target(client, args.scope, &paths)?;
    let shown = paths.display(&path);
    let change = plan(args, &file, &path)?;
    let mut screen = Screen::new(false);
    if change.is_none() {
        let text = if args.undo {
            "does not have kubecrier"
        } else {
            "has kubecrier as it should be"
        };
        let mut lines = vec![format!("Nothing to do: {shown} of {} {text}.", client.name)];
        if args.undo && backup_path(&path).exists() {
            lines.push(format!("As it was before: {shown}.kubecrier-backup"));
        }
        screen.show(&lines).await?;
        return Ok(true);
    }
    let mut lines = vec![headline(&change, client, &shown), String::new()];
    // Neighbours of the entry may have secrets.
    let clean = |line: String| redactor.workload(&line).into_owned();
    lines.extend(change.lines().into_iter().map(clean));
    lines.push(String::new());
    screen.show(&lines).await?;
    if !args.yes {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(InstallError::Unconfirmed.into());
        }
        screen.write(b"Do it? [y/N] ").await?;
        if !is_confirmed(&mut stop).await? {
            screen.show(&["Nothing was written.".to_owned()]).await?;
            return Ok(false);
        }
    }
    store::apply(&path, &change)?;
    screen.show(&closing(args, &change, client, &shown)).await?;
    Ok(true)
}

/// The file that is changed: one that is there, or the one that the client would make.
fn target(
    client: &'static McpClient,
    scope: InstallScope,
    paths: &SearchPaths,
) -> Result<(ClientFile, PathBuf), InstallError> {
    let is_projects = scope == InstallScope::Project;
    let fits = |file: &&ClientFile| (file.base == BaseDir::Project) == is_projects;
    let files = || client.files.iter().filter(fits);
    let there = files().find(|file| paths.path(file).is_some_and(|path| path.is_file()));
    let Some(file) = there.or_else(|| files().next()) else {
        return Err(InstallError::NoProjects {
            client: client.name,
        });
    };
    match paths.path(file) {
        Some(path) => Ok((*file, path)),
        None => Err(InstallError::NoFolder {
            client: client.name,
        }),
    }
}

fn plan(args: &InstallArgs, file: &ClientFile, path: &Path) -> Result<Change, InstallError> {
    let document = Document::new(file);
    let before = read_if_there(path)?;
    let backup = read_if_there(&backup_path(path))?;
    let failed = |error| match error {
        EditError::Parse(error) => InstallError::Broken {
            path: path.to_owned(),
            line: error.line,
            reason: error.reason,
            client: args.client.about().name,
        },
        EditError::NoObject | EditError::OnlyByHand => InstallError::OnlyByHand {
            path: path.to_owned(),
            key: file.key,
        },
    };
    if args.undo {
        return undo(&document, before, backup).map_err(failed);
    }
    let node = entry::entry(args)?;
    install(&document, &Content::Entry(&node), before, backup).map_err(failed)
}

fn install(
    document: &Document,
    content: &Content<'_>,
    before: Option<String>,
    backup: Option<String>,
) -> Result<Change, EditError> {
    let text = before.as_deref().unwrap_or_default();
    let after = document.set(text, *content)?;
    // What is there is our own work, and what was there before it is kept.
    let is_ours = document.is_set(backup.as_deref().unwrap_or_default(), text);
    let backup = match (&before, is_ours) {
        // One of a file that is gone since.
        (None, _) => Backup::Remove,
        (Some(_), true) => Backup::Keep,
        (Some(_), false) => Backup::Write,
    };
    Ok(Change {
        before,
        after: Some(after),
        backup,
    })
}

/// Back to the copy, or to no file, if nothing but the entry has changed since; otherwise the
/// entry is cut out, and the copy is of no more use.
fn undo(
    document: &Document,
    before: Option<String>,
    backup: Option<String>,
) -> Result<Change, EditError> {
    let text = before.as_deref().unwrap_or_default();
    let (after, copy) = match backup {
        _ if !document.has(text)? => (before.clone(), Backup::Keep),
        Some(backup) if document.is_set(&backup, text) => (Some(backup), Backup::Remove),
        None if document.is_set("", text) => (None, Backup::Keep),
        _ => (Some(document.remove(text)?), Backup::Remove),
    };
    Ok(Change {
        before,
        after,
        backup: copy,
    })
}

/// Waits for a line on standard input; a signal is a no.
async fn is_confirmed(stop: &mut (impl Stream<Item = ()> + Unpin)) -> Result<bool> {
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    tokio::select! {
        line = line => {
            let line = line??;
            Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
        }
        _signal = stop.next() => Ok(false),
    }
}

fn headline(change: &Change, client: &McpClient, shown: &str) -> String {
    let verb = match (&change.before, &change.after) {
        (None, _) => "Make",
        (_, None) => "Remove",
        _ => "Change",
    };
    format!("{verb} {shown} of {}:", client.name)
}

fn closing(args: &InstallArgs, change: &Change, client: &McpClient, shown: &str) -> Vec<String> {
    use clap::ValueEnum;

    let name = client.name;
    if args.undo {
        return vec![format!("Done. {name} reads it when it starts again.")];
    }
    let value = args.client.to_possible_value();
    let value = value.as_ref().map_or(name, |value| value.get_name());
    let scope = match args.scope {
        InstallScope::User => "",
        InstallScope::Project => " --scope project",
    };
    let mut lines = vec![format!(
        "Done. {name} reads it when it starts again; `kubecrier doctor` checks it."
    )];
    if change.backup == Backup::Write && change.before.is_some() {
        lines.push(format!("As it was: {shown}.kubecrier-backup"));
    }
    lines.push(format!(
        "To take it back: kubecrier install {value}{scope} --undo"
    ));
    lines
}

// === impl InstallError ===

impl InstallError {
    /// Whether the user asked for what cannot be.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::NoProjects { .. }
            | Self::NoFolder { .. }
            | Self::UrlNotTaken { .. }
            | Self::TokenNotTaken { .. }
            | Self::Unconfirmed => true,
            Self::Program { .. }
            | Self::ProgramPath { .. }
            | Self::Unreadable { .. }
            | Self::Broken { .. }
            | Self::OnlyByHand { .. }
            | Self::Changed { .. }
            | Self::Write { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
