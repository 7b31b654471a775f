//! Secrets of sinks, from files and environment variables. They are read for each delivery, so
//! that a file that changes counts at once, and nothing keeps them in memory.

use std::{fmt, path::PathBuf};

use tokio::io::AsyncReadExt;

/// More than any credential has.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Where a secret is. It shows the place, never the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
}

/// A secret. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

/// A secret that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the secret in {place}: {reason}")]
pub(crate) struct SecretError {
    place: String,
    reason: String,
}

// === impl SecretSource ===

impl SecretSource {
    /// Reads the secret; white space around it does not count.
    pub(crate) async fn read(&self) -> Result<Secret, SecretError> {
        let text = match self {
            Self::File(path) => {
                let mut bytes = Vec::new();
                let read = async {
                    let file = tokio::fs::File::open(path).await?;
                    file.take(SECRET_BYTES_MAX).read_to_end(&mut bytes).await
                };
                read.await.map_err(|error| self.error(error.to_string()))?;
                String::from_utf8(bytes).map_err(|_| self.error("it is no text".to_owned()))?
            }
            Self::Environment(name) => std::env::var(name)
                .map_err(|_| self.error("the variable is not set, or is no text".to_owned()))?,
        };
        match text.trim() {
            "" => Err(self.error("it is empty".to_owned())),
            secret => Ok(Secret(secret.to_owned())),
        }
    }

    /// An error about the secret.
    pub(crate) fn error(&self, reason: String) -> SecretError {
        SecretError {
            place: self.to_string(),
            reason,
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file `{}`", path.display()),
            Self::Environment(name) => write!(f, "variable `{name}`"),
        }
    }
}

// === impl Secret ===

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_file_counts_at_once_and_no_secret_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let source = SecretSource::File(path.clone());
        let error = source.read().await.unwrap_err().to_string();
        assert!(error.contains("token`: "), "{error}");
        for secret in ["hunter2", "hunter3"] {
            std::fs::write(&path, format!(" {secret}\n")).unwrap();
            let read = source.read().await.unwrap();
            assert_eq!(read.expose(), secret);
            assert!(!format!("{read:?} {source:?} {source}").contains(secret));
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(source.read().await.is_err());
        let unset = SecretSource::Environment("KUBECRIER_NO_SUCH_VARIABLE".to_owned());
        assert!(unset.read().await.is_err());
    }
}
