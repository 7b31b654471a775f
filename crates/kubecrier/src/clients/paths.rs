//! The folders of configuration files, by system and environment.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::ClientFile;

/// A folder that paths of configuration files are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseDir {
    Home,
    /// The user's configuration folder, as desktop programs use it.
    Config,
    /// `~/.config` on every system, for programs of the terminal.
    Xdg,
    ClaudeCode,
    Codex,
    Zed,
    Project,
}

/// The folders in which files and programs are looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchPaths {
    pub(crate) home: Option<PathBuf>,
    /// The user's configuration folder, as desktop programs use it.
    pub(crate) config: Option<PathBuf>,
    /// `~/.config` on every system.
    pub(crate) xdg: Option<PathBuf>,
    /// The folder of `.claude.json`.
    pub(crate) claude_code: Option<PathBuf>,
    pub(crate) codex: Option<PathBuf>,
    pub(crate) zed: Option<PathBuf>,
    /// The working directory, which is the project's folder.
    pub(crate) project: Option<PathBuf>,
    /// The folders of PATH.
    pub(crate) programs: Vec<PathBuf>,
}

// === impl SearchPaths ===

impl SearchPaths {
    pub(crate) fn of_this_process() -> Self {
        let mut paths = Self::of(env::consts::OS, |name| env::var_os(name));
        paths.project = env::current_dir().ok();
        let path = env::var_os("PATH").unwrap_or_default();
        paths.programs = env::split_paths(&path).collect();
        paths
    }

    /// The folders of a system, with those that variables name instead.
    fn of(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let home = match system {
            "windows" => named("USERPROFILE").or_else(|| named("HOME")),
            _ => named("HOME"),
        };
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let xdg = named("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
        let config = match system {
            "macos" => below_home("Library/Application Support"),
            "windows" => named("APPDATA").or_else(|| below_home("AppData/Roaming")),
            _ => xdg.clone(),
        };
        let zed = match system {
            "macos" => below_home(".config/zed"),
            "windows" => config.as_ref().map(|config| config.join("Zed")),
            _ => xdg.as_ref().map(|config| config.join("zed")),
        };
        Self {
            claude_code: named("CLAUDE_CONFIG_DIR").or_else(|| home.clone()),
            codex: named("CODEX_HOME").or_else(|| below_home(".codex")),
            zed,
            config,
            xdg,
            home,
            project: None,
            programs: Vec::new(),
        }
    }

    /// The path of a file, whether it exists or not.
    pub(crate) fn path(&self, file: &ClientFile) -> Option<PathBuf> {
        let base = match file.base {
            BaseDir::Home => &self.home,
            BaseDir::Config => &self.config,
            BaseDir::Xdg => &self.xdg,
            BaseDir::ClaudeCode => &self.claude_code,
            BaseDir::Codex => &self.codex,
            BaseDir::Zed => &self.zed,
            BaseDir::Project => &self.project,
        };
        Some(base.as_ref()?.join(file.path))
    }

    /// The path of a file that exists; a folder or a pipe of that name does not count.
    pub(crate) fn find(&self, file: &ClientFile) -> Option<PathBuf> {
        // In the home folder, the project's file and the user's may be the same.
        if file.base == BaseDir::Project && self.project == self.home {
            return None;
        }
        self.path(file).filter(|path| path.is_file())
    }

    /// The path relative to the project or to `~`.
    pub(crate) fn display(&self, path: &Path) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{CLIENTS, ClientName};

    /// The file in which a client keeps the servers of the user.
    fn users_file(system: &str, variables: &[(&str, &str)], client: ClientName) -> String {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        };
        let paths = SearchPaths::of(system, variable);
        let files = CLIENTS[client as usize].files.iter();
        let mut files = files.filter(|file| file.base != BaseDir::Project);
        let path = paths.path(files.next().unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn each_system_has_its_own_folders() {
        use ClientName::{ClaudeCode, ClaudeDesktop, Codex, OpenCode, VsCode, Zed};

        let check = |system, client, expected: &str| {
            let home = match system {
                "windows" => [("USERPROFILE", "/me"), ("APPDATA", "/roaming")],
                _ => [("HOME", "/me"), ("APPDATA", "/roaming")],
            };
            assert_eq!(users_file(system, &home, client), expected, "{system}");
        };
        for (client, linux, macos, windows) in [
            (
                ClaudeDesktop,
                "/me/.config/Claude/claude_desktop_config.json",
                "/me/Library/Application Support/Claude/claude_desktop_config.json",
                "/roaming/Claude/claude_desktop_config.json",
            ),
            (
                VsCode,
                "/me/.config/Code/User/mcp.json",
                "/me/Library/Application Support/Code/User/mcp.json",
                "/roaming/Code/User/mcp.json",
            ),
            (
                Zed,
                "/me/.config/zed/settings.json",
                "/me/.config/zed/settings.json",
                "/roaming/Zed/settings.json",
            ),
        ] {
            check("linux", client, linux);
            check("macos", client, macos);
            check("windows", client, windows);
        }
        for system in ["linux", "macos", "windows"] {
            check(system, ClaudeCode, "/me/.claude.json");
            check(system, Codex, "/me/.codex/config.toml");
            check(system, OpenCode, "/me/.config/opencode/opencode.json");
        }
    }

    #[test]
    fn variables_name_other_folders() {
        use ClientName::{ClaudeCode, Codex, OpenCode, VsCode, Zed};

        let check = |name, client, expected: &str| {
            let variables = [("HOME", "/me"), (name, "/other")];
            assert_eq!(users_file("linux", &variables, client), expected, "{name}");
            // What is not absolute would depend on the folder that the client starts in.
            let relative = [("HOME", "/me"), (name, "other")];
            let empty = [("HOME", "/me"), (name, "")];
            let default = users_file("linux", &empty, client);
            assert_eq!(users_file("linux", &relative, client), default, "{name}");
        };
        check("XDG_CONFIG_HOME", VsCode, "/other/Code/User/mcp.json");
        check("XDG_CONFIG_HOME", Zed, "/other/zed/settings.json");
        check("XDG_CONFIG_HOME", OpenCode, "/other/opencode/opencode.json");
        check("CLAUDE_CONFIG_DIR", ClaudeCode, "/other/.claude.json");
        check("CODEX_HOME", Codex, "/other/config.toml");
    }
}
