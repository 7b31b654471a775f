//! Folders of several platforms, joined.

use super::*;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What another platform makes of the same sources: other names, and an image for another machine.
fn of_another_platform(first: &Path, folder: &Path, scratch: &Path) {
    let platform = platform().unwrap();
    for (file, bytes) in contents(first) {
        if file.starts_with("image") || file == Path::new(SUMS) {
            continue;
        }
        let to = folder.join(file.to_str().unwrap().replace(&platform, "other"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // Other programs, which pack otherwise.
        fs::write(to, [bytes.as_slice(), b"other"].concat()).unwrap();
    }
    let arm = static_program_for(scratch, "arm", 183);
    image::make(&arm, &folder.join("image")).unwrap();
    write_checksums(folder).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let files = archive::files_below(folder).unwrap().into_iter();
    files
        .map(|file| file.to_str().unwrap().to_owned())
        .collect()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_release_is_flat_files_with_their_sums_and_one_image() {
    if !can_pack() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (one, other, out) = (at("one"), at("other"), at("out"));
    let program = program(scratch.path());
    make(&program, &static_program(scratch.path()), &one).unwrap();
    of_another_platform(&one, &other, scratch.path());
    merge(&[one.clone(), other.clone()], &out).unwrap();
    let platform = platform().unwrap();
    let mut expected = vec![
        SUMS.to_owned(),
        LISTING.to_owned(),
        format!("kubecrier-{VERSION}.tgz"),
    ];
    for platform in [&platform, "other"] {
        for ending in ["cdx.json", "mcpb", "tar.gz"] {
            expected.push(format!("kubecrier-{VERSION}-{platform}.{ending}"));
        }
    }
    expected.sort();
    let files = out.join("files");
    assert_eq!(names(&files), expected);
    // Each of them but the sums, by the name that it has in a release.
    let sums = fs::read_to_string(files.join(SUMS)).unwrap();
    assert_eq!(sums.lines().count(), expected.len() - 1);
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", SUMS]);
    let checked = check.current_dir(&files).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    // The chart of the first, not that of the other.
    let chart = format!("kubecrier-{VERSION}.tgz");
    let packed = fs::read(one.join("charts").join(&chart)).unwrap();
    assert!(fs::read(files.join(&chart)).unwrap() == packed);
    let npm = [&platform, "other"].map(|name| format!("kubecrier-{name}-{VERSION}.tgz"));
    let mut npm = Vec::from(npm);
    npm.push(format!("kubecrier-{VERSION}.tgz"));
    npm.sort();
    assert_eq!(names(&out.join("npm")), npm);
    assert_eq!(names(&out.join("pypi")), names(&one.join("pypi")));
    let layout = out.join("image");
    let index = read(&layout.join("index.json"));
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let path = layout.join("blobs").join(digest.replace(':', "/"));
        let hash = hex_digest(&fs::read(&path).unwrap());
        assert_eq!(digest, format!("sha256:{hash}"));
        path
    };
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    let index = read(&blob(&index["manifests"][0]));
    let images = index["manifests"].as_array().unwrap();
    assert_eq!(images.len(), 2);
    for (image, machine) in images.iter().zip(["amd64", "arm64"]) {
        assert_eq!(image["platform"]["architecture"], machine);
        let manifest = read(&blob(image));
        let config = read(&blob(&manifest["config"]));
        assert_eq!(config["architecture"], machine);
        blob(&manifest["layers"][0]);
    }
    // Where no image is made, there is none to join.
    fs::remove_dir_all(other.join("image")).unwrap();
    write_checksums(&other).unwrap();
    merge(&[one, other], &at("one image")).unwrap();
    assert_eq!(names(&at("one image/image/blobs")).len(), 4);
}

#[test]
fn what_is_not_as_it_was_made_is_not_joined() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, out) = (scratch.path().join("dist"), scratch.path().join("out"));
    for file in [
        "kubecrier-1-linux-x64.tar.gz",
        "charts/kubecrier-1.tgz",
        "npm/x",
        "pypi/x",
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let refused = |folders: &[&PathBuf]| {
        let out = tempfile::tempdir().unwrap();
        let folders: Vec<_> = folders.iter().map(|one| (*one).clone()).collect();
        merge(&folders, out.path()).unwrap_err().to_string()
    };
    let error = refused(&[&folder]);
    assert!(
        error.contains("cannot read") && error.contains(SUMS),
        "{error}"
    );
    write_checksums(&folder).unwrap();
    merge(std::slice::from_ref(&folder), &out).unwrap();
    let error = merge(std::slice::from_ref(&folder), &out).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
    let error = refused(&[&folder, &folder]);
    assert!(error.contains("of a platform that is there"), "{error}");
    fs::write(folder.join("stray"), "x").unwrap();
    let error = refused(&[&folder]);
    assert!(error.contains("stray` is not listed"), "{error}");
    fs::remove_file(folder.join("stray")).unwrap();
    fs::write(folder.join("npm/x"), "y").unwrap();
    let error = refused(&[&folder]);
    assert!(error.contains("x` is not as it was made"), "{error}");
}
