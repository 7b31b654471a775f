//! The image in a container: as the user of the image, with a root that nobody can write to.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{self, Command},
};

use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Missing;

use super::{dist, given, ok};
use crate::harness::{StdioSession, kubeconfig};

/// What a runtime does before it starts the program in namespaces of its own. Every runtime has
/// these devices; a static program reads its random numbers from one of them.
const START: &str = r#"
root=$1
shift
mount --bind "$root" "$root" &&
mount -t proc proc "$root/proc" &&
mkdir -p "$root/dev" &&
for device in null zero full random urandom; do
  : > "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device" || exit 1
done &&
mount -o remount,bind,ro "$root" &&
exec setpriv --no-new-privs env -i "$@"
"#;

/// What starts a container here.
enum Runtime {
    Runc,
    /// The tools of util-linux, where there is no runc.
    Namespaces,
}

/// The image, unpacked as a runtime does it, and what its configuration says of the process.
struct Unpacked {
    folder: TempDir,
    about: Value,
}

fn skip_here(why: &str) {
    let _ignored = writeln!(io::stderr(), "skipped: {why}");
}

// === impl Runtime ===

impl Runtime {
    /// None where containers cannot be started. Where only programs are missing, that is an error
    /// if nothing may be skipped.
    fn find() -> Option<Self> {
        if !cfg!(target_os = "linux") || !geteuid().is_root() {
            skip_here("only root on Linux may start containers");
            return None;
        }
        let mut unshare = Command::new("unshare");
        let unshare = unshare
            .args(["--mount", "--pid", "--fork", "true"])
            .output();
        if let Ok(refused) = unshare.as_ref()
            && !refused.status.success()
        {
            let words = String::from_utf8_lossy(&refused.stderr);
            skip_here(&format!("this root may not start containers: {words}"));
            return None;
        }
        let runc = Command::new("runc").arg("--version").output();
        if runc.is_ok_and(|done| done.status.success()) {
            return Some(Self::Runc);
        }
        if unshare.is_ok() {
            return Some(Self::Namespaces);
        }
        testbed::skip(&Missing(
            "no runc and no unshare; install runc or util-linux".to_owned(),
        ));
        None
    }

    /// The image as a process on standard input and output.
    fn command(&self, image: &Unpacked) -> Command {
        let words = |key: &str| image.about[key].as_array().unwrap().iter();
        let user = image.about["User"].as_str().unwrap();
        match self {
            Self::Runc => {
                image.write_spec();
                let mut runc = Command::new("runc");
                runc.args(["run", "--bundle"])
                    .arg(image.folder.path())
                    .arg(format!("kubecrier-test-{}", process::id()));
                runc
            }
            Self::Namespaces => {
                let chroot = ["/usr/sbin/chroot", "/usr/bin/chroot"].map(Path::new);
                let chroot = chroot.into_iter().find(|path| path.exists());
                let mut unshare = Command::new("unshare");
                unshare
                    .args(["--mount", "--pid", "--ipc", "--uts", "--net"])
                    .args(["--fork", "--kill-child", "sh", "-c", START, "sh"])
                    .arg(image.root())
                    .args(words("Env").map(|one| one.as_str().unwrap()))
                    .arg(chroot.unwrap())
                    .args([&format!("--userspec={user}"), "--groups="])
                    .arg(image.root())
                    .args(words("Entrypoint").map(|one| one.as_str().unwrap()));
                unshare
            }
        }
    }
}

// === impl Unpacked ===

