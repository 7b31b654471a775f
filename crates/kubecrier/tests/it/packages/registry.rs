//! A registry for npm and for PyPI on loopback, with what was packed from the program under test.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    thread,
};

use serde_json::{Value, json};

/// A running registry; its thread ends with the process.
pub(crate) struct Registry {
    url: String,
}

/// Where the sources of the packages are.
pub(crate) fn packages_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"))
}

/// This machine, as npm calls it.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{cpu}")
}

/// Makes all packages of a program.
fn pack(program: &Path, out: &Path) {
    for (interpreter, script) in [("node", "npm/pack.mjs"), ("python3", "pypi/pack.py")] {
        let done = Command::new(interpreter)
            .arg(packages_folder().join(script))
            .args(["--platform", &platform()])
            .arg("--binary")
            .arg(program)
            .arg("--out")
            .arg(out)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{script}: {words}");
    }
}

/// The packages of the program under test, made once.
static PACKED: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    // Two thirds of a debug build are for debuggers.
    let program = folder.join("program");
    let stripped = Command::new("strip")
        .arg("-o")
        .arg(&program)
        .arg(env!("CARGO_BIN_EXE_kubecrier"))
        .status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(env!("CARGO_BIN_EXE_kubecrier"), &program).unwrap();
    }
    let out = folder.join("out");
    pack(&program, &out);
    out
});

/// Where the packages are.
pub(crate) fn packed() -> PathBuf {
    PACKED.clone()
}

// === impl Registry ===

impl Registry {
    /// With every package.
    pub(crate) fn start() -> Self {
        Self::serving(true)
    }

    /// As it looks from a platform that has no wheel.
    pub(crate) fn without_wheels() -> Self {
        Self::serving(false)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn serving(wheels: bool) -> Self {
        let packed = PACKED.clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let base = url.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (base, packed) = (base.clone(), packed.clone());
                thread::spawn(move || answer(&connection.unwrap(), &base, &packed, wheels));
            }
        });
        Self { url }
    }
}

/// Answers one request, and closes the connection.
fn answer(connection: &TcpStream, base: &str, packed: &Path, wheels: bool) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let content = content(path.trim_matches('/'), base, packed, wheels);
    let (status, kind, body) = match content {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut connection = connection;
    let _client_may_be_gone = connection.write_all(head.as_bytes());
    if !request.starts_with("HEAD") {
        let _client_may_be_gone = connection.write_all(&body);
    }
}

fn content(path: &str, base: &str, packed: &Path, wheels: bool) -> Option<(&'static str, Vec<u8>)> {
    if let Some(file) = path.strip_prefix("files/") {
        return Some((
            "application/octet-stream",
            fs::read(packed.join(file)).ok()?,
        ));
    }
    let names = fs::read_dir(packed).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    if path == "simple/kubecrier" {
        let is_wheel = |name: &str| Path::new(name).extension().is_some_and(|it| it == "whl");
        let shown = |name: &&String| name.ends_with(".tar.gz") || wheels && is_wheel(name);
        let links = names.iter().filter(shown);
        let links = links.map(|name| format!("<a href=\"{base}/files/{name}\">{name}</a>\n"));
        return Some(("text/html", links.collect::<String>().into_bytes()));
    }
    let version = env!("CARGO_PKG_VERSION");
    let tarball = format!("{path}-{version}.tgz");
    if !names.contains(&tarball) {
        return None;
    }
    let mut about = package_json(&packed.join(&tarball));
    about["dist"] = json!({"tarball": format!("{base}/files/{tarball}")});
    let document = json!({
        "name": path,
        "dist-tags": {"latest": version},
        "versions": {version: about},
    });
    Some(("application/json", document.to_string().into_bytes()))
}

/// The `package.json` in an archive, as a registry reads it.
fn package_json(tarball: &Path) -> Value {
    let mut tar = Command::new("tar")
        .args(["-xzOf"])
        .arg(tarball)
        .arg("package/package.json")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    tar.stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    tar.wait().unwrap();
    serde_json::from_str(&text).unwrap()
}
