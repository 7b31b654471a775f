//! Named bearer tokens in a file, one a line: `name:token`, and as whom its caller acts in
//! clusters (`line`).
//!
//! What the file says is what counts, also while the server runs: a name that is removed,
//! or whose token changes, may not call any more, and everything that it has open ends. So does
//! what a caller has open whose Kubernetes user or groups change; its next request counts. A
//! line that cannot be read gives nobody access, and neither does a file that is empty or
//! gone.

mod line;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use self::line::{LineError, TokenLine};
use super::Caller;
use crate::file_poll::{Contents, FilePoll};

/// Shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The tokens that are accepted now.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    // A lock because a changed file replaces what every request reads.
    known: RwLock<Vec<KnownToken>>,
}

/// A name and what its token hashes to; the token itself is not kept.
#[derive(Debug)]
struct KnownToken {
    caller: Caller,
    digest: [u8; 32],
    revoked: CancellationToken,
}

/// What a file of tokens has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenFileSummary {
    /// The number of tokens.
    pub tokens: usize,
    /// Those that name no Kubernetes user.
    pub without_user: usize,
}

/// Why a file of tokens cannot be used. Never shows a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read the token file `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not of the form.
    #[error("line {line} of the token file `{}` {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The fault of the line.
        what: String,
    },
    /// There is no token in it.
    #[error("the token file `{}` has no token; write `name:token`, one a line", .0.display())]
    Empty(PathBuf),
}

// === impl Tokens ===

impl Tokens {
    /// Reads a file for the first time. Nothing may be wrong with it: a server that does not
    /// start is noticed.
    pub(crate) fn read(path: &Path) -> Result<(Self, FilePoll), TokenFileError> {
        let (poll, mut contents) = FilePoll::open(&[path]);
        let text = text(path, contents.pop())?;
        let (lines, errors) = parse(path, &text);
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        if lines.is_empty() {
            return Err(TokenFileError::Empty(path.to_owned()));
        }
        let tokens = Self {
            path: path.to_owned(),
            known: RwLock::new(lines.iter().map(KnownToken::new).collect()),
        };
        Ok((tokens, poll))
    }

    /// A single token that comes from no file.
    pub(crate) fn single(token: &str) -> Self {
        let line = TokenLine {
            name: "owner",
            digest: digest(token),
            user: None,
        };
        Self {
            path: PathBuf::new(),
            known: RwLock::new(vec![KnownToken::new(&line)]),
        }
    }

    /// The caller with this token. Every known token is compared, each in constant time.
    pub(super) fn caller_of(&self, token: &str) -> Option<Caller> {
        let digest = digest(token);
        let mut found = None;
        for known in &*self.known.read() {
            if bool::from(known.digest.ct_eq(&digest)) {
                found = Some(known.caller.clone());
            }
        }
        found
    }

    /// Takes the changed content of the file. Returns the callers whose tokens are not
    /// accepted any more.
    pub(crate) fn replace(&self, mut contents: Contents) -> Vec<Caller> {
        let text = match text(&self.path, contents.pop()) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "without the token file nobody may call: bring it back");
                String::new()
            }
        };
        let (lines, errors) = parse(&self.path, &text);
        for error in errors {
            tracing::error!(%error, "the line gives nobody access: correct it");
        }
        let mut known = self.known.write();
        let mut before = std::mem::take(&mut *known);
        for line in &lines {
            let is_same = |one: &KnownToken| one.is(line);
            let kept = before.iter().position(is_same);
            known.push(kept.map_or_else(|| KnownToken::new(line), |at| before.swap_remove(at)));
        }
        drop(known);
        let revoked: Vec<_> = before.iter().map(|one| one.caller.clone()).collect();
        for one in before {
            one.revoked.cancel();
        }
        tracing::info!(
            tokens = lines.len(),
            revoked = revoked.len(),
            "token file read again"
        );
        revoked
    }
}

/// Checks whether a server would start with the file, and what it would know.
pub fn check_token_file(path: &Path) -> Result<TokenFileSummary, TokenFileError> {
    let (tokens, _poll) = Tokens::read(path)?;
    let known = tokens.known.read();
    let is_without = |one: &&KnownToken| one.caller.kubernetes_user().is_none();
    Ok(TokenFileSummary {
        tokens: known.len(),
        without_user: known.iter().filter(is_without).count(),
    })
}

// === impl KnownToken ===

impl KnownToken {
    fn new(line: &TokenLine<'_>) -> Self {
        let revoked = CancellationToken::new();
        let caller = Caller::with_token(line.name, revoked.clone());
        Self {
            caller: match &line.user {
                Some(user) => caller.acting_as(Arc::clone(user)),
                None => caller,
            },
            digest: line.digest,
            revoked,
        }
    }

    /// Whether a line says the same.
    fn is(&self, line: &TokenLine<'_>) -> bool {
        self.caller.name() == Some(line.name)
            && self.digest == line.digest
            && self.caller.kubernetes_user() == line.user.as_ref()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn text(path: &Path, content: Option<io::Result<Vec<u8>>>) -> Result<String, TokenFileError> {
    let content = content.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
    let bytes = content.map_err(|source| TokenFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines that count, and what is wrong with the others. Of a name that is there twice no
/// line counts: it cannot be told which one was to be replaced.
fn parse<'a>(path: &Path, text: &'a str) -> (Vec<TokenLine<'a>>, Vec<TokenFileError>) {
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    let mut times = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = TokenLine::parse(line).and_then(|line| {
            let count = times.entry(line.name).or_insert(0);
            *count += 1;
            match count {
                1 => Ok(line),
                _ => Err(LineError::Repeated),
            }
        });
        match parsed {
            Ok(line) => lines.push(line),
            Err(error) => errors.push(TokenFileError::Line {
                path: path.to_owned(),
                line: index + 1,
                what: error.to_string(),
            }),
        }
    }
    lines.retain(|line| times.get(line.name) == Some(&1));
    (lines, errors)
}

#[cfg(test)]
mod tests;
