//! Content of files, read again only when a file may have changed. The hash of an
//! item is made of content alone; times and numbers of files only ever decide
//! whether reading can be spared.

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

/// A file that changed so shortly before it was read could change again without
/// its times showing it: clocks of file systems tick, some every two seconds.
const TICK: Duration = Duration::from_secs(2);

/// What is remembered of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    // By the text of the path: hashing a path by its parts takes longer than asking
    // the system about it.
    known: HashMap<OsString, Known<Content>>,
    folders: HashMap<OsString, Known<Listing>>,
    /// Rises with each pass; what a pass did not ask for is forgotten after it.
    pass: u64,
    /// How often a file was read.
    reads: u64,
}

#[derive(Debug)]
struct Known<T> {
    identity: Identity,
    /// Whether the identity is worth anything.
    settled: bool,
    content: Arc<T>,
    pass: u64,
}

/// What is in a folder, in the order of the names. What begins with a dot is
/// nobody's business.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) names: Vec<(String, PathBuf)>,
    /// Names that cannot be told to anybody, and why.
    pub(super) odd: Vec<(PathBuf, &'static str)>,
}

/// What changes when a file's content does, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What is in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Its bytes, if it was to be read and not only to be hashed.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of its bytes.
    pub(super) digest: String,
}

// === impl Files ===

impl Files {
    /// A pass begins.
    pub(super) fn begin(&mut self) {
        self.pass += 1;
    }

    /// A pass ends: only what it saw is remembered, so this is as large as the
    /// project and no larger.
    pub(super) fn end(&mut self) {
        let pass = self.pass;
        self.known.retain(|_, known| known.pass == pass);
        self.folders.retain(|_, known| known.pass == pass);
    }

    /// What is in a folder. Its times change when a name comes or goes.
    pub(super) fn list(&mut self, folder: &Path, meta: &Metadata) -> io::Result<Arc<Listing>> {
        let pass = self.pass;
        if let Some(known) = self.folders.get_mut(folder.as_os_str())
            && known.settled
            && known.identity == Identity::of(meta)
        {
            known.pass = pass;
            return Ok(Arc::clone(&known.content));
        }
        let now = SystemTime::now();
        let content = Arc::new(Listing::read(folder)?);
        let after = Identity::of(&fs::metadata(folder)?);
        let known = Known {
            identity: after,
            settled: after == Identity::of(meta) && after.is_settled(now),
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
            // The file may have grown since it was looked at.
            file.take(max + 1).read_to_end(&mut bytes)?;
            if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
                return Err(too_large(meta.len(), max));
            }
            let digest = hex(&Sha256::digest(&bytes));
            Ok(Content { bytes, digest })
        })
    }

    /// The hash of a file of any size.
    pub(super) fn digest(&mut self, path: &Path, meta: &Metadata) -> io::Result<Arc<Content>> {
        self.get(path, meta, |file| {
            let mut hash = Sha256::new();
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = file.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                hash.update(&buffer[..count]);
            }
            Ok(Content {
                bytes: Vec::new(),
                digest: hex(&hash.finalize()),
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
        if let Some(known) = self.known.get_mut(path.as_os_str())
            && known.settled
            && known.identity == Identity::of(meta)
        {
            known.pass = pass;
            return Ok(Arc::clone(&known.content));
        }
        self.reads += 1;
        let mut file = File::open(path)?;
        let before = Identity::of(&file.metadata()?);
        let now = SystemTime::now();
        let content = load(&mut file)?;
        let after = Identity::of(&file.metadata()?);
        let content = match self.known.get(path.as_os_str()) {
            // The same again stays the same object: nobody has to compare it.
            Some(known) if *known.content == content => Arc::clone(&known.content),
            _ => Arc::new(content),
        };
        let known = Known {
            identity: after,
            settled: before == after && after.is_settled(now),
            content: Arc::clone(&content),
            pass,
        };
        self.known.insert(path.into(), known);
        Ok(content)
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.reads
    }
}

// === impl Listing ===

impl Listing {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let (mut names, mut odd) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                None => odd.push((path, "its name is not UTF-8")),
                Some(name) if name.starts_with('.') => {}
                Some(name) if name.contains(char::is_control) => {
                    odd.push((folder.to_owned(), "a name in it has control characters"));
                }
                Some(name) => names.push((name.to_owned(), path)),
            }
        }
        names.sort();
        Ok(Self { names, odd })
    }
}

// === impl Identity ===

impl Identity {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether a change after that moment would show.
    fn is_settled(&self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or(u64::MAX);
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        // A file of the future has a clock that is not ours.
        changed
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age > TICK + Duration::from_secs(1))
    }
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

    fn read(files: &mut Files, path: &Path) -> Vec<u8> {
        let meta = fs::metadata(path).unwrap();
        files.read(path, &meta, 100).unwrap().bytes.clone()
    }

    #[test]
    fn a_file_that_just_changed_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut files = Files::default();
        files.begin();
        // The same size, and likely within one tick of the clock.
        for turn in 0..500_u16 {
            let text = format!("{turn:04}");
            fs::write(&path, &text).unwrap();
            assert_eq!(read(&mut files, &path), text.as_bytes());
        }
    }

    #[test]
    fn an_old_file_is_read_once() {
        let mut files = Files::default();
        // The time of change is the system's to set: take a file that is old.
        let path = Path::new("/bin/sh");
        let meta = fs::metadata(path).unwrap();
        files.begin();
        let first = files.digest(path, &meta).unwrap();
        let again = files.digest(path, &meta).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(files.reads(), 1);
        files.end();
        files.begin();
        files.end();
        files.begin();
        files.digest(path, &meta).unwrap();
        assert_eq!(files.reads(), 2, "a pass that did not see it forgets it");
    }

    #[test]
    fn a_file_that_is_too_large_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, vec![b'x'; 101]).unwrap();
        let meta = fs::metadata(&path).unwrap();
        let error = Files::default().read(&path, &meta, 100).unwrap_err();
        assert!(error.to_string().contains("101 bytes"), "{error}");
    }

    #[test]
    fn the_digest_is_sha_256_of_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "abc").unwrap();
        let meta = fs::metadata(&path).unwrap();
        let read = Files::default().read(&path, &meta, 100).unwrap();
        let hashed = Files::default().digest(&path, &meta).unwrap();
        assert!(
            read.digest.starts_with("ba7816bf8f01cfea"),
            "{}",
            read.digest
        );
        assert_eq!(read.digest, hashed.digest);
    }
}
