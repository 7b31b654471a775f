//! The lines of the README's first screen that install the chart.

use std::{fs, process::Command};

use testbed::Missing;

use super::{
    rendered::{Rendered, chart_folder, helm},
    repository,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commands with helm, in the order of the columns.
fn lines() -> Vec<String> {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let mut rows = readme.lines().filter(|line| line.starts_with("| Helm |"));
    let row = rows.next().unwrap();
    let code = row.split('`').skip(1).step_by(2);
    let lines = code.filter(|code| code.starts_with("helm "));
    lines.map(str::to_owned).collect()
}

/// Nothing is installed, and the chart is that of the sources; all else is as it is written.
fn rendered(line: &str, chart: &str) -> Option<Rendered> {
    let helm = helm()?;
    let (install, rest) = line.split_once(chart).unwrap();
    let install = install.strip_prefix("helm install ").unwrap();
    let line = format!("\"$HELM\" template {install} \"$CHART\" {rest}");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .envs(
            helm.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("HELM", helm.get_program())
        .env("CHART", chart_folder());
    let done = shell.output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{line}: {words}");
    Some(Rendered::parse(&String::from_utf8(done.stdout).unwrap()))
}

#[test]
fn every_line_with_helm_makes_a_server_for_one_caller() {
    if Command::new("openssl").arg("version").output().is_err() {
        return testbed::skip(&Missing("no openssl, which the README names".to_owned()));
    }
    let lines = lines();
    let ways = [
        (
            "oci://ghcr.io/kubecrier/charts/kubecrier",
            "ghcr.io/kubecrier/kubecrier",
        ),
        ("dist/charts/*.tgz", "registry.example/kubecrier"),
    ];
    assert_eq!(lines.len(), ways.len(), "{lines:?}");
    for (line, (chart, image)) in lines.iter().zip(ways) {
        let Some(rendered) = rendered(line, chart) else {
            return;
        };
        assert_eq!(
            rendered.container()["image"],
            format!("{image}:{VERSION}"),
            "{line}"
        );
        let secret = rendered.one("Secret", "crier-kubecrier-tokens");
        let tokens = secret["stringData"]["tokens"].as_str().unwrap();
        let token = tokens.trim_end().strip_prefix("me:").unwrap();
        assert_eq!(token.len(), 32, "{tokens}");
    }
}

/// An image of another name would not be found.
#[test]
fn the_image_has_one_name() {
    let image = format!("ghcr.io/kubecrier/kubecrier:{VERSION}");
    for file in ["README.md", "packaging/server.json"] {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains(&image), "no {image} in {file}");
    }
}
