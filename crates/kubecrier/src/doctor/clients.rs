//! Checks the configuration files of MCP clients: the entries for kubecrier, and whether
//! they can work. The files are only read, and no secret in them is repeated.

mod check;
mod entry;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, stream};

use self::entry::ServerEntry;
use super::report::{Finding, Section};
use kubecrier_redact::Redactor;

/// Larger than any configuration file in use.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Files and entries that are checked at once, so that servers that do not answer time out
/// side by side.
const CONCURRENCY: usize = 16;

/// The folders in which files and programs are looked up.
#[derive(Clone, Debug)]
pub(super) struct SearchPaths {
    pub(super) home: Option<PathBuf>,
    /// The user's configuration folder, as desktop programs use it.
    pub(super) config: Option<PathBuf>,
    /// The working directory, which is the project's folder.
    pub(super) project: Option<PathBuf>,
    /// The folders of PATH.
    pub(super) programs: Vec<PathBuf>,
}

/// An MCP client, as it is documented.
#[derive(Debug)]
struct McpClient {
    name: &'static str,
    files: &'static [ClientFile],
    url_handling: UrlHandling,
    /// What the client does with a push, where that was tried.
    pushes: Option<&'static str>,
}

/// A configuration file of a client.
#[derive(Clone, Copy, Debug)]
struct ClientFile {
    base: BaseDir,
    path: &'static str,
    format: FileFormat,
    /// The key of the object with the servers.
    key: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum BaseDir {
    Home,
    Config,
    Project,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    Toml,
}

/// The transport that a client uses for a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlHandling {
    /// Streamable HTTP, unless the entry has another type.
    StreamableHttp,
    /// None, unless the entry has `"type": "http"`.
    NeedsType,
    /// The older SSE transport, unless the key is `httpUrl`.
    NeedsHttpUrl,
}

/// The known clients. What they do with pushes was seen in the versions named.
const CLIENTS: [McpClient; 10] = [
    McpClient {
        name: "Claude Code",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".mcp.json",
                FileFormat::Json,
                "mcpServers",
            ),
            ClientFile::new(
                BaseDir::Home,
                ".claude.json",
                FileFormat::Json,
                "mcpServers",
            ),
        ],
        url_handling: UrlHandling::NeedsType,
        pushes: Some("takes pushes and shows the model none of them (seen with 2.1.210)"),
    },
    McpClient {
        name: "Claude Desktop",
        files: &[ClientFile::new(
            BaseDir::Config,
            "Claude/claude_desktop_config.json",
            FileFormat::Json,
            "mcpServers",
        )],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "VS Code",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".vscode/mcp.json",
                FileFormat::Jsonc,
                "servers",
            ),
            ClientFile::new(
                BaseDir::Config,
                "Code/User/mcp.json",
                FileFormat::Jsonc,
                "servers",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "Copilot CLI",
        files: &[ClientFile::new(
            BaseDir::Home,
            ".copilot/mcp-config.json",
            FileFormat::Jsonc,
            "mcpServers",
        )],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "Cursor",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".cursor/mcp.json",
                FileFormat::Jsonc,
                "mcpServers",
            ),
            ClientFile::new(
                BaseDir::Home,
                ".cursor/mcp.json",
                FileFormat::Jsonc,
                "mcpServers",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "Windsurf",
        files: &[ClientFile::new(
            BaseDir::Home,
            ".codeium/windsurf/mcp_config.json",
            FileFormat::Jsonc,
            "mcpServers",
        )],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "Codex",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".codex/config.toml",
                FileFormat::Toml,
                "mcp_servers",
            ),
            ClientFile::new(
                BaseDir::Home,
                ".codex/config.toml",
                FileFormat::Toml,
                "mcp_servers",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: Some("takes pushes and shows the model none of them (seen with 0.144.4)"),
    },
    McpClient {
        name: "Gemini CLI",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".gemini/settings.json",
                FileFormat::Jsonc,
                "mcpServers",
            ),
            ClientFile::new(
                BaseDir::Home,
                ".gemini/settings.json",
                FileFormat::Jsonc,
                "mcpServers",
            ),
        ],
        url_handling: UrlHandling::NeedsHttpUrl,
        pushes: None,
    },
    McpClient {
        name: "Zed",
        files: &[ClientFile::new(
            BaseDir::Home,
            ".config/zed/settings.json",
            FileFormat::Jsonc,
            "context_servers",
        )],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        name: "opencode",
        files: &[
            ClientFile::new(BaseDir::Project, "opencode.json", FileFormat::Jsonc, "mcp"),
            ClientFile::new(
                BaseDir::Home,
                ".config/opencode/opencode.json",
                FileFormat::Jsonc,
                "mcp",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: Some("takes log messages and changed tools, and drops other pushes"),
    },
];

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
    let names = CLIENTS.map(|client| client.name).join(", ");
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

fn read(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > FILE_BYTES_MAX {
        return Err(format!("it has {} MiB", about.len() >> 20));
    }
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    })
}

// === impl ClientFile ===

impl ClientFile {
    const fn new(base: BaseDir, path: &'static str, format: FileFormat, key: &'static str) -> Self {
        Self {
            base,
            path,
            format,
            key,
        }
    }
}

// === impl SearchPaths ===

impl SearchPaths {
    pub(super) fn of_this_process() -> Self {
        let named = |name: &str| {
            let value = env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let home = named("HOME");
        let config = if cfg!(target_os = "macos") {
            (home.as_ref()).map(|home| home.join("Library/Application Support"))
        } else {
            let default = || Some(home.as_ref()?.join(".config"));
            named("XDG_CONFIG_HOME").or_else(default)
        };
        let path = env::var_os("PATH").unwrap_or_default();
        Self {
            home,
            config,
            project: env::current_dir().ok(),
            programs: env::split_paths(&path).collect(),
        }
    }

    /// The path of a file that exists; a folder or a pipe of that name does not count.
    fn find(&self, file: &ClientFile) -> Option<PathBuf> {
        let base = match file.base {
            BaseDir::Home => &self.home,
            BaseDir::Config => &self.config,
            BaseDir::Project => &self.project,
        };
        // In the home folder, the project's file and the user's may be the same.
        if matches!(file.base, BaseDir::Project) && self.project == self.home {
            return None;
        }
        let path = base.as_ref()?.join(file.path);
        path.is_file().then_some(path)
    }

    /// The path relative to the project or to `~`.
    fn display(&self, path: &Path) -> String {
        let below = |base: &Option<PathBuf>| {
            let rest = path.strip_prefix(base.as_ref()?).ok()?;
            Some(rest.display().to_string())
        };
        if let Some(rest) = below(&self.project) {
            return rest;
        }
        below(&self.home).map_or_else(|| path.display().to_string(), |rest| format!("~/{rest}"))
    }
}

impl ServerEntry {
    /// Whether the entry is for kubecrier: by its name, by its command or by its URL.
    fn is_kubecrier(&self) -> bool {
        let named = |text: &str| text.to_lowercase().contains("kubecrier");
        named(&self.name) || self.connection.names_kubecrier()
    }
}

#[cfg(test)]
mod tests;
