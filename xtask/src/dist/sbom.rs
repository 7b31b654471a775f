//! The list of everything that is linked into the program, as CycloneDX: from cargo's own
//! resolution for this program and target alone, with licences, and with the checksums of
//! `Cargo.lock`. What tests, builds and macros need is not in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::step::{cargo, root};

const PROGRAM: &str = "kubecrier";

/// A package, by name and version.
type Package = (String, String);

/// The document for a target such as `x86_64-unknown-linux-gnu`.
pub(super) fn cyclonedx(target: &str) -> Result<String> {
    let mut metadata = cargo(&["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&printed_by(metadata)?)?;
    let mut tree = cargo(&["tree", "--locked", "--color", "never", "--package", PROGRAM]);
    tree.args(["--target", target, "--edges", "normal,no-proc-macro"]);
    tree.args(["--prefix", "depth", "--format", " {p}"]);
    let linked = linked(&printed_by(tree)?)?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let document = document(&metadata, &linked, &checksums(&lock)?)?;
    Ok(format!("{document:#}\n"))
}

fn printed_by(mut cargo: Command) -> Result<String> {
    let done = cargo.output().context("cannot start cargo")?;
    if !done.status.success() {
        bail!(
            "{cargo:?} failed: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// What each package links, from lines such as `2 bytes v1.12.0`: how deep it is in the tree, and
/// what it is. Below a package that was there before is nothing, but `(*)` behind it.
pub(super) fn linked(tree: &str) -> Result<BTreeMap<Package, BTreeSet<Package>>> {
    let mut linked: BTreeMap<Package, BTreeSet<Package>> = BTreeMap::new();
    let mut above: Vec<Package> = Vec::new();
    for line in tree.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (depth, name, version) = (word(), word(), word());
        let (Ok(depth), Some(version)) = (depth.parse(), version.strip_prefix('v')) else {
            bail!("`cargo tree` printed `{line}`");
        };
        let package = (name.to_owned(), version.to_owned());
        above.truncate(depth);
        if let Some(user) = above.last() {
            linked
                .entry(user.clone())
                .or_default()
                .insert(package.clone());
        }
        linked.entry(package.clone()).or_default();
        above.push(package);
    }
    Ok(linked)
}

/// The checksums of packages from a registry, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<Package, String>> {
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

fn document(
    metadata: &Value,
    linked: &BTreeMap<Package, BTreeSet<Package>>,
    checksums: &BTreeMap<Package, String>,
) -> Result<Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages: BTreeMap<Package, &Value> = packages
        .map(|package| ((text(&package["name"]), text(&package["version"])), package))
        .collect();
    let mut program = None;
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (package, needed) in linked {
        let (name, version) = package;
        let about = packages.get(package);
        let about = about.with_context(|| format!("cargo knows no {name} {version}"))?;
        let needed: BTreeSet<String> = needed.iter().map(purl).collect();
        dependencies.push(json!({ "ref": purl(package), "dependsOn": needed }));
        let checksum = checksums.get(package);
        if name == PROGRAM {
            program = Some(component(package, about, "application", checksum));
        } else {
            components.push(component(package, about, "library", checksum));
        }
    }
    let program = program.context("the tree of kubecrier is empty")?;
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, about: &Value, kind: &str, checksum: Option<&String>) -> Value {
    let (name, version) = package;
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    if let Some(license) = about["license"].as_str() {
        // Before SPDX expressions, crates wrote a slash.
        let expression = license.replace(" / ", "/").replace('/', " OR ");
        component["licenses"] = json!([{ "expression": expression }]);
    }
    if let Some(description) = about["description"].as_str() {
        component["description"] = json!(description.trim());
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn purl((name, version): &Package) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
