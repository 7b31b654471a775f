//! Validates every frame that a test reads against the published schema of its version.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Stdio},
    sync::OnceLock,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::Suite;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/frames.mjs");

/// The result of the validation of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Validation {
    Valid,
    /// The frame violates the schema, for this reason.
    Invalid(String),
    /// The schemas are not installed on this machine.
    Unchecked,
}

/// A process that validates frames for all tests of the binary. It ends when its stdin is
/// closed at the end of the tests.
struct SchemaValidator {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

static VALIDATOR: OnceLock<Option<Mutex<SchemaValidator>>> = OnceLock::new();

/// Validates a frame of the server; `method` is the request that a response belongs to.
pub(crate) fn validate(version: &str, method: Option<&str>, frame: &Value) -> Validation {
    let validator = VALIDATOR.get_or_init(|| match Suite::script(Path::new(SCRIPT)) {
        Ok(mut command) => {
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let stdout = BufReader::new(child.stdout.take().unwrap());
            Some(Mutex::new(SchemaValidator { child, stdout }))
        }
        Err(missing) => {
            testbed::skip(&missing);
            None
        }
    });
    let Some(validator) = validator else {
        return Validation::Unchecked;
    };
    let mut validator = validator.lock();
    let request = json!({"version": version, "method": method, "frame": frame});
    writeln!(validator.child.stdin.as_mut().unwrap(), "{request}").unwrap();
    let mut verdict = String::new();
    validator.stdout.read_line(&mut verdict).unwrap();
    assert!(
        verdict.ends_with('\n'),
        "the process that validates frames has ended"
    );
    match verdict.trim() {
        "" => Validation::Valid,
        wrong => Validation::Invalid(wrong.to_owned()),
    }
}

// === impl Validation ===

impl Validation {
    #[track_caller]
    pub(crate) fn expect_valid(self, frame: &Value) {
        if let Self::Invalid(why) = self {
            panic!("a frame that the protocol does not have: {why}\n{frame}");
        }
    }
}
