//! The list of everything that is linked into the program, as CycloneDX: from cargo's own
//! resolution, with licences, and with the checksums of `Cargo.lock`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::step::{cargo, root};

const PROGRAM: &str = "kubecrier";

/// The document for a target such as `x86_64-unknown-linux-gnu`.
pub(super) fn cyclonedx(target: &str) -> Result<String> {
    let mut metadata = cargo(&["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--filter-platform", target]);
    let done = metadata.output().context("cannot start cargo")?;
    let metadata: Value = serde_json::from_slice(&done.stdout)
        .with_context(|| String::from_utf8_lossy(&done.stderr).into_owned())?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let document = document(&metadata, &checksums(&lock)?)?;
    Ok(format!("{document:#}\n"))
}

/// The checksums of packages from a registry, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let checksum = |package: &toml::Value| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages
        .into_iter()
        .flatten()
        .filter_map(checksum)
        .collect())
}

fn document(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let linked: BTreeMap<String, BTreeSet<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let dependencies = list(&node["deps"]);
            let normal = dependencies.iter().filter(|one| is_linked(one));
            let ids = normal.map(|one| text(&one["pkg"])).collect();
            (text(&node["id"]), ids)
        })
        .collect();
    let is_program = |package: &Value| package["name"] == PROGRAM && package["source"].is_null();
    let (program, about) = packages
        .iter()
        .find(|(_, package)| is_program(package))
        .context("cargo knows no kubecrier")?;
    let mut reached = BTreeSet::from([program.clone()]);
    let mut next = vec![program.clone()];
    while let Some(id) = next.pop() {
        for dependency in linked.get(&id).into_iter().flatten() {
            if reached.insert(dependency.clone()) {
                next.push(dependency.clone());
            }
        }
    }
    let reference = |id: &String| packages.get(id).map(purl).unwrap_or_default();
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in &reached {
        let Some(package) = packages.get(id) else {
            continue;
        };
        let needed = linked.get(id).into_iter().flatten();
        let needed: BTreeSet<String> = needed.map(reference).collect();
        dependencies.insert(
            purl(package),
            json!({ "ref": purl(package), "dependsOn": needed }),
        );
        if id != program {
            components.insert(purl(package), component(package, "library", checksums));
        }
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(about, "application", checksums) },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// Whether a dependency is linked: neither for builds nor for tests only.
fn is_linked(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // Before SPDX expressions, crates wrote a slash.
        let expression = license.replace(" / ", "/").replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(description) = package["description"].as_str() {
        component["description"] = json!(description.trim());
    }
    let key = (text(&package["name"]), text(&package["version"]));
    if let Some(checksum) = checksums.get(&key) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn purl(package: &Value) -> String {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    format!("pkg:cargo/{name}@{version}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
