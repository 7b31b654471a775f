//! Named bearer tokens in a file, one a line: `name:token`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The tokens of a file, as it is now.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    // A lock because the file is read again by whichever request sees it changed.
    state: Mutex<TokenState>,
}

#[derive(Debug)]
struct TokenState {
    stamp: Option<(SystemTime, u64)>,
    known: Vec<TokenDigest>,
}

/// A name and what its token hashes to; the token itself is not kept.
#[derive(Debug)]
struct TokenDigest {
    name: Arc<str>,
    digest: [u8; 32],
}

/// Why a file of tokens cannot be used. Never shows a token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenFileError {
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
    pub(crate) fn read(path: &Path) -> Result<Self, TokenFileError> {
        let stamp = stamp(path);
        let known = parse(path)?;
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(TokenState { stamp, known }),
        })
    }

    /// A single token that comes from no file.
    pub(crate) fn single(token: &str) -> Self {
        let known = TokenDigest {
            name: "owner".into(),
            digest: digest(token),
        };
        Self {
            path: PathBuf::new(),
            // No path has no stamp, now and later, so there is nothing to read again.
            state: Mutex::new(TokenState {
                stamp: None,
                known: vec![known],
            }),
        }
    }

    /// The name of a token's caller. Every known token is compared, each in constant
    /// time.
    pub(super) fn name_of(&self, token: &str) -> Option<Arc<str>> {
        let digest = digest(token);
        let mut state = self.state.lock();
        self.refresh(&mut state);
        let mut found = None;
        for known in &state.known {
            if bool::from(known.digest.ct_eq(&digest)) {
                found = Some(Arc::clone(&known.name));
            }
        }
        found
    }

    /// Reads the file again if it has changed. A file that cannot be used is reported
    /// and the previous tokens stay: a typing error must not lock every caller out.
    fn refresh(&self, state: &mut TokenState) {
        let now = stamp(&self.path);
        if now == state.stamp {
            return;
        }
        state.stamp = now;
        match parse(&self.path) {
            Ok(known) => {
                tracing::info!(tokens = known.len(), "token file read again");
                state.known = known;
            }
            Err(error) => tracing::error!(%error, "the tokens of before stay in force"),
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn parse(path: &Path) -> Result<Vec<TokenDigest>, TokenFileError> {
    let text = fs::read_to_string(path).map_err(|source| TokenFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse_text(path, &text)
}

fn parse_text(path: &Path, text: &str) -> Result<Vec<TokenDigest>, TokenFileError> {
    let mut known = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what| TokenFileError::Line {
            path: path.to_owned(),
            line: index + 1,
            what,
        };
        let (name, token) = line
            .split_once(':')
            .ok_or_else(|| wrong("is not of the form `name:token`"))?;
        let (name, token) = (name.trim(), token.trim());
        if name.is_empty() {
            return Err(wrong("has no name"));
        }
        if token.len() < TOKEN_BYTES_MIN {
            return Err(wrong("has a token of fewer than 16 characters"));
        }
        if known.iter().any(|one: &TokenDigest| &*one.name == name) {
            return Err(wrong("has a name that was there before"));
        }
        known.push(TokenDigest {
            name: name.into(),
            digest: digest(token),
        });
    }
    if known.is_empty() {
        return Err(TokenFileError::Empty(path.to_owned()));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        file
    }

    const ANN: &str = "0123456789abcdef-ann";
    const BOB: &str = "0123456789abcdef-bob";

    #[test]
    fn a_token_names_its_caller() {
        let file = file(&format!("# people\nann:{ANN}\n\n bob : {BOB} \n"));
        let tokens = Tokens::read(file.path()).unwrap();
        assert_eq!(tokens.name_of(ANN).as_deref(), Some("ann"));
        assert_eq!(tokens.name_of(BOB).as_deref(), Some("bob"));
        for wrong in ["", "ann", "0123456789abcdef-an", "0123456789abcdef-annn"] {
            assert_eq!(tokens.name_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_changed_file_counts_at_once_and_a_broken_one_not_at_all() {
        let file = file(&format!("ann:{ANN}\n"));
        let tokens = Tokens::read(file.path()).unwrap();
        fs::write(file.path(), format!("bob:{BOB}\n# longer\n")).unwrap();
        assert_eq!(tokens.name_of(ANN), None);
        assert_eq!(tokens.name_of(BOB).as_deref(), Some("bob"));
        fs::write(file.path(), "nonsense").unwrap();
        assert_eq!(tokens.name_of(BOB).as_deref(), Some("bob"));
        fs::remove_file(file.path()).unwrap();
        assert_eq!(tokens.name_of(BOB).as_deref(), Some("bob"));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_named_without_its_tokens() {
        let check = |content: &str, words: &str| {
            let error = Tokens::read(file(content).path()).unwrap_err().to_string();
            assert!(
                error.contains(words) && !error.contains("0123456789"),
                "{error}"
            );
        };
        check("", "has no token");
        check("# only a comment", "has no token");
        check("ann 0123456789abcdef", "line 1");
        check(":0123456789abcdef", "has no name");
        check("ann:short", "fewer than 16");
        check("ann:0123456789abcdef\nann:0123456789abcdeg", "line 2");
        let gone = Tokens::read(Path::new("/no/such/tokens"))
            .unwrap_err()
            .to_string();
        assert!(gone.contains("/no/such/tokens"), "{gone}");
    }

    proptest! {
        #[test]
        fn fuzz_a_right_file_names_the_owner_of_each_token(
            right in prop::collection::btree_map("[a-z]{1,3}", "[A-Z0-9:#]{16,20}", 1..5),
            (between, space) in ("(\r?\n|# [a-z]{0,9}:[A-Z]{0,20}\n){0,3}", " {0,2}"),
        ) {
            let mut text = String::new();
            for (name, token) in &right {
                text += &format!("{between}{space}{name}{space}:{space}{token}{space}\n");
            }
            let known = parse_text(Path::new("tokens"), &text).unwrap();
            let known: Vec<_> = known.iter().map(|one| (&*one.name, one.digest)).collect();
            let right: Vec<_> = right.iter().map(|(name, token)| (&**name, digest(token))).collect();
            prop_assert_eq!(known, right);
        }

        #[test]
        fn fuzz_any_file_is_read_or_refused_without_its_tokens(
            text in prop_oneof![any::<String>(), "([a-z#: ]{0,4}:?[A-Z0-9]{14,20}\r?\n){0,5}"],
        ) {
            match parse_text(Path::new("tokens"), &text) {
                Ok(known) => prop_assert!(!known.is_empty() && known.len() <= text.lines().count()),
                Err(error) => {
                    let error = error.to_string();
                    for word in text.split([':', '\n', '\r', ' ']).filter(|word| word.len() >= 14) {
                        prop_assert!(!error.contains(word), "{}", error);
                    }
                }
            }
        }
    }
}
