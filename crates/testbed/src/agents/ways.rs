//! The ways in, each with the real client: how it is configured for the scripted model, started,
//! and made idle.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

use super::{model::Model, terminal::Terminal};

/// How long a client takes to draw its first screen.
const DRAWN: Duration = Duration::from_secs(8);

/// How long a first turn may take.
const TURN: Duration = Duration::from_mins(1);

/// How long a client may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// What is typed to have a session.
const HELLO: &str = "Hello, scripted model";

/// A client, and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ClaudeTerminal,
    ClaudeHeadless,
    Codex,
    OpenCode,
    Copilot,
    Gemini,
}

/// The folder and the surroundings of one try.
pub(super) struct Stage {
    way: Way,
    /// The folder of the user's work.
    dir: PathBuf,
    home: PathBuf,
    /// What was installed.
    modules: PathBuf,
    path: String,
    url: String,
    model: String,
}

/// A process that runs until it is ended, with all that it has started.
pub(super) struct Running {
    child: Child,
    /// Closing them may end it.
    stdin: Option<ChildStdin>,
    terminal: Option<Terminal>,
}

// === impl Way ===

impl Way {
    pub(super) const ALL: [Self; 6] = [
        Self::ClaudeTerminal,
        Self::ClaudeHeadless,
        Self::Codex,
        Self::OpenCode,
        Self::Copilot,
        Self::Gemini,
    ];

    /// The name that `kubecrier init --agent` takes.
    pub(super) fn agent(self) -> &'static str {
        match self {
            Self::ClaudeTerminal | Self::ClaudeHeadless => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
        }
    }

    pub(super) fn client(self) -> &'static str {
        match self {
            Self::ClaudeTerminal | Self::ClaudeHeadless => "Claude Code",
            Self::Codex => "Codex CLI",
            Self::OpenCode => "OpenCode",
            Self::Copilot => "Copilot CLI",
            Self::Gemini => "Gemini CLI",
        }
    }

    pub(super) fn way(self) -> &'static str {
        match self {
            Self::ClaudeTerminal => "in a terminal: monitor of the plugin",
            Self::ClaudeHeadless => "stream-json: hook of the plugin (asyncRewake)",
            Self::Codex => "in a terminal: `codex queue --resume`, from `watch --exec`",
            Self::OpenCode => "server: plugin, `session.promptAsync`",
            Self::Copilot => "in a terminal: extension, `session.send` (--experimental)",
            Self::Gemini => "in a terminal: hook of the extension (AfterAgent), holds the turn",
        }
    }

    /// The version that was tried.
    pub(super) fn package(self) -> &'static str {
        match self {
            Self::ClaudeTerminal | Self::ClaudeHeadless => "@anthropic-ai/claude-code@2.1.325",
            Self::Codex => "@openai/codex@0.166.0",
            Self::OpenCode => "opencode-ai@1.18.33",
            Self::Copilot => "@github/copilot@1.0.102",
            Self::Gemini => "@google/gemini-cli@0.61.0",
        }
    }

    /// Starts the client and waits until its session is idle.
    pub(super) async fn start(
        self,
        stage: &Stage,
        model: &Model,
        running: &mut Vec<Running>,
    ) -> Result<()> {
        match self {
            Self::ClaudeTerminal => running.push(stage.terminal("claude", &CLAUDE_PLUGIN)?),
            Self::ClaudeHeadless => running.push(claude_headless(stage, model).await?),
            Self::Codex => codex(stage, model, running).await?,
            Self::OpenCode => running.push(opencode(stage).await?),
            Self::Copilot => {
                let git = stage.command("git").args(["init", "-q"]).status().await?;
                ensure!(git.success(), "cannot make a git repository");
                running.push(stage.terminal("copilot", &["--experimental"])?);
            }
            Self::Gemini => gemini(stage, model, running).await?,
        }
        Ok(())
    }

    /// Ends what a client leaves running on purpose.
    pub(super) async fn tidy(self, stage: &Stage) {
        if self != Self::Codex {
            return;
        }
        let stop = ["app-server", "daemon", "stop"];
        let _best_effort = stage.command("codex").args(stop).output().await;
        let updater = stage
            .home
            .join(".codex/app-server-daemon/daemon-updater.pid");
        let text = fs::read_to_string(updater).unwrap_or_default();
        let pid = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
        let pid = pid["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _gone = kill_process(pid, Signal::TERM);
        }
    }
}

const CLAUDE_PLUGIN: [&str; 2] = ["--plugin-dir", ".claude/plugins/kubecrier"];

async fn claude_headless(stage: &Stage, model: &Model) -> Result<Running> {
    let began = Timestamp::now();
    let mut command = stage.command("claude");
    command
        .args(["-p", "--verbose", "--input-format", "stream-json"])
        .args(["--output-format", "stream-json"])
        .args(CLAUDE_PLUGIN)
        .stdin(Stdio::piped())
        .stdout(stage.log("claude.out")?)
        .stderr(stage.log("claude.err")?);
    let mut running = Running::start(command)?;
    let message = json!({"type": "user", "message": {"role": "user", "content": HELLO}});
    let stdin = running.stdin.as_mut().context("stdin is piped")?;
    stdin.write_all(format!("{message}\n").as_bytes()).await?;
    stdin.flush().await?;
    model.request_with(HELLO, began, TURN).await?;
    Ok(running)
}

