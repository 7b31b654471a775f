//! What was made on several platforms, as a release has it: flat files with their checksums, the
//! packages, and one image for all platforms.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    SUMS,
    archive::files_below,
    hex_digest,
    image::{self, INDEX},
    write_checksums,
};
use crate::step::print_line;

/// Where the files of a folder go. Those of a release have no folders: `sha256sum --check` has to
/// find them side by side.
const PLACES: [(&str, &str); 4] = [
    ("", "files"),
    ("charts", "files"),
    ("npm", "npm"),
    ("pypi", "pypi"),
];

/// Joins the folders. What is for all platforms is that of the first.
pub(crate) fn merge(folders: &[PathBuf], out: &Path) -> Result<()> {
    if out.exists() && fs::read_dir(out)?.next().is_some() {
        bail!("`{}` is not empty: name another with --out", out.display());
    }
    let mut platforms = BTreeSet::new();
    for folder in folders {
        check_sums(folder)?;
        for (from, to) in PLACES {
            let (from, to) = (folder.join(from), out.join(to));
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(&from)? {
                let path = entry?.path();
                let name = path.file_name().context("a file has a name")?;
                if path.is_dir() || name == SUMS {
                    continue;
                }
                let is_program = name.to_string_lossy().ends_with(".tar.gz") && from == *folder;
                if is_program && !platforms.insert(name.to_owned()) {
                    bail!("`{}` is of a platform that is there", path.display());
                }
                if !to.join(name).exists() {
                    fs::copy(&path, to.join(name))?;
                }
            }
        }
    }
    merge_images(folders, &out.join("image"))?;
    let sums = write_checksums(&out.join("files"))?;
    print_line(&format!("made in {}:\n{sums}", out.display()));
    Ok(())
}

/// A folder may have come through an artifact store.
fn check_sums(folder: &Path) -> Result<()> {
    let sums = folder.join(SUMS);
    let text =
        fs::read_to_string(&sums).with_context(|| format!("cannot read `{}`", sums.display()))?;
    let mut listed = BTreeSet::from([PathBuf::from(SUMS)]);
    for line in text.lines() {
        let (hash, file) = line.split_once("  ").context("no line of sha256sum")?;
        let path = folder.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        if hex_digest(&bytes) != hash {
            bail!("`{}` is not as it was made", path.display());
        }
        listed.insert(file.into());
    }
    let stray = files_below(folder)?.into_iter();
    if let Some(stray) = stray.into_iter().find(|file| !listed.contains(file)) {
        bail!("`{}` is not listed there", folder.join(stray).display());
    }
    Ok(())
}

/// One layout, whose only entry is an index with the image of each platform that has one.
fn merge_images(folders: &[PathBuf], layout: &Path) -> Result<()> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let mut manifests = Vec::new();
    for image in folders.iter().map(|folder| folder.join("image")) {
        if !image.exists() {
            continue;
        }
        let index: Value = serde_json::from_slice(&fs::read(image.join(INDEX))?)?;
        for manifest in index["manifests"].as_array().into_iter().flatten() {
            let mut manifest = manifest.clone();
            // The name is that of the whole.
            if let Some(manifest) = manifest.as_object_mut() {
                manifest.remove("annotations");
            }
            manifests.push(manifest);
        }
        for blob in files_below(&image.join("blobs/sha256"))? {
            fs::copy(image.join("blobs/sha256").join(&blob), blobs.join(&blob))?;
        }
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": image::INDEX_TYPE,
        "manifests": manifests,
    });
    let index = image::blob(&blobs, image::INDEX_TYPE, &index)?;
    image::write_layout(layout, index)
}
