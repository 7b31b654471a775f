//! A cache of file content. A file is read again only if it may have changed. Hashes are
//! made of content alone; file times and inodes only decide whether a read can be skipped.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

use super::{
    checked_path::TrustedOwners,
    executable::{FIRST_LINE_MAX, names_interpreter},
};

/// The resolution of file times, which is two seconds on some file systems. A file that
/// changed that shortly before it was read could change again without new times.
const CLOCK_TICK: Duration = Duration::from_secs(2);

/// Caches the content of files and folders.
#[derive(Debug, Default)]
pub(super) struct FileCache {
    // Keyed by the text of the path: to hash a path by its components takes longer than a
    // stat of it.
    contents: HashMap<OsString, Cached<Content>>,
    folders: HashMap<OsString, Cached<Listing>>,
    /// The number of the current pass; entries that a pass did not use are evicted after it.
    pass: u64,
    /// The number of files that were read.
    reads: u64,
}

#[derive(Debug)]
struct Cached<T> {
    stamp: FileStamp,
    /// Whether a change after the read would change the stamp.
    settled: bool,
    content: Arc<T>,
    pass: u64,
}

/// The entries of a folder, sorted by name, without hidden ones.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) names: Vec<(String, PathBuf)>,
    /// Entries whose names cannot be shown, and why.
    pub(super) invalid: Vec<(PathBuf, &'static str)>,
}

/// The metadata that changes with the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The content of a file.
#[derive(Debug)]
pub(super) struct Content {
    /// Empty if the file was only hashed.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub(super) digest: String,
    /// Whether the first line names an interpreter.
    pub(super) has_interpreter: bool,
}

// === impl FileCache ===

impl FileCache {
    /// Begins a pass.
    pub(super) fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// Ends a pass and evicts what it did not use, so that the cache is no larger than the
    /// project.
    pub(super) fn end_pass(&mut self) {
        let pass = self.pass;
        self.contents.retain(|_, known| known.pass == pass);
        self.folders.retain(|_, known| known.pass == pass);
    }

    /// The entries of a folder, whose times change when a name is added or removed.
    pub(super) fn list(&mut self, folder: &Path, meta: &Metadata) -> io::Result<Arc<Listing>> {
        let pass = self.pass;
        if let Some(listing) = unchanged(&mut self.folders, folder, meta, pass) {
            return Ok(listing);
        }
        let now = SystemTime::now();
        let content = Arc::new(Listing::read(folder)?);
        let after = FileStamp::of(&fs::metadata(folder)?);
        let known = Cached {
            stamp: after,
            settled: after == FileStamp::of(meta) && after.is_settled(now),
            content: Arc::clone(&content),
            pass,
        };
        self.folders.insert(folder.into(), known);
        Ok(content)
    }

    /// The content of a small file.
    pub(super) fn read(
        &mut self,
        path: &Path,
        meta: &Metadata,
        max: u64,
    ) -> io::Result<Arc<Content>> {
        if meta.len() > max {
            return Err(too_large(meta.len(), max));
        }
        self.get(path, meta, |file| {
            let mut bytes = Vec::new();
            // The file may have grown since its metadata was read.
            file.take(max + 1).read_to_end(&mut bytes)?;
            if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
                return Err(too_large(meta.len(), max));
            }
            let first = &bytes[..bytes.len().min(FIRST_LINE_MAX)];
            Ok(Content {
                digest: hex(&Sha256::digest(&bytes)),
                has_interpreter: names_interpreter(first),
                bytes,
            })
        })
    }

    /// The hash of a file of any size.
    pub(super) fn digest(&mut self, path: &Path, meta: &Metadata) -> io::Result<Arc<Content>> {
        self.get(path, meta, |file| {
            let mut hash = Sha256::new();
            let mut buffer = vec![0; 64 * 1024];
            let mut first = Vec::new();
            loop {
                let count = file.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                hash.update(&buffer[..count]);
                let missing = FIRST_LINE_MAX - first.len();
                first.extend_from_slice(&buffer[..count.min(missing)]);
            }
            Ok(Content {
                bytes: Vec::new(),
                digest: hex(&hash.finalize()),
                has_interpreter: names_interpreter(&first),
            })
        })
    }

    fn get(
        &mut self,
        path: &Path,
        meta: &Metadata,
        load: impl FnOnce(&mut File) -> io::Result<Content>,
    ) -> io::Result<Arc<Content>> {
        let pass = self.pass;
        if let Some(content) = unchanged(&mut self.contents, path, meta, pass) {
            return Ok(content);
        }
        self.reads += 1;
        let mut file = File::open(path)?;
        let opened = file.metadata()?;
        // What was checked is not always what was opened.
        TrustedOwners::current()
            .check(path, &opened)
            .map_err(io::Error::other)?;
        let before = FileStamp::of(&opened);
        let now = SystemTime::now();
        let content = Arc::new(load(&mut file)?);
        let after = FileStamp::of(&file.metadata()?);
        let known = Cached {
            stamp: after,
            settled: before == after && after.is_settled(now),
            content: Arc::clone(&content),
            pass,
        };
        self.contents.insert(path.into(), known);
        Ok(content)
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.reads
    }

    /// Puts other content in the place of the right one, and trusts it.
    #[cfg(test)]
    pub(super) fn poison(&mut self, path: &Path) {
        let known = self
            .contents
            .get_mut(path.as_os_str())
            .expect("it was read");
        known.settled = true;
        known.content = Arc::new(Content {
            bytes: b"corrupted".to_vec(),
            digest: "0".repeat(64),
            has_interpreter: false,
        });
    }
}

