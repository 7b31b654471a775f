//! Every frame that a test reads is judged by the published schema of its version.

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

/// What the schema says to a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    /// What is wrong with it.
    Wrong(String),
    /// Nobody is here who could tell.
    Unjudged,
}

/// A process that judges, one for all tests. It ends with them: its input does.
struct Judge {
    child: Child,
    say: BufReader<ChildStdout>,
}

static JUDGE: OnceLock<Option<Mutex<Judge>>> = OnceLock::new();

/// Judges a frame of the server, by the request it answers if it does.
pub(crate) fn judge(version: &str, method: Option<&str>, frame: &Value) -> Verdict {
    let judge = JUDGE.get_or_init(|| match Suite::script(Path::new(SCRIPT)) {
        Ok(mut command) => {
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let say = BufReader::new(child.stdout.take().unwrap());
            Some(Mutex::new(Judge { child, say }))
        }
        Err(missing) => {
            testbed::skip(&missing);
            None
        }
    });
    let Some(judge) = judge else {
        return Verdict::Unjudged;
    };
    let mut judge = judge.lock();
    let asked = json!({"version": version, "method": method, "frame": frame});
    writeln!(judge.child.stdin.as_mut().unwrap(), "{asked}").unwrap();
    let mut said = String::new();
    judge.say.read_line(&mut said).unwrap();
    assert!(said.ends_with('\n'), "whoever judges frames has ended");
    match said.trim() {
        "" => Verdict::Fits,
        wrong => Verdict::Wrong(wrong.to_owned()),
    }
}

// === impl Verdict ===

impl Verdict {
    #[track_caller]
    pub(crate) fn expect_fits(self, frame: &Value) {
        if let Self::Wrong(why) = self {
            panic!("a frame that the protocol does not have: {why}\n{frame}");
        }
    }
}
