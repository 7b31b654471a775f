//! Caches in which a launcher keeps a program while it is used, and removes it later: what a client
//! starts has to be the launcher.

use std::path::{Component, Path};

use crate::cli::Launcher;

/// Whose cache a program is in; `None` where it stays.
pub(super) fn launcher_of(program: &Path) -> Option<Launcher> {
    program.ancestors().skip(1).find_map(|folder| {
        let Some(Component::Normal(name)) = folder.components().next_back() else {
            return None;
        };
        match name.to_str()? {
            // ~/.npm/_npx/HASH/node_modules/…
            "_npx" => Some(Launcher::Npx),
            // ~/.cache/uv/archive-v0/ID/bin/…, and links to it in environments-v2.
            name if is_bucket(name, "archive-v") || is_bucket(name, "environments-v") => {
                Some(Launcher::Uvx)
            }
            _ => None,
        }
    })
}

/// Whether it is a folder of uv's cache, which has the version of its layout in its name.
fn is_bucket(name: &str, bucket: &str) -> bool {
    let version = name.strip_prefix(bucket);
    version.is_some_and(|version| {
        !version.is_empty() && version.bytes().all(|one| one.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_cache_is_of_its_launcher() {
        let check =
            |path: &str, expected| assert_eq!(launcher_of(Path::new(path)), expected, "{path}");
        let native = "node_modules/kubecrier-linux-x64/bin/kubecrier";
        check(&format!("/me/.npm/_npx/0f1e/{native}"), Some(Launcher::Npx));
        check(
            "/me/.cache/uv/archive-v0/Ab-1/bin/kubecrier",
            Some(Launcher::Uvx),
        );
        check(
            "/tmp/cache/environments-v12/x/bin/kubecrier",
            Some(Launcher::Uvx),
        );
        for stays in [
            &format!("/usr/lib/{native}"),
            "/me/.local/share/uv/tools/kubecrier/bin/kubecrier",
            "/me/.cargo/bin/kubecrier",
            "/srv/archive-vault/kubecrier",
            "/srv/archive-v/kubecrier",
            "/home/_npx",
            "kubecrier",
            "",
        ] {
            check(stays, None);
        }
    }
}
