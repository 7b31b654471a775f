//! A real nats-server on loopback, with JetStream.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::{
    Authority, GoTool, Missing, Validity,
    guard::{Guard, Spec},
};

/// How long the server may take to start, to stop or to freeze.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a [`NatsServer`] asks for and has room for.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// Whether there are streams.
    pub jetstream: bool,
    /// The only user, and the password.
    pub login: Option<(String, String)>,
    /// Subjects that the user of `login` may not publish to.
    pub denied: Vec<String>,
    /// Whether it speaks TLS, with a certificate of [`NatsServer::ca_file`].
    pub tls: bool,
    /// What JetStream may keep on the disk, in bytes.
    pub store_bytes_max: u64,
    /// The largest message, in bytes.
    pub payload_bytes_max: u64,
}

/// A nats-server, whose port and store outlast a restart. It ends when it is dropped, or when
/// this process ends.
pub struct NatsServer {
    program: PathBuf,
    folder: PathBuf,
    options: NatsOptions,
    port: u16,
    guard: Option<Guard>,
}

// === impl NatsOptions ===

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            jetstream: true,
            login: None,
            denied: Vec::new(),
            tls: false,
            store_bytes_max: 2 * 1024 * 1024 * 1024,
            payload_bytes_max: 1024 * 1024,
        }
    }
}

// === impl NatsServer ===

impl NatsServer {
    /// Whether there is a program to start.
    pub fn is_there() -> Result<(), Missing> {
        GoTool::NatsServer.program().map(drop)
    }

    /// Starts a server with its store, log and certificates in a folder, and waits until it
    /// takes connections.
    pub fn start(folder: &Path, options: NatsOptions) -> Result<Self> {
        let mut server = Self {
            program: GoTool::NatsServer.program()?,
            folder: folder.to_owned(),
            port: free_port()?,
            options,
            guard: None,
        };
        fs::create_dir_all(folder)?;
        if server.options.tls {
            let authority = Authority::new("nats")?;
            authority
                .server("nats", Validity::Current)?
                .write(folder, "server")?;
            fs::write(server.ca_file(), authority.pem())?;
        }
        // Another process may take the port before this one does.
        let mut attempts = 3;
        while let Err(error) = server.start_again() {
            attempts -= 1;
            if attempts == 0 {
                return Err(error);
            }
            server.port = free_port()?;
        }
        Ok(server)
    }

    /// The URL for clients, with the login if there is one.
    pub fn url(&self) -> String {
        let login = match &self.options.login {
            Some((user, password)) => format!("{user}:{password}@"),
            None => String::new(),
        };
        format!("{}://{login}127.0.0.1:{}", self.scheme(), self.port)
    }

    /// The URL without the login.
    pub fn url_without_login(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme(), self.port)
    }

    /// Where the certificate of the server's authority is, if it speaks TLS.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// Ends the server as a shutdown does.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(guard) = self.guard.take() {
            guard.signal(Signal::TERM)?;
            guard.wait(PATIENCE)?;
        }
        Ok(())
    }

    /// Ends the server at once, as a crash does.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(guard) = self.guard.take() {
            guard.signal(Signal::KILL)?;
            guard.wait(PATIENCE)?;
        }
        Ok(())
    }

    /// Starts the server that was stopped or killed, with its port and its store.
    pub fn start_again(&mut self) -> Result<()> {
        let config = self.folder.join("nats.conf");
        fs::write(&config, self.config())?;
        let ports = self.folder.join("ports");
        // The server writes its ports when it takes connections.
        fs::remove_dir_all(&ports).ok();
        fs::create_dir_all(&ports)?;
        let guard = Guard::start(&Spec {
            program: &self.program,
            args: vec!["--config".into(), config.into()],
            clear: None,
            log: self.folder.join("nats.log"),
        })?;
        self.guard = Some(guard);
        let mut left = PATIENCE;
        while fs::read_dir(&ports)?.next().is_none() {
            let pause = Duration::from_millis(5);
            let guard = self.guard.as_ref().context("it was just started")?;
            left = left
                .checked_sub(pause)
                .filter(|_| !guard.exited())
                .with_context(|| format!("nats-server does not start:\n{}", guard.log_tail()))?;
            // A file of another process has no notification to wait for.
            std::thread::park_timeout(pause);
        }
        Ok(())
    }

    /// The subjects that the user may not publish to from now on, without a restart.
    pub fn deny(&mut self, subjects: &[&str]) -> Result<()> {
        self.options.denied = subjects.iter().map(|&subject| subject.to_owned()).collect();
        fs::write(self.folder.join("nats.conf"), self.config())?;
        let guard = self.guard.as_ref().context("the server does not run")?;
        guard.signal(Signal::HUP)
    }

    /// Whether there are streams when it starts again.
    pub fn set_jetstream(&mut self, jetstream: bool) {
        self.options.jetstream = jetstream;
    }

    /// The id of its process.
    pub fn pid(&self) -> Result<u32> {
        let guard = self.guard.as_ref().context("the server does not run")?;
        Ok(guard.pid())
    }

    /// Stops the server where it is: connections stay, and nothing is answered.
    pub fn freeze(&self) -> Result<()> {
        let guard = self.guard.as_ref().context("the server does not run")?;
        guard.signal(Signal::STOP)?;
        guard.wait_stopped(PATIENCE)
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<()> {
        let guard = self.guard.as_ref().context("the server does not run")?;
        guard.signal(Signal::CONT)
    }

    /// Removes what JetStream has kept. The server must not run.
    pub fn clear_store(&self) -> Result<()> {
        fs::remove_dir_all(self.store()).context("cannot remove the store")
    }

    /// The end of the server's log.
    pub fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder.join("nats.log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn scheme(&self) -> &'static str {
        if self.options.tls { "tls" } else { "nats" }
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn config(&self) -> String {
        let NatsOptions {
            jetstream,
            login,
            denied,
            tls,
            store_bytes_max,
            payload_bytes_max,
        } = &self.options;
        let path = |path: PathBuf| format!("{:?}", path.display().to_string());
        let mut config = format!(
            "listen: 127.0.0.1:{}\nmax_payload: {payload_bytes_max}\nports_file_dir: {}\n",
            self.port,
            path(self.folder.join("ports")),
        );
        if *jetstream {
            let _ = writeln!(
                config,
                "jetstream {{ store_dir: {}, max_file_store: {store_bytes_max} }}",
                path(self.store()),
            );
        }
        if let Some((user, password)) = login {
            let _ = writeln!(
                config,
                "authorization {{ users: [{{ user: {user:?}, password: {password:?}, \
                 permissions: {{ publish: {{ deny: {denied:?} }}, subscribe: \">\" }} }}] }}"
            );
        }
        if *tls {
            let _ = writeln!(
                config,
                "tls {{ cert_file: {}, key_file: {} }}",
                path(self.folder.join("server.crt")),
                path(self.folder.join("server.key")),
            );
        }
        config
    }
}

/// A port that is free now, and is kept over restarts.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
