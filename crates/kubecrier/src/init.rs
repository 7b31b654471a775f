//! `kubecrier init DIR`: writes an example project, and says how to serve it. With `--agent`:
//! `agents` has the files with which an agent is told of incidents, `files` shows and writes
//! them.

mod agents;
mod files;

use std::path::Path;

use anyhow::Result;
use kubecrier_client::{Endpoint, OutputError, Screen};

use self::files::Plan;
use crate::cli::{Agent, InitArgs};

/// The URL cannot be written into scripts.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` has characters that a URL in a script must not have")]
pub struct UnfitUrl(String);

/// Writes the files, or shows those of an agent.
pub async fn run(args: &InitArgs) -> Result<()> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    let lines = match args.agent {
        Some(agent) => for_agent(agent, dir, args)?,
        None => project(dir)?,
    };
    let shown = Screen::new(false).show(&lines).await;
    Ok(shown.or_else(OutputError::ignore_closed_pipe)?)
}

fn project(dir: &Path) -> Result<Vec<String>> {
    let files = kubecrier_project::init(dir)?;
    let mut lines: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let dir = dir.display();
    lines.extend([
        String::new(),
        format!("Serve them:  kubecrier --port 8080 --project-root {dir}"),
        format!("What is what: {dir}/README.md"),
    ]);
    Ok(lines)
}

fn for_agent(agent: Agent, dir: &Path, args: &InitArgs) -> Result<Vec<String>> {
    if let Some(url) = &args.url {
        // What is wrong with it is said now, and not by each start of the agent.
        Endpoint::new(url, None)?;
        let is_fit =
            |one: char| one.is_ascii_alphanumeric() || "-._~:/?[]@!&()*+,;=%".contains(one);
        if !url.chars().all(is_fit) {
            return Err(UnfitUrl(url.clone()).into());
        }
    }
    let recipe = agents::recipe(agent, args.url.as_deref());
    let plan = Plan::new(dir, &recipe.files)?;
    let mut lines = if args.yes {
        plan.write(args.force)?
    } else {
        plan.preview()
    };
    lines.push(String::new());
    if args.yes || plan.is_done() {
        lines.extend(recipe.then);
    } else {
        lines.push("Nothing was written: --yes writes them.".to_owned());
    }
    Ok(lines)
}
