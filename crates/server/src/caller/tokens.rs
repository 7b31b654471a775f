//! Named bearer tokens in a file, one a line: `name:token`.
//!
//! What the file says is what counts, also while the server runs: a name that is removed,
//! or whose token changes, may not call any more, and everything that it has open ends. A
//! line that cannot be read gives nobody access, and neither does a file that is empty or
//! gone.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

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

/// A line of the file.
struct TokenLine<'a> {
    name: &'a str,
    digest: [u8; 32],
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
        what: &'static str,
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
            let is_same = |one: &KnownToken| one.name() == line.name && one.digest == line.digest;
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

/// Checks whether a server would start with the file; the number of its tokens.
pub fn check_token_file(path: &Path) -> Result<usize, TokenFileError> {
    let (tokens, _poll) = Tokens::read(path)?;
    let count = tokens.known.read().len();
    Ok(count)
}

// === impl KnownToken ===

impl KnownToken {
    fn new(line: &TokenLine<'_>) -> Self {
        let revoked = CancellationToken::new();
        Self {
            caller: Caller::with_token(line.name, revoked.clone()),
            digest: line.digest,
            revoked,
        }
    }

    fn name(&self) -> &str {
        self.caller.name().unwrap_or_default()
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
        let parsed = parse_line(line).and_then(|line| {
            let count = times.entry(line.name).or_insert(0);
            *count += 1;
            match count {
                1 => Ok(line),
                _ => Err("has a name that was there before"),
            }
        });
        match parsed {
            Ok(line) => lines.push(line),
            Err(what) => errors.push(TokenFileError::Line {
                path: path.to_owned(),
                line: index + 1,
                what,
            }),
        }
    }
    lines.retain(|line| times.get(line.name) == Some(&1));
    (lines, errors)
}

fn parse_line(line: &str) -> Result<TokenLine<'_>, &'static str> {
    let (name, token) = line
        .split_once(':')
        .ok_or("is not of the form `name:token`")?;
    let (name, token) = (name.trim(), token.trim());
    if name.is_empty() {
        return Err("has no name");
    }
    if token.len() < TOKEN_BYTES_MIN {
        return Err("has a token of fewer than 16 characters");
    }
    Ok(TokenLine {
        name,
        digest: digest(token),
    })
}

#[cfg(test)]
mod tests;
