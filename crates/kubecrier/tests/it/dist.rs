//! `cargo xtask dist`: the image through a real registry and in a real container, the bundle and
//! the list of components before the official validators. Of stand-ins for the program, because one for release takes
//! minutes to build; `KUBECRIER_DIST` names a folder that was made of the program itself.

mod container;

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
};

use serde_json::{Value, json};
use testbed::{Client, GoTool, Mcpb, Missing};

use crate::chart::{
    everything,
    rendered::{chart_folder, helm, values_file},
};

/// This machine, as its programs and as images call it.
fn machine() -> (u8, &'static str) {
    match env::consts::ARCH {
        "x86_64" => (62, "amd64"),
        "aarch64" => (183, "arm64"),
        other => panic!("no image for {other}"),
    }
}

/// What is a static program by its header, for this machine. Nobody starts it.
fn static_program() -> Vec<u8> {
    let base: u64 = 0x40_0000;
    let words = |words: &[u64]| -> Vec<u8> {
        let words = words.iter();
        words.flat_map(|one| one.to_le_bytes()).collect()
    };
    let (machine, _) = machine();
    [
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec(),
        vec![machine, 0, 1, 0, 0, 0],
        words(&[base + 120, 64, 0]),
        vec![0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        vec![1, 0, 0, 0, 5, 0, 0, 0],
        words(&[0, base, base, 120, 120, 0x1000]),
    ]
    .concat()
}

/// The folder that was made of the program itself.
fn given() -> Option<PathBuf> {
    env::var_os("KUBECRIER_DIST").map(PathBuf::from)
}

/// What the command makes, once.
static DIST: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(folder) = given() {
        return folder;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dist-of-stand-ins");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let script = write("script", b"#!/bin/sh\necho \"$@\"\n");
    let program = write("static", &static_program());
    let out = folder.join("dist");
    let mut dist = Command::new(env!("CARGO"));
    dist.args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .arg("--binary")
        .arg(script)
        .arg("--static-binary")
        .arg(program)
        .arg("--out")
        .arg(&out)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    ok(&mut dist);
    out
});

fn dist() -> Option<&'static Path> {
    let there = Command::new("npm").arg("--version").output();
    if there.is_ok_and(|done| done.status.success()) {
        return Some(&DIST);
    }
    testbed::skip(&Missing(
        "no npm to make packages with; install Node 20 or newer".to_owned(),
    ));
    None
}

fn ok(command: &mut Command) -> Output {
    let done = command.output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {words}");
    done
}

/// A registry on loopback, which ends with the test.
struct Registry {
    child: Child,
    address: String,
}

impl Registry {
    fn start(mut crane: Command) -> Self {
        crane.args(["registry", "serve", "--address", "127.0.0.1:0"]);
        let mut child = crane.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, port)) = line.split_once("serving on port ") {
                break port.to_owned();
            }
        };
        // It writes a line for each request, and would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: format!("127.0.0.1:{port}"),
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn the_image_is_pushed_pulled_and_what_it_should_be() {
    let crane = || GoTool::Crane.command().inspect_err(testbed::skip).ok();
    let (Some(dist), Some(server)) = (dist(), crane()) else {
        return;
    };
    let registry = Registry::start(server);
    let name = format!("{}/kubecrier:test", registry.address);
    let run = |words: &[&str]| {
        let mut crane = crane().unwrap();
        let done = ok(crane.args(words).arg("--insecure"));
        String::from_utf8(done.stdout).unwrap()
    };
    let pushed = run(&["push", dist.join("image").to_str().unwrap(), &name]);
    // Twice the same bytes: the name of what was pushed is the hash of all of it.
    let digest = run(&["digest", &name]);
    assert!(pushed.trim().ends_with(digest.trim()), "{pushed} {digest}");
    run(&["validate", "--remote", &name]);
    let config: Value = serde_json::from_str(&run(&["config", &name])).unwrap();
    assert_eq!(config["os"], "linux");
    assert_eq!(config["architecture"], machine().1);
    let about = &config["config"];
    assert_eq!(about["User"], "65532:65532");
    assert_eq!(about["Entrypoint"][0], "/usr/local/bin/kubecrier");
    assert_eq!(about["Entrypoint"].as_array().unwrap().len(), 1);
    // The chart gives arguments, and `docker run` may.
    assert!(about.get("Cmd").is_none(), "{about}");
    let listing = fs::read_to_string(dist.join("server.json")).unwrap();
    let listing: Value = serde_json::from_str(&listing).unwrap();
    assert_eq!(
        about["Labels"]["io.modelcontextprotocol.server.name"],
        listing["name"]
    );
    let unpacked = tempfile::tempdir().unwrap();
    let packed = unpacked.path().join("image.tar");
    run(&["export", &name, packed.to_str().unwrap()]);
    let list = ok(Command::new("tar").arg("-tvf").arg(&packed));
    let list = String::from_utf8(list.stdout).unwrap();
    let files: Vec<_> = list.lines().filter(|line| !line.starts_with('d')).collect();
    assert_eq!(files.len(), 7, "{list}");
    assert!(files.iter().all(|file| file.contains(" 0/0 ")), "{list}");
    let may_run: Vec<_> = files
        .iter()
        .filter(|file| file.starts_with("-rwx"))
        .collect();
    assert_eq!(may_run.len(), 1, "a shell, or another program: {list}");
    assert!(!list.contains("rws") && !list.lines().any(|line| &line[8..9] == "w"));
    ok(Command::new("tar")
        .arg("-xf")
        .arg(&packed)
        .arg("--directory")
        .arg(unpacked.path()));
    let inside = |path: &str| fs::read(unpacked.path().join(path)).unwrap();
    if given().is_none() {
        assert_eq!(inside("usr/local/bin/kubecrier"), static_program());
    }
    let mut variables = about["Env"].as_array().unwrap().iter();
    let authorities = variables.find_map(|one| one.as_str()?.strip_prefix("SSL_CERT_FILE=/"));
    let authorities = String::from_utf8(inside(authorities.unwrap())).unwrap();
    let begins = authorities.matches("-----BEGIN CERTIFICATE-----\n").count();
    assert!(begins > 100, "{begins} certificate authorities");
    assert_eq!(
        begins,
        authorities.matches("-----END CERTIFICATE-----\n").count()
    );
}

