//! Values in, objects out.

use std::{fs, io::Write, path::PathBuf, process::Command};

use serde_json::Value;
use testbed::GoTool;

/// The objects of a release called `crier`.
pub(crate) struct Rendered {
    pub(crate) objects: Vec<Value>,
}

// === impl Rendered ===

impl Rendered {
    /// Renders into a namespace; none where there is no helm.
    #[track_caller]
    pub(crate) fn of(namespace: &str, values: &Value) -> Option<Self> {
        Some(Self::attempt(namespace, values)?.unwrap_or_else(|error| panic!("{error}")))
    }

    /// What helm makes of the values, or says against them.
    pub(crate) fn attempt(namespace: &str, values: &Value) -> Option<Result<Self, String>> {
        Self::attempt_release("crier", namespace, values)
    }

    /// Renders a release of another name.
    #[track_caller]
    pub(crate) fn release(name: &str, namespace: &str, values: &Value) -> Option<Self> {
        let rendered = Self::attempt_release(name, namespace, values)?;
        Some(rendered.unwrap_or_else(|error| panic!("{error}")))
    }

    fn attempt_release(
        name: &str,
        namespace: &str,
        values: &Value,
    ) -> Option<Result<Self, String>> {
        let mut template = helm()?;
        let file = values_file(values);
        template
            .args(["template", name, "--namespace", namespace, "--values"])
            .arg(file.path())
            .arg(chart_folder());
        let done = template.output().unwrap();
        if !done.status.success() {
            return Some(Err(String::from_utf8(done.stderr).unwrap()));
        }
        Some(Ok(Self::parse(&String::from_utf8(done.stdout).unwrap())))
    }

    /// What `helm template` printed.
    pub(crate) fn parse(text: &str) -> Self {
        let objects = text
            .split("\n---\n")
            .map(|text| {
                serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
            })
            .filter(|object: &Value| !object.is_null())
            .collect();
        Self { objects }
    }

    /// The object of this kind and name.
    #[track_caller]
    pub(crate) fn one(&self, kind: &str, name: &str) -> &Value {
        let mut found = (self.objects.iter())
            .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        let one = found.next();
        assert!(found.next().is_none(), "two of {kind} {name}");
        one.unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    /// The only container of the Deployment.
    pub(crate) fn container(&self) -> &Value {
        let pod = &self.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"];
        &pod["containers"][0]
    }

    /// The configuration file of the server.
    pub(crate) fn settings(&self) -> toml::Table {
        let mut files = (self.objects.iter())
            .filter(|object| object["kind"] == "ConfigMap")
            .filter_map(|object| object["data"]["kubecrier.toml"].as_str());
        files.next().unwrap().parse().unwrap()
    }

    /// What a container has mounted below `/etc/kubecrier`, as paths and contents. Secrets that
    /// are not of the chart are left out.
    pub(crate) fn mounted(&self) -> Vec<(PathBuf, String)> {
        let pod = &self.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"];
        let sources = pod["volumes"][0]["projected"]["sources"]
            .as_array()
            .unwrap();
        let mut files = Vec::new();
        for source in sources {
            let (kind, field, source) = match source.get("secret") {
                Some(secret) => ("Secret", "stringData", secret),
                None => ("ConfigMap", "data", &source["configMap"]),
            };
            let named = |object: &&Value| {
                object["kind"] == kind && object["metadata"]["name"] == source["name"]
            };
            let Some(object) = self.objects.iter().find(named) else {
                continue;
            };
            for item in source["items"].as_array().unwrap() {
                let text = object[field][item["key"].as_str().unwrap()].as_str();
                files.push((
                    item["path"].as_str().unwrap().into(),
                    text.unwrap().to_owned(),
                ));
            }
        }
        files
    }
}

/// Where the chart is.
pub(crate) fn chart_folder() -> PathBuf {
    super::repository().join("charts/kubecrier")
}

/// helm with an environment of its own.
pub(crate) fn helm() -> Option<Command> {
    let mut helm = super::tool(GoTool::Helm)?;
    helm.env("HELM_CACHE_HOME", "/nonexistent")
        .env("HELM_CONFIG_HOME", "/nonexistent")
        .env("HELM_DATA_HOME", "/nonexistent");
    Some(helm)
}

/// A file with these values; JSON is YAML.
pub(crate) fn values_file(values: &Value) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    file.write_all(values.to_string().as_bytes()).unwrap();
    file
}

/// The values with others on top, as helm merges them.
pub(crate) fn on_top_of(base: &Value, top: &Value) -> Value {
    let (Some(base), Some(top)) = (base.as_object(), top.as_object()) else {
        return top.clone();
    };
    let mut merged = base.clone();
    for (key, value) in top {
        let below = merged.get(key).cloned().unwrap_or_default();
        merged.insert(key.clone(), on_top_of(&below, value));
    }
    merged.into()
}

/// Writes files below a folder.
pub(crate) fn write_files(folder: &std::path::Path, files: &[(PathBuf, String)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
