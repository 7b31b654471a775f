//! The configuration files of MCP clients: what they say of kubecrier, and whether
//! that can work. They are only read, and nothing secret in them is repeated.

mod entry;
mod judge;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, stream};

use self::entry::Server;
use super::report::{Finding, Section};
use kubecrier_redact::Redactor;

/// Larger than any that people keep.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Files that are looked at at once: a server that does not answer costs its time
/// once.
const AT_ONCE: usize = 16;

/// Where this process would find things.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) home: Option<PathBuf>,
    /// Where programs with windows keep their settings.
    pub(super) settings: Option<PathBuf>,
    /// The project.
    pub(super) here: Option<PathBuf>,
    /// Where programs are.
    pub(super) path: Vec<PathBuf>,
}

/// An MCP client, as its documentation has it.
#[derive(Debug)]
struct Client {
    name: &'static str,
    files: &'static [ClientFile],
    reads: Reads,
    /// What becomes of a push there, if somebody has tried.
    pushes: Option<&'static str>,
}

/// One of its files.
#[derive(Clone, Copy, Debug)]
struct ClientFile {
    place: Place,
    path: &'static str,
    form: Form,
    /// The object that has the servers.
    key: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Home,
    Settings,
    Here,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    /// With comments, and commas at the end.
    Jsonc,
    Toml,
}

/// What a client takes an address for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// For Streamable HTTP, unless the entry says otherwise.
    Usual,
    /// For nothing, unless the entry says `"type": "http"`.
    TypeNeeded,
    /// For the transport before it, unless it stands under `httpUrl`.
    HttpUrl,
}

/// Who has read a push and not shown it to the model, and in which version.
const CLIENTS: [Client; 10] = [
    Client {
        name: "Claude Code",
        files: &[
            ClientFile::new(Place::Here, ".mcp.json", Form::Json, "mcpServers"),
            ClientFile::new(Place::Home, ".claude.json", Form::Json, "mcpServers"),
        ],
        reads: Reads::TypeNeeded,
        pushes: Some("takes pushes and shows the model none of them (seen with 2.1.210)"),
    },
    Client {
        name: "Claude Desktop",
        files: &[ClientFile::new(
            Place::Settings,
            "Claude/claude_desktop_config.json",
            Form::Json,
            "mcpServers",
        )],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "VS Code",
        files: &[
            ClientFile::new(Place::Here, ".vscode/mcp.json", Form::Jsonc, "servers"),
            ClientFile::new(
                Place::Settings,
                "Code/User/mcp.json",
                Form::Jsonc,
                "servers",
            ),
        ],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "Copilot CLI",
        files: &[ClientFile::new(
            Place::Home,
            ".copilot/mcp-config.json",
            Form::Jsonc,
            "mcpServers",
        )],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "Cursor",
        files: &[
            ClientFile::new(Place::Here, ".cursor/mcp.json", Form::Jsonc, "mcpServers"),
            ClientFile::new(Place::Home, ".cursor/mcp.json", Form::Jsonc, "mcpServers"),
        ],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "Windsurf",
        files: &[ClientFile::new(
            Place::Home,
            ".codeium/windsurf/mcp_config.json",
            Form::Jsonc,
            "mcpServers",
        )],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "Codex",
        files: &[
            ClientFile::new(Place::Here, ".codex/config.toml", Form::Toml, "mcp_servers"),
            ClientFile::new(Place::Home, ".codex/config.toml", Form::Toml, "mcp_servers"),
        ],
        reads: Reads::Usual,
        pushes: Some("takes pushes and shows the model none of them (seen with 0.144.4)"),
    },
    Client {
        name: "Gemini CLI",
        files: &[
            ClientFile::new(
                Place::Here,
                ".gemini/settings.json",
                Form::Jsonc,
                "mcpServers",
            ),
            ClientFile::new(
                Place::Home,
                ".gemini/settings.json",
                Form::Jsonc,
                "mcpServers",
            ),
        ],
        reads: Reads::HttpUrl,
        pushes: None,
    },
    Client {
        name: "Zed",
        files: &[ClientFile::new(
            Place::Home,
            ".config/zed/settings.json",
            Form::Jsonc,
            "context_servers",
        )],
        reads: Reads::Usual,
        pushes: None,
    },
    Client {
        name: "opencode",
        files: &[
            ClientFile::new(Place::Here, "opencode.json", Form::Jsonc, "mcp"),
            ClientFile::new(
                Place::Home,
                ".config/opencode/opencode.json",
                Form::Jsonc,
                "mcp",
            ),
        ],
        reads: Reads::Usual,
        pushes: Some("takes log messages and changed tools, and drops other pushes"),
    },
];