#[test]
fn the_image_of_all_platforms_is_pushed_under_one_name() {
    let crane = || GoTool::Crane.command().inspect_err(testbed::skip).ok();
    let (Some(dist), Some(server)) = (dist(), crane()) else {
        return;
    };
    let merged = tempfile::tempdir().unwrap();
    let mut merge = Command::new(env!("CARGO"));
    merge
        .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .arg("--out")
        .arg(merged.path())
        .arg("--merge")
        .arg(dist)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    ok(&mut merge);
    let registry = Registry::start(server);
    let name = format!("{}/kubecrier:all", registry.address);
    let run = |words: &[&str]| {
        let mut crane = crane().unwrap();
        let done = ok(crane.args(words).arg("--insecure"));
        String::from_utf8(done.stdout).unwrap()
    };
    let layout = merged.path().join("image");
    run(&["push", layout.to_str().unwrap(), &name]);
    let index: Value = serde_json::from_str(&run(&["manifest", &name])).unwrap();
    let images = index["manifests"].as_array().unwrap();
    assert_eq!(images.len(), 1);
    let platform = json!({"architecture": machine().1, "os": "linux"});
    assert_eq!(images[0]["platform"], platform);
    let platform = format!("linux/{}", machine().1);
    let digest = run(&["digest", "--platform", &platform, &name]);
    assert_eq!(images[0]["digest"], digest.trim());
    let mut elsewhere = crane().unwrap();
    let other = ["digest", "--platform", "linux/s390x", &name, "--insecure"];
    assert!(!elsewhere.args(other).output().unwrap().status.success());
}

#[test]
fn the_bundle_is_one_that_the_official_tool_accepts() {
    let tool = || Mcpb::command().inspect_err(testbed::skip).ok();
    let (Some(dist), Some(mut validate), Some(mut unpack)) = (dist(), tool(), tool()) else {
        return;
    };
    let bundle = fs::read_dir(dist).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "mcpb").then_some(path)
    });
    let folder = tempfile::tempdir().unwrap();
    ok(unpack.arg("unpack").arg(bundle.unwrap()).arg(folder.path()));
    ok(validate
        .arg("validate")
        .arg(folder.path().join("manifest.json")));
    let text = fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let program = manifest["server"]["entry_point"].as_str().unwrap();
    let command = manifest["server"]["mcp_config"]["command"].as_str();
    assert_eq!(command.unwrap(), format!("${{__dirname}}/{program}"));
    let program = fs::metadata(folder.path().join(program)).unwrap();
    assert_eq!(program.permissions().mode() & 0o111, 0o111);
}

#[test]
fn the_packed_chart_is_the_one_of_the_sources_with_its_licence() {
    let (Some(dist), Some(_)) = (dist(), helm()) else {
        return;
    };
    let packed = dist.join(format!(
        "charts/kubecrier-{}.tgz",
        env!("CARGO_PKG_VERSION")
    ));
    let values = values_file(&everything());
    let rendered = |chart: &Path| {
        let mut template = helm().unwrap();
        template.args(["template", "crier", "--namespace", "tools", "--values"]);
        ok(template.arg(values.path()).arg(chart)).stdout
    };
    let text = rendered(&packed);
    assert!(String::from_utf8_lossy(&text).contains("kind: Deployment"));
    assert!(text == rendered(&chart_folder()));
    let list = ok(Command::new("tar").arg("-tzf").arg(&packed));
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(
        list.lines().any(|file| file == "kubecrier/LICENSE"),
        "{list}"
    );
}

/// Prints what is wrong by the strict schema of the version that the file says it has.
const VALIDATE: &str = r#"
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = sys.stdin.read()
version = json.loads(text)["specVersion"]
schema = SchemaVersion["V" + version.replace(".", "_")]
problem = JsonStrictValidator(schema).validate_str(text)
sys.exit(str(problem) if problem else 0)
"#;

#[test]
fn the_list_of_components_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("validate.py");
    fs::write(&script, VALIDATE).unwrap();
    let client = Client::CycloneDx.command(&script, folder.path());
    let (Some(dist), Some(mut validate)) = (dist(), client.inspect_err(testbed::skip).ok()) else {
        return;
    };
    let list = fs::read_dir(dist).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.to_str()?.ends_with(".cdx.json").then_some(path)
    });
    let text = fs::read_to_string(list.unwrap()).unwrap();
    let mut check = |text: &str| {
        validate.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = validate.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        let words = String::from_utf8(done.stderr).unwrap();
        (done.status.success(), words)
    };
    let (valid, words) = check(&text);
    assert!(valid, "{words}");
    let mut list: Value = serde_json::from_str(&text).unwrap();
    let components = list["components"].as_array().unwrap();
    assert!(components.len() > 100, "{} components", components.len());
    list["components"][0]["type"] = json!("crate");
    let (valid, words) = check(&list.to_string());
    assert!(!valid && words.contains("crate"), "{words}");
}
