//! An installed mcp-bash, for projects that were written for it: its shell library, its
//! providers, and the functions of its hook. The operator has it used with `--tool-env MCP_SDK`,
//! where the variable of the server names the folder of the library.

use std::{
    env,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    executable::may_run,
    process::{Environment, PROGRESS_FD},
};

/// The variable that names the folder of the library.
const SDK: &str = "MCP_SDK";
/// The programs that the library can read JSON with, the best one first.
const JSON_TOOLS: [&str; 2] = ["jq", "gojq"];
/// The library is silent without a token. Which request the progress belongs to is known
/// without it.
const TOKEN: &str = "1";
/// The kinds of a registration, and the prefix of the hook's functions for each.
const KINDS: [(&str, &str); 5] = [
    ("tools", "mcp_tools"),
    ("resources", "mcp_resources"),
    ("resourceTemplates", "mcp_resources_templates"),
    ("prompts", "mcp_prompts"),
    ("completions", "mcp_completion"),
];

/// An installation of mcp-bash.
#[derive(Clone, Debug)]
pub(super) struct McpBash {
    home: PathBuf,
    json_tool: Option<(&'static str, PathBuf)>,
}

// === impl McpBash ===

impl McpBash {
    /// The installation of which the library is passed on to executables.
    pub(super) fn passed(variables: &[String]) -> Option<Self> {
        variables.iter().find(|name| *name == SDK)?;
        Self::at(Path::new(&env::var_os(SDK)?))
    }

    fn at(sdk: &Path) -> Option<Self> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let found = |name: &'static str| {
            let mut files = env::split_paths(&paths).map(|folder| folder.join(name));
            let file = files.find(|file| {
                let meta = file.metadata();
                meta.is_ok_and(|meta| meta.is_file() && may_run(meta.mode()))
            })?;
            Some((name, file))
        };
        Some(Self {
            home: sdk.parent()?.to_owned(),
            json_tool: JSON_TOOLS.into_iter().find_map(found),
        })
    }

    /// The folder of the installation.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Adds what the library reads. Its progress and its log messages come on the pipe for
    /// progress.
    pub(super) fn extend(&self, environment: Environment) -> Environment {
        let stream = format!("/dev/fd/{PROGRESS_FD}");
        let environment = environment
            .with("MCPBASH_HOME", &self.home)
            .with("MCP_PROGRESS_TOKEN", TOKEN)
            .with("MCP_PROGRESS_STREAM", &stream)
            .with("MCP_LOG_STREAM", &stream);
        match &self.json_tool {
            None => environment.with("MCPBASH_MODE", "minimal"),
            Some((name, path)) => environment
                .with("MCPBASH_MODE", "full")
                .with("MCPBASH_JSON_TOOL", *name)
                .with("MCPBASH_JSON_TOOL_BIN", path),
        }
    }
}

/// Adds the functions by which a hook of mcp-bash registers. They print a line each, which
/// [`Registration::parse_hook`](super::registration::Registration::parse_hook) reads. Bash takes
/// functions from its environment; every other program ignores them.
pub(super) fn with_register_functions(mut environment: Environment) -> Environment {
    let mut define = |name: String, body: String| {
        let environment_before = std::mem::take(&mut environment);
        environment = environment_before.with(format!("BASH_FUNC_{name}%%"), body);
    };
    for (kind, prefix) in KINDS {
        let register = format!(r#"() {{ printf '{{"register":"{kind}","entry":%s}}\n' "$1"; }}"#);
        let mark =
            |key: &str| format!(r#"() {{ printf '{{"register":"{kind}","{key}":true}}\n'; }}"#);
        define(format!("{prefix}_manual_begin"), mark("begin"));
        define(format!("{prefix}_manual_abort"), mark("abort"));
        define(format!("{prefix}_manual_finalize"), "() { :; }".to_owned());
        define(format!("{prefix}_register_manual"), register.clone());
        if let Some(single) = prefix
            .strip_suffix('s')
            .filter(|_| kind != "resourceTemplates")
        {
            define(single.replacen("mcp_", "mcp_register_", 1), register);
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(environment: &Environment, script: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env_clear();
        let done = command.envs(environment.iter()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    #[test]
    fn the_library_is_used_only_if_it_is_passed_on() {
        assert!(McpBash::passed(&[]).is_none());
        let named = McpBash::passed(&["MCP_SDK".to_owned()]);
        assert_eq!(named.is_some(), env::var_os("MCP_SDK").is_some());
        let installed = McpBash::at(Path::new("/opt/mcp-bash/sdk")).unwrap();
        assert_eq!(installed.home(), Path::new("/opt/mcp-bash"));
        let printed = run(
            &installed.extend(Environment::inherited(&[])),
            "echo $MCPBASH_HOME $MCP_PROGRESS_STREAM $MCP_LOG_STREAM ${MCPBASH_MODE:0:1}",
        );
        assert!(
            printed.starts_with("/opt/mcp-bash /dev/fd/3 /dev/fd/3 "),
            "{printed}"
        );
    }

    #[test]
    fn the_functions_of_a_hook_print_what_is_registered() {
        let script = r#"
            mcp_register_tool '{"name": "a"}'
            mcp_resources_templates_manual_begin
            mcp_resources_templates_register_manual '{"name": "b"}'
            mcp_resources_templates_manual_finalize
            mcp_prompts_manual_abort"#;
        let environment = with_register_functions(Environment::inherited(&[]));
        let printed = run(&environment, script);
        assert_eq!(
            printed.lines().collect::<Vec<_>>(),
            [
                r#"{"register":"tools","entry":{"name": "a"}}"#,
                r#"{"register":"resourceTemplates","begin":true}"#,
                r#"{"register":"resourceTemplates","entry":{"name": "b"}}"#,
                r#"{"register":"prompts","abort":true}"#,
            ]
        );
        run(
            &environment,
            "declare -F mcp_register_resource mcp_register_prompt mcp_completion_register_manual \
             mcp_tools_manual_begin",
        );
    }
}