async fn codex(stage: &Stage, model: &Model, running: &mut Vec<Running>) -> Result<()> {
    let terminal = stage.terminal("codex", &[])?;
    terminal.say_hello(model).await?;
    running.push(terminal);
    // The newest session is the one in the terminal.
    let mut watch = stage.command("sh");
    watch
        .arg(".codex/kubecrier-watch.sh")
        .stdin(Stdio::null())
        .stdout(stage.log("watch.out")?)
        .stderr(stage.log("watch.err")?);
    running.push(Running::start(watch)?);
    Ok(())
}

async fn opencode(stage: &Stage) -> Result<Running> {
    let mut command = stage.command("opencode");
    command
        .args(["serve", "--port", "0"])
        .stdin(Stdio::null())
        .stdout(stage.log("serve.out")?)
        .stderr(stage.log("serve.err")?);
    let running = Running::start(command)?;
    let deadline = Instant::now() + TURN;
    let address = loop {
        let said = fs::read_to_string(stage.dir.join("serve.out"))?;
        if let Some((_, rest)) = said.split_once("listening on ") {
            let address = rest.split_whitespace().next().unwrap_or_default();
            break address.to_owned();
        }
        ensure!(Instant::now() < deadline, "opencode does not serve: {said}");
        sleep(Duration::from_millis(100)).await;
    };
    let made = reqwest::Client::new()
        .post(format!("{address}/session"))
        .header("content-type", "application/json")
        .body("{}")
        .send()
        .await?;
    ensure!(made.status().is_success(), "no session: {}", made.status());
    Ok(running)
}

async fn gemini(stage: &Stage, model: &Model, running: &mut Vec<Running>) -> Result<()> {
    let link = ["extensions", "link", ".gemini/kubecrier", "--consent"];
    let linked = stage.command("gemini").args(link).output().await?;
    let said = String::from_utf8_lossy(&linked.stderr);
    ensure!(linked.status.success(), "the extension is refused: {said}");
    // Without a name it asks a model for the best one, and understands no "ok".
    let terminal = stage.terminal("gemini", &["--model", "gemini-2.5-flash"])?;
    terminal.say_hello(model).await?;
    running.push(terminal);
    Ok(())
}

// === impl Stage ===

impl Stage {
    /// Makes the folders, and configures the client for the scripted model.
    pub(super) fn new(
        way: Way,
        folder: &Path,
        runs: &Path,
        server: &Path,
        url: &str,
        model: &str,
    ) -> Result<Self> {
        let (dir, home) = {
            let run = runs.join(format!("{way:?}").to_lowercase());
            (run.join("work"), run.join("home"))
        };
        fs::create_dir_all(&dir)?;
        fs::create_dir_all(&home)?;
        let modules = folder.join("node_modules");
        let server = server.parent().context("the server is in a folder")?;
        let rest = env::var("PATH").unwrap_or_default();
        let path = format!(
            "{}:{}:{rest}",
            server.display(),
            modules.join(".bin").display()
        );
        let stage = Self {
            way,
            dir,
            home,
            modules,
            path,
            url: url.to_owned(),
            model: model.to_owned(),
        };
        stage.configure()?;
        Ok(stage)
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    pub(super) fn name(&self) -> String {
        format!("{:?}", self.way).to_lowercase()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A command in the folder of the work, with nothing of this machine's user.
    pub(super) fn command(&self, program: &str) -> Command {
        let program = self.native(program).unwrap_or_else(|| program.into());
        let mut command = Command::new(program);
        command
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .envs(self.variables())
            .kill_on_drop(true);
        command
    }

    /// The program of a client whose package finds its own only after its install script.
    fn native(&self, program: &str) -> Option<PathBuf> {
        let system = match env::consts::OS {
            "macos" => "darwin",
            other => other,
        };
        let machine = match env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "x64",
        };
        let path = match program {
            "claude" => format!("@anthropic-ai/claude-code-{system}-{machine}/claude"),
            "opencode" => format!("opencode-{system}-{machine}/bin/opencode"),
            _ => return None,
        };
        Some(self.modules.join(path))
    }

    /// The version that the client tells of itself.
    pub(super) async fn version(&self) -> Result<String> {
        let output = self.command(self.way.agent()).arg("--version").output();
        let output = timeout(TURN, output).await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = said.split_whitespace();
        let version = words.find(|word| word.starts_with(|one: char| one.is_ascii_digit()));
        let version = version.context("it tells no version")?;
        Ok(version.trim_end_matches('.').to_owned())
    }

    /// Writes the files of the agent's way in.
    pub(super) async fn init(&self) -> Result<()> {
        let flags = ["--yes", "--url", &self.url];
        let mut init = self.command("kubecrier");
        init.args(["init", "--agent", self.way.agent()]).args(flags);
        let done = init.output().await?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "kubecrier init failed: {said}");
        Ok(())
    }

