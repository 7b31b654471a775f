use super::*;

/// A mount with these files.
fn mounted(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in files {
        fs::write(dir.path().join(file), text).unwrap();
    }
    dir
}

const WHOLE: [(&str, &str); 3] = [
    ("token", "secret-token"),
    ("ca.crt", "a certificate"),
    ("namespace", "tools"),
];

fn pod(host: Option<&str>, port: Option<&str>, mount: &Path) -> PodEnvironment {
    PodEnvironment {
        host: host.map(str::to_owned),
        port: port.map(str::to_owned),
        mount: mount.to_owned(),
    }
}

#[test]
fn a_whole_mount_is_one_context_that_names_files_and_holds_no_token() {
    let mut files = WHOLE;
    files[2].1 = "tools\n";
    let dir = mounted(&files);
    for (host, server) in [
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
    ] {
        let pod = pod(Some(host), Some("443"), dir.path());
        let file = pod.kubeconfig().unwrap().unwrap();
        let text = serde_json::to_string(&file).unwrap();
        assert!(!text.contains("secret-token"), "{text}");
        let cluster = file.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some(server));
        let context = file.contexts[0].context.as_ref().unwrap();
        assert_eq!(context.namespace.as_deref(), Some("tools"));
        let user = file.auth_infos[0].auth_info.as_ref().unwrap();
        let token = user.token_file.as_deref().unwrap();
        assert_eq!(Path::new(token), dir.path().join("token"));
    }
}

#[test]
fn outside_of_a_cluster_there_is_no_context() {
    let dir = tempfile::tempdir().unwrap();
    let pod = pod(None, None, &dir.path().join("absent"));
    assert!(pod.kubeconfig().unwrap().is_none());
}

#[test]
fn half_a_mount_is_an_error_that_names_what_is_missing() {
    let error = |pod: PodEnvironment| {
        let error = pod.kubeconfig().unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        let text = error.to_string();
        assert!(!text.contains("secret-token"), "{text}");
        text
    };
    let here = |dir: &Path| pod(Some("10.0.0.1"), Some("443"), dir);
    for missing in ["token", "ca.crt", "namespace"] {
        let files = WHOLE.into_iter().filter(|(file, _)| *file != missing);
        let dir = mounted(&files.collect::<Vec<_>>());
        let path = dir.path().join(missing).display().to_string();
        let text = error(here(dir.path()));
        assert!(text.contains(&path), "{text}");
        fs::write(dir.path().join(missing), " \n").unwrap();
        let text = error(here(dir.path()));
        assert!(
            text.contains(&path) && text.contains("it is empty"),
            "{text}"
        );
    }
    let dir = mounted(&WHOLE);
    for port in [None, Some(""), Some("https"), Some("99999")] {
        let text = error(pod(Some("10.0.0.1"), port, dir.path()));
        assert!(text.contains(PORT), "{text}");
    }
    let text = error(pod(None, None, dir.path()));
    assert!(text.contains(HOST), "{text}");
    fs::write(dir.path().join("namespace"), "../kube-system").unwrap();
    let text = error(here(dir.path()));
    assert!(text.contains("as the name of a namespace"), "{text}");
}
