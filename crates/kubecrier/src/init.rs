//! `kubecrier init DIR`: writes an example project, and says how to serve it.

use anyhow::Result;
use kubecrier_client::{OutputError, Screen};

use crate::cli::InitArgs;

/// Writes the files and lists them.
pub async fn run(args: &InitArgs) -> Result<()> {
    let files = kubecrier_project::init(&args.dir)?;
    let dir = args.dir.display();
    let mut lines: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    lines.extend([
        String::new(),
        format!("Serve them:  kubecrier --port 8080 --project-root {dir}"),
        format!("What is what: {dir}/README.md"),
    ]);
    let shown = Screen::new(false).show(&lines).await;
    Ok(shown.or_else(OutputError::ignore_closed_pipe)?)
}
