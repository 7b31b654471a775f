//! A `.creds` file: who a user is, and the seed that proves it. It is read for each connection,
//! because it may be renewed while the process runs.

use std::path::Path;

use async_nats::{Auth, AuthError, ConnectOptions};
use nkeys::KeyPair;

use crate::ConnectError;

/// Options that log in with a file, which must be there and have credentials.
pub(crate) fn options(path: &Path) -> Result<ConnectOptions, ConnectError> {
    read(path).map_err(|why| ConnectError::File {
        what: "credentials file",
        path: path.to_owned(),
        why,
    })?;
    let path = path.to_owned();
    let log_in = move |nonce: Vec<u8>| {
        let path = path.clone();
        async move { auth(&path, &nonce).map_err(AuthError::new) }
    };
    Ok(ConnectOptions::with_auth_callback(log_in))
}

fn auth(path: &Path, nonce: &[u8]) -> Result<Auth, String> {
    let (jwt, key) = read(path).map_err(|why| format!("`{}`: {why}", path.display()))?;
    let mut auth = Auth::new();
    auth.jwt = Some(jwt);
    auth.signature = Some(key.sign(nonce).map_err(|error| error.to_string())?);
    Ok(auth)
}

fn read(path: &Path) -> Result<(String, KeyPair), String> {
    // A few hundred bytes, once for each connection.
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (jwt, seed) = parse(&text).ok_or("it has no JWT and no seed of a user")?;
    let key = KeyPair::from_seed(seed).map_err(|error| error.to_string())?;
    Ok((jwt.to_owned(), key))
}

/// The two lines that are framed by lines of dashes.
fn parse(text: &str) -> Option<(&str, &str)> {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty());
    let mut framed = || {
        lines.find(|line| line.starts_with("---") && line.contains("BEGIN"))?;
        lines.next().filter(|line| !line.starts_with("---"))
    };
    Some((framed()?, framed()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(jwt: &str, key: &KeyPair) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\
             NKEY Seed printed below can be used to sign and prove identity.\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            key.seed().unwrap()
        )
    }

    #[test]
    fn a_file_that_is_renewed_counts_for_the_next_connection() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        for jwt in ["eyJ0eXAi.first.x", "eyJ0eXAi.second.x"] {
            let key = KeyPair::new_user();
            std::fs::write(&path, file(jwt, &key)).unwrap();
            let auth = auth(&path, b"nonce").unwrap();
            assert_eq!(auth.jwt.as_deref(), Some(jwt));
            key.verify(b"nonce", &auth.signature.unwrap()).unwrap();
        }
        std::fs::write(&path, "").unwrap();
        let Err(why) = auth(&path, b"nonce") else {
            panic!("it is empty");
        };
        assert!(why.contains("no JWT"), "{why}");
    }

    #[test]
    fn what_is_no_file_of_credentials_is_refused() {
        for text in [
            "",
            "x",
            "-----BEGIN A-----\n-----END A-----\n",
            "---BEGIN\njwt\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