    fn log(&self, name: &str) -> Result<fs::File> {
        Ok(fs::File::create(self.dir.join(name))?)
    }

    /// Starts a client in a terminal of its own.
    fn terminal(&self, program: &str, arguments: &[&str]) -> Result<Running> {
        let (terminal, theirs) = Terminal::open(&self.dir.join("terminal.log"))?;
        let client = self.command(program);
        let mut command = self.command("setsid");
        command
            .arg("--ctty")
            .arg(client.as_std().get_program())
            .args(arguments)
            .stdin(theirs.try_clone()?)
            .stdout(theirs.try_clone()?)
            .stderr(theirs);
        let child = command.spawn().context("cannot start setsid")?;
        Ok(Running {
            child,
            stdin: None,
            terminal: Some(terminal),
        })
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let text = str::to_owned;
        match self.way {
            Way::ClaudeTerminal | Way::ClaudeHeadless => vec![
                ("ANTHROPIC_BASE_URL", self.model.clone()),
                ("ANTHROPIC_API_KEY", text(KEY)),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", text("1")),
            ],
            Way::Codex => Vec::new(),
            Way::OpenCode => vec![("OPENCODE_DISABLE_AUTOUPDATE", text("1"))],
            Way::Copilot => vec![
                ("COPILOT_OFFLINE", text("true")),
                ("COPILOT_ALLOW_ALL", text("true")),
                ("COPILOT_AUTO_UPDATE", text("false")),
                ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", self.model)),
                ("COPILOT_MODEL", text("gpt-4")),
            ],
            Way::Gemini => vec![
                ("GEMINI_API_KEY", text(KEY)),
                ("GOOGLE_GEMINI_BASE_URL", self.model.clone()),
            ],
        }
    }

    fn configure(&self) -> Result<()> {
        let (name, text) = match self.way {
            Way::ClaudeTerminal | Way::ClaudeHeadless => {
                let trusted = json!({"hasTrustDialogAccepted": true,
                    "hasCompletedProjectOnboarding": true});
                let config = json!({"hasCompletedOnboarding": true, "theme": "dark",
                    "customApiKeyResponses": {"approved": [KEY], "rejected": []},
                    "projects": {self.dir.to_string_lossy(): trusted}});
                (".claude.json", config.to_string())
            }
            Way::Codex => {
                let config = format!(
                    "model = \"scripted\"\nmodel_provider = \"scripted\"\n\n\
                     [model_providers.scripted]\nname = \"scripted\"\n\
                     base_url = \"{}/v1\"\nwire_api = \"responses\"\n\n\
                     [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
                    self.model,
                    self.dir.display()
                );
                (".codex/config.toml", config)
            }
            Way::OpenCode => {
                let options = json!({"baseURL": format!("{}/v1", self.model), "apiKey": KEY});
                let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "scripted",
                    "options": options, "models": {"scripted": {"name": "scripted"}}});
                let config = json!({"model": "scripted/scripted",
                    "small_model": "scripted/scripted", "provider": {"scripted": provider},
                    "autoupdate": false, "share": "disabled"});
                (".config/opencode/opencode.json", config.to_string())
            }
            Way::Copilot => return Ok(()),
            Way::Gemini => {
                let config = json!({"security": {"auth": {"selectedType": "gemini-api-key"},
                        "folderTrust": {"enabled": false}},
                    "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
                    "privacy": {"usageStatisticsEnabled": false}});
                (".gemini/settings.json", config.to_string())
            }
        };
        let path = self.home.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(path, text)?)
    }
}

/// A key that opens nothing.
const KEY: &str = "0123456789abcdefghij";

// === impl Running ===

impl Running {
    /// Starts a process with a group of its own.
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("cannot start {}", command.as_std().get_program().display())
            })?;
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            stdin,
            terminal: None,
        })
    }

    /// Has a first turn, so that there is a session.
    async fn say_hello(&self, model: &Model) -> Result<()> {
        let terminal = self.terminal.as_ref().context("there is a terminal")?;
        sleep(DRAWN).await;
        let began = Timestamp::now();
        terminal.type_in(HELLO)?;
        // What comes in one piece is taken for pasted, return included.
        sleep(Duration::from_secs(1)).await;
        terminal.type_in("\r")?;
        model.request_with(HELLO, began, TURN).await?;
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Ends it, with all that it has started.
    pub(super) async fn end(mut self) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok());
        let Some(group) = group.and_then(Pid::from_raw) else {
            return;
        };
        let _gone = kill_process_group(group, Signal::TERM);
        let _killed_below = timeout(GRACE, self.child.wait()).await;
        let _gone = kill_process_group(group, Signal::KILL);
        let _reaped = self.child.wait().await;
    }
}
