//! The container image, as an OCI layout: a static program, certificate authorities, and a user
//! that is not root. There is no base image, hence no shell and nothing else to keep up to date.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use super::{archive::tar, hex_digest};
use crate::step::root;

/// The user of the chart, which distroless images call nonroot.
const USER: &str = "65532:65532";
const PROGRAM: &str = "usr/local/bin/kubecrier";
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
const CERTIFICATES_LICENSE: &str = "packaging/image/CDLA-Permissive-2.0.txt";
/// Nothing in the image has a time, so that the same program makes the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The file of a layout that says what is in it.
pub(super) const INDEX: &str = "index.json";
pub(super) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

const PROGRAM_HEADER_INTERPRETER: u32 = 3;

/// Makes the layout of an image of this program.
pub(super) fn make(program: &Path, layout: &Path) -> Result<()> {
    let bytes =
        fs::read(program).with_context(|| format!("cannot read `{}`", program.display()))?;
    let architecture = match Elf::parse(&bytes) {
        None => bail!("`{}` is not a program of Linux", program.display()),
        Some(elf) if elf.has_interpreter => bail!(
            "`{}` is not static: it would need a dynamic loader, which the image does not have",
            program.display()
        ),
        Some(elf) => elf.architecture()?,
    };
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let (layer, diff_id) = layer(&bytes, &blobs)?;
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "User": USER,
            "WorkingDir": "/",
            "Entrypoint": [format!("/{PROGRAM}")],
            "Env": [
                "PATH=/usr/local/bin",
                format!("SSL_CERT_FILE=/{CERTIFICATES}"),
            ],
            "Labels": labels(),
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        "history": [{ "created": CREATED, "created_by": "cargo xtask dist" }],
    });
    let config = blob(&blobs, "application/vnd.oci.image.config.v1+json", &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
        "annotations": labels(),
    });
    let mut manifest = blob(
        &blobs,
        "application/vnd.oci.image.manifest.v1+json",
        &manifest,
    )?;
    manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
    write_layout(layout, manifest)
}

/// Completes the layout of what is described, under the name of this version.
pub(super) fn write_layout(layout: &Path, mut content: Value) -> Result<()> {
    content["annotations"] = json!({ "org.opencontainers.image.ref.name": version() });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [content],
    });
    fs::write(layout.join(INDEX), index.to_string())?;
    let marker = json!({ "imageLayoutVersion": "1.0.0" });
    fs::write(layout.join("oci-layout"), marker.to_string())?;
    Ok(())
}

/// The certificate authorities of Mozilla, in the version of `Cargo.lock`: those of the machine
/// that builds would be other ones on each.
fn certificates() -> String {
    let mut text = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        let encoded = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = more;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Writes the only layer: its descriptor, and the hash of what is in it.
fn layer(program: &[u8], blobs: &Path) -> Result<(Value, String)> {
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    let license = fs::read(root().join("LICENSE"))?;
    let certificates_license = fs::read(root().join(CERTIFICATES_LICENSE))?;
    for (path, content, mode) in [
        (PROGRAM, program, 0o755),
        (CERTIFICATES, certificates().as_bytes(), 0o644),
        // glibc asks these for the names of hosts and of the user.
        ("etc/nsswitch.conf", b"hosts: files dns\n".as_slice(), 0o644),
        (
            "etc/passwd",
            b"nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
            0o644,
        ),
        ("etc/group", b"nonroot:x:65532:\n", 0o644),
        ("usr/share/doc/kubecrier/LICENSE", &license, 0o644),
        // The agreement under which the certificates are passed on.
        (
            "usr/share/doc/ca-certificates/LICENSE",
            &certificates_license,
            0o644,
        ),
    ] {
        write_file(&tree.join(path), content, mode)?;
    }
    let packed = scratch.path().join("layer.tar");
    tar(&tree, &["etc", "usr"], &packed)?;
    let diff_id = format!("sha256:{}", hex_digest(&fs::read(&packed)?));
    let mut gzip = Command::new("gzip");
    gzip.args(["--no-name", "-9", "--stdout"]).arg(&packed);
    let done = gzip.output().context("cannot start gzip")?;
    if !done.status.success() {
        bail!("{gzip:?} failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
    Ok((write_blob(blobs, media_type, &done.stdout)?, diff_id))
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Writes a blob of JSON under its hash; its descriptor.
pub(super) fn blob(blobs: &Path, media_type: &str, content: &Value) -> Result<Value> {
    write_blob(blobs, media_type, content.to_string().as_bytes())
}

/// Writes a blob under its hash; its descriptor.
fn write_blob(blobs: &Path, media_type: &str, content: &[u8]) -> Result<Value> {
    let hash = hex_digest(content);
    fs::write(blobs.join(&hash), content)?;
    Ok(json!({
        "mediaType": media_type,
        "digest": format!("sha256:{hash}"),
        "size": content.len(),
    }))
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn labels() -> Value {
    json!({
        "org.opencontainers.image.title": "kubecrier",
        "org.opencontainers.image.description":
            "The Kubernetes MCP server that tells an AI agent what just happened in a cluster",
        "org.opencontainers.image.version": version(),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://github.com/kubecrier/kubecrier",
        // The MCP registry takes this as the proof that the image belongs to the entry.
        "io.modelcontextprotocol.server.name": "io.github.kubecrier/kubecrier",
    })
}

/// What the header of a program says.
struct Elf {
    machine: u16,
    has_interpreter: bool,
}

// === impl Elf ===

impl Elf {
    /// Reads a 64-bit little-endian program; `None` for anything else.
    fn parse(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let short = |at: usize| -> Option<u16> {
            let bytes = bytes.get(at..at + 2)?;
            Some(u16::from_le_bytes(bytes.try_into().ok()?))
        };
        let offset = u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?);
        let (size, count) = (short(54)?, short(56)?);
        let mut has_interpreter = false;
        for index in 0..count {
            let at = usize::try_from(offset).ok()? + usize::from(index) * usize::from(size);
            let kind = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
            has_interpreter |= kind == PROGRAM_HEADER_INTERPRETER;
        }
        Some(Self {
            machine: short(18)?,
            has_interpreter,
        })
    }

    /// As OCI calls it.
    fn architecture(&self) -> Result<&'static str> {
        match self.machine {
            62 => Ok("amd64"),
            183 => Ok("arm64"),
            other => bail!("there is no image for machine {other}"),
        }
    }
}