// === impl Listing ===

impl Listing {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let (mut names, mut invalid) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                None => invalid.push((path, "its name is not UTF-8")),
                Some(name) if name.starts_with('.') => {}
                Some(name) if name.contains(char::is_control) => {
                    invalid.push((folder.to_owned(), "a name in it has control characters"));
                }
                Some(name) => names.push((name.to_owned(), path)),
            }
        }
        names.sort();
        Ok(Self { names, invalid })
    }
}

// === impl FileStamp ===

impl FileStamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether a change after `now` would change the stamp.
    fn is_settled(&self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or(u64::MAX);
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        // The clock of a file from the future differs from the server's.
        changed
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age > CLOCK_TICK + Duration::from_secs(1))
    }
}

/// The cached content of a path that has not changed since it was read.
fn unchanged<T>(
    cache: &mut HashMap<OsString, Cached<T>>,
    path: &Path,
    meta: &Metadata,
    pass: u64,
) -> Option<Arc<T>> {
    let known = cache.get_mut(path.as_os_str())?;
    if !known.settled || known.stamp != FileStamp::of(meta) {
        return None;
    }
    known.pass = pass;
    Some(Arc::clone(&known.content))
}

fn too_large(size: u64, max: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it has {size} bytes, and may have {max}"),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &mut FileCache, path: &Path) -> Vec<u8> {
        let meta = fs::metadata(path).unwrap();
        files.read(path, &meta, 100).unwrap().bytes.clone()
    }

    #[test]
    fn a_file_that_just_changed_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut files = FileCache::default();
        files.begin_pass();
        // The same size, and likely within one tick of the clock.
        for turn in 0..500_u16 {
            let text = format!("{turn:04}");
            fs::write(&path, &text).unwrap();
            assert_eq!(read(&mut files, &path), text.as_bytes());
        }
    }

    #[test]
    fn an_old_file_is_read_once() {
        let mut files = FileCache::default();
        // The time of change cannot be set, so the test takes an old file.
        let path = Path::new("/bin/sh");
        let meta = fs::metadata(path).unwrap();
        files.begin_pass();
        let first = files.digest(path, &meta).unwrap();
        let again = files.digest(path, &meta).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(files.reads(), 1);
        files.end_pass();
        files.begin_pass();
        files.end_pass();
        files.begin_pass();
        files.digest(path, &meta).unwrap();
        assert_eq!(files.reads(), 2, "a pass that did not use it evicts it");
    }

    #[test]
    fn a_file_that_is_too_large_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, vec![b'x'; 101]).unwrap();
        let meta = fs::metadata(&path).unwrap();
        let error = FileCache::default().read(&path, &meta, 100).unwrap_err();
        assert!(error.to_string().contains("101 bytes"), "{error}");
    }

    #[test]
    fn a_file_that_took_the_place_of_the_checked_one_is_checked() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "mine").unwrap();
        let meta = fs::metadata(&path).unwrap();
        fs::write(dir.path().join("b"), "theirs").unwrap();
        fs::rename(dir.path().join("b"), &path).unwrap();
        assert!(FileCache::default().digest(&path, &meta).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = FileCache::default().digest(&path, &meta).unwrap_err();
        assert!(error.to_string().contains("chmod go-w"), "{error}");
    }

    #[test]
    fn the_digest_is_sha_256_of_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "abc").unwrap();
        let meta = fs::metadata(&path).unwrap();
        let read = FileCache::default().read(&path, &meta, 100).unwrap();
        let hashed = FileCache::default().digest(&path, &meta).unwrap();
        assert!(
            read.digest.starts_with("ba7816bf8f01cfea"),
            "{}",
            read.digest
        );
        assert_eq!(read.digest, hashed.digest);
    }
}