impl Unpacked {
    fn new(image: &Path) -> Self {
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap();
            image.join("blobs").join(digest.replace(':', "/"))
        };
        let index = read(&image.join("index.json"));
        let manifest = read(&blob(&index["manifests"][0]));
        let about = read(&blob(&manifest["config"]))["config"].clone();
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Self { folder, about };
        fs::create_dir_all(unpacked.root().join("proc")).unwrap();
        ok(Command::new("tar")
            .arg("-xzf")
            .arg(blob(&manifest["layers"][0]))
            .arg("--directory")
            .arg(unpacked.root()));
        unpacked
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("rootfs")
    }

    /// Puts the program under test in the place of the stand-in. It is not static, because that
    /// would be a second build of everything: its loader and libraries come along.
    fn put_program(&self) {
        let program = self.root().join("usr/local/bin/kubecrier");
        fs::copy(env!("CARGO_BIN_EXE_kubecrier"), &program).unwrap();
        let list = ok(Command::new("ldd").arg(&program));
        let list = String::from_utf8(list.stdout).unwrap();
        let libraries = list.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries {
            let inside = self.root().join(&library[1..]);
            fs::create_dir_all(inside.parent().unwrap()).unwrap();
            fs::copy(library, inside).unwrap();
        }
    }

    /// A kubeconfig that only its owner may read, as `docker run` mounts it for its user.
    fn put_kubeconfig(&mut self) {
        let file = kubeconfig(|file| {
            file.server_context("away", "https://127.0.0.1:1", "")
                .current("away")
        });
        let folder = self.root().join("kube");
        let inside = folder.join("config");
        fs::create_dir(&folder).unwrap();
        fs::copy(&file.path, &inside).unwrap();
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&inside, Some(65532), Some(65532)).unwrap();
        let variables = self.about["Env"].as_array_mut().unwrap();
        variables.push(json!("KUBECONFIG=/kube/config"));
    }

    /// The file that runc reads.
    fn write_spec(&self) {
        ok(Command::new("runc")
            .arg("spec")
            .current_dir(self.folder.path()));
        let path = self.folder.path().join("config.json");
        let mut spec = read(&path);
        let user = self.about["User"].as_str().unwrap();
        let (user, group) = user.split_once(':').unwrap();
        let number = |text: &str| text.parse::<u32>().unwrap();
        let process = &mut spec["process"];
        process["terminal"] = json!(false);
        process["args"] = self.about["Entrypoint"].clone();
        process["env"] = self.about["Env"].clone();
        process["cwd"] = self.about["WorkingDir"].clone();
        process["user"] = json!({"uid": number(user), "gid": number(group)});
        process["capabilities"] = json!({});
        process["noNewPrivileges"] = json!(true);
        spec["root"]["readonly"] = json!(true);
        fs::write(path, spec.to_string()).unwrap();
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What `/proc/PID/status` says under this word.
fn status(process: u32, word: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(":\t"));
    let (_, value) = lines.find(|(key, _)| *key == word)?;
    Some(value.to_owned())
}

/// The program itself, which the runtime has started.
fn program(runtime: u32) -> u32 {
    let is_child_of = |mut process: u32, ancestor: u32| {
        while process > 1 && process != ancestor {
            let parent = status(process, "PPid").and_then(|parent| parent.parse().ok());
            process = parent.unwrap_or_default();
        }
        process == ancestor
    };
    let entries = fs::read_dir("/proc").unwrap();
    let mut found = entries
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|process| status(*process, "Name").as_deref() == Some("kubecrier"))
        .filter(|process| is_child_of(*process, runtime));
    found.next().unwrap()
}

#[tokio::test]
async fn the_image_answers_from_a_container_that_cannot_write() {
    let Some(runtime) = Runtime::find() else {
        return;
    };
    let Some(dist) = dist() else { return };
    let mut image = Unpacked::new(&dist.join("image"));
    image.put_kubeconfig();
    if given().is_none() {
        image.put_program();
    }
    let mut session = StdioSession::start(&mut runtime.command(&image));
    let answer = session.handshake();
    assert_eq!(answer["result"]["serverInfo"]["name"], "kubecrier");
    let contexts = session.call("configuration_contexts_list", json!({})).ok();
    assert_eq!(contexts.data["contexts"][0]["name"], "away");
    let program = program(session.server.id());
    for (word, expected) in [
        ("Uid", "65532\t65532\t65532\t65532"),
        ("Gid", "65532\t65532\t65532\t65532"),
        ("Groups", ""),
        ("CapEff", "0000000000000000"),
        ("NoNewPrivs", "1"),
    ] {
        let found = status(program, word).unwrap();
        assert_eq!(found.trim(), expected, "{word}");
    }
    let mounts = fs::read_to_string(format!("/proc/{program}/mountinfo")).unwrap();
    let root = mounts.lines().find_map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        (words[4] == "/").then(|| words[5].to_owned())
    });
    let root = root.unwrap();
    assert!(root.split(',').any(|option| option == "ro"), "{mounts}");
    let variables = fs::read(format!("/proc/{program}/environ")).unwrap();
    let variables = String::from_utf8(variables).unwrap();
    let expected = image.about["Env"].as_array().unwrap().iter();
    for variable in expected.map(|one| one.as_str().unwrap()) {
        assert!(
            variables.split('\0').any(|one| one == variable),
            "{variables}"
        );
    }
    session.close();
    assert_eq!(session.server.exit().await.code(), Some(0));
}
