//! The MCP clients that are known: where each keeps its servers, and how it writes them down.
//! `doctor` reads those files, `install` changes them.

mod format;
mod paths;

use std::{fs, io, path::Path};

use clap::ValueEnum;

pub(crate) use self::{
    format::{FileFormat, ParseError, json_options},
    paths::{BaseDir, SearchPaths},
};

/// Larger than any configuration file in use.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// The name of an MCP client on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names of programs")]
pub enum ClientName {
    ClaudeCode,
    ClaudeDesktop,
    #[value(name = "vscode")]
    VsCode,
    CopilotCli,
    Cursor,
    Windsurf,
    Codex,
    GeminiCli,
    Zed,
    #[value(name = "opencode")]
    OpenCode,
}

/// An MCP client, as it is documented.
#[derive(Debug)]
pub(crate) struct McpClient {
    pub(crate) id: ClientName,
    pub(crate) name: &'static str,
    /// A project's files before the user's; of two for the same, the one that a client makes first.
    pub(crate) files: &'static [ClientFile],
    pub(crate) url_handling: UrlHandling,
    /// What the client does with a push, where that was tried.
    pub(crate) pushes: Option<&'static str>,
}

/// A configuration file of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFile {
    pub(crate) base: BaseDir,
    pub(crate) path: &'static str,
    pub(crate) format: FileFormat,
    /// The key of the object with the servers.
    pub(crate) key: &'static str,
}

/// The transport that a client uses for a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlHandling {
    /// Streamable HTTP, unless the entry has another type.
    StreamableHttp,
    /// None, unless the entry has `"type": "http"`.
    NeedsType,
    /// The older SSE transport, unless the key is `httpUrl`.
    NeedsHttpUrl,
}

/// The known clients. What they do with pushes was seen in the versions named.
pub(crate) static CLIENTS: [McpClient; 10] = [
    McpClient {
        id: ClientName::ClaudeCode,
        name: "Claude Code",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".mcp.json",
                FileFormat::Json,
                "mcpServers",
            ),
            ClientFile::new(
                BaseDir::ClaudeCode,
                ".claude.json",
                FileFormat::Json,
                "mcpServers",
            ),
        ],
        url_handling: UrlHandling::NeedsType,
        pushes: Some("takes pushes and shows the model none of them (seen with 2.1.210)"),
    },
    McpClient {
        id: ClientName::ClaudeDesktop,
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
        id: ClientName::VsCode,
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
        id: ClientName::CopilotCli,
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
        id: ClientName::Cursor,
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
        id: ClientName::Windsurf,
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
        id: ClientName::Codex,
        name: "Codex",
        files: &[
            ClientFile::new(
                BaseDir::Project,
                ".codex/config.toml",
                FileFormat::Toml,
                "mcp_servers",
            ),
            ClientFile::new(
                BaseDir::Codex,
                "config.toml",
                FileFormat::Toml,
                "mcp_servers",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: Some("takes pushes and shows the model none of them (seen with 0.144.4)"),
    },
    McpClient {
        id: ClientName::GeminiCli,
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
        id: ClientName::Zed,
        name: "Zed",
        files: &[ClientFile::new(
            BaseDir::Zed,
            "settings.json",
            FileFormat::Jsonc,
            "context_servers",
        )],
        url_handling: UrlHandling::StreamableHttp,
        pushes: None,
    },
    McpClient {
        id: ClientName::OpenCode,
        name: "opencode",
        files: &[
            ClientFile::new(BaseDir::Project, "opencode.json", FileFormat::Jsonc, "mcp"),
            ClientFile::new(BaseDir::Project, "opencode.jsonc", FileFormat::Jsonc, "mcp"),
            ClientFile::new(
                BaseDir::Xdg,
                "opencode/opencode.json",
                FileFormat::Jsonc,
                "mcp",
            ),
            ClientFile::new(
                BaseDir::Xdg,
                "opencode/opencode.jsonc",
                FileFormat::Jsonc,
                "mcp",
            ),
        ],
        url_handling: UrlHandling::StreamableHttp,
        pushes: Some("takes log messages and changed tools, and drops other pushes"),
    },
];

/// The text of a configuration file.
///
/// # Errors
///
/// Why it cannot be read, without a word of its content.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > FILE_BYTES_MAX {
        return Err(format!("it has {} MiB", about.len() >> 20));
    }
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    })
}

// === impl ClientName ===

impl ClientName {
    /// The client of that name.
    pub(crate) fn about(self) -> &'static McpClient {
        // A test compares the order of the table with that of the names.
        &CLIENTS[self as usize]
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_name_of_its_client() {
        assert_eq!(ClientName::value_variants().len(), CLIENTS.len());
        for name in ClientName::value_variants() {
            assert_eq!(name.about().id, *name);
        }
    }
}