/// Looks into the files of all clients. What is not there is no failure.
pub(super) async fn look(places: &Places, redactor: &Redactor) -> Vec<Section> {
    let files = CLIENTS.iter().flat_map(|client| {
        let path = |file: &ClientFile| Some((*file, places.find(file)?));
        client
            .files
            .iter()
            .filter_map(path)
            .map(move |(file, path)| (client, file, path))
    });
    let looked = files.map(|(client, file, path)| look_into(client, file, path, places, redactor));
    let looked: Vec<_> = stream::iter(looked).buffered(AT_ONCE).collect().await;
    let count = looked.len();
    let sections: Vec<_> = looked.into_iter().flatten().collect();
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

/// What one file says of kubecrier; nothing if it says nothing.
async fn look_into(
    client: &Client,
    file: ClientFile,
    path: PathBuf,
    places: &Places,
    redactor: &Redactor,
) -> Option<Section> {
    let about = format!("{}, {}", client.name, places.shown(&path));
    let text = match read(&path) {
        Ok(text) => text,
        Err(why) => {
            let finding = Finding::note(format!("cannot be read: {why}"));
            return Some(Section::new(about, vec![finding]));
        }
    };
    let servers = match entry::read(&text, file.form, file.key) {
        Ok(servers) => servers,
        // What a client cannot read concerns us only if we are in it.
        Err(_) if !text.to_lowercase().contains("kubecrier") => return None,
        Err(broken) => {
            let finding = Finding::fail(format!("line {}: {}", broken.line, broken.why));
            let hint = format!("{} reads nothing of it until that is mended", client.name);
            return Some(Section::new(about, vec![finding.hint(hint)]));
        }
    };
    let ours = servers.iter().filter(|server| server.is_ours());
    let judged = ours.map(|server| judge::judge(client, server, places));
    let findings: Vec<Vec<Finding>> = stream::iter(judged).buffered(AT_ONCE).collect().await;
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
    const fn new(place: Place, path: &'static str, form: Form, key: &'static str) -> Self {
        Self {
            place,
            path,
            form,
            key,
        }
    }
}

// === impl Places ===

impl Places {
    pub(super) fn of_this_process() -> Self {
        let named = |name: &str| {
            let value = env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let home = named("HOME");
        let settings = if cfg!(target_os = "macos") {
            (home.as_ref()).map(|home| home.join("Library/Application Support"))
        } else {
            let usual = || Some(home.as_ref()?.join(".config"));
            named("XDG_CONFIG_HOME").or_else(usual)
        };
        let path = env::var_os("PATH").unwrap_or_default();
        Self {
            home,
            settings,
            here: env::current_dir().ok(),
            path: env::split_paths(&path).collect(),
        }
    }

    /// A file that is there; a folder or a pipe of that name is none.
    fn find(&self, file: &ClientFile) -> Option<PathBuf> {
        let place = match file.place {
            Place::Home => &self.home,
            Place::Settings => &self.settings,
            Place::Here => &self.here,
        };
        // At home the project's file and one's own may be the same.
        if matches!(file.place, Place::Here) && self.here == self.home {
            return None;
        }
        let path = place.as_ref()?.join(file.path);
        path.is_file().then_some(path)
    }

    /// As people write it.
    fn shown(&self, path: &Path) -> String {
        let below = |place: &Option<PathBuf>| {
            let rest = path.strip_prefix(place.as_ref()?).ok()?;
            Some(rest.display().to_string())
        };
        if let Some(rest) = below(&self.here) {
            return rest;
        }
        below(&self.home).map_or_else(|| path.display().to_string(), |rest| format!("~/{rest}"))
    }
}

impl Server {
    /// Whether it is meant to be kubecrier: by its name, or by what is started or
    /// reached.
    fn is_ours(&self) -> bool {
        let named = |text: &str| text.to_lowercase().contains("kubecrier");
        named(&self.name) || self.launch.names_us()
    }
}

#[cfg(test)]
mod tests;
