//! A terminal for clients that want one: what they print goes into a file, what they ask of a
//! terminal is answered.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    sync::Arc,
    thread,
};

use anyhow::Result;
use parking_lot::Mutex;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
/// Our end of a terminal.
pub(super) struct Terminal {
    ours: Arc<Mutex<File>>,
}

/// What a terminal answers: its kind, and where the cursor is.
const QUESTIONS: [(&[u8], &[u8]); 3] = [
    (b"\x1b[c", b"\x1b[?62;c"),
    (b"\x1b[0c", b"\x1b[?62;c"),
    (b"\x1b[6n", b"\x1b[1;1R"),
];

// === impl Terminal ===

impl Terminal {
    /// A terminal, and the end for the program.
    pub(super) fn open(log: &Path) -> Result<(Self, File)> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size)?;
        let name = ptsname(&ours, Vec::new())?;
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(name.to_str()?)?;
        let ours = File::from(ours);
        let mut reader = ours.try_clone()?;
        let mut log = File::create(log)?;
        let ours = Arc::new(Mutex::new(ours));
        let writer = Arc::clone(&ours);
        // Ends with the last program that has the other end.
        thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let printed = &buffer[..count];
                let _ignored = log.write_all(printed);
                for (question, answer) in QUESTIONS {
                    if printed.windows(question.len()).any(|one| one == question) {
                        let _ignored = writer.lock().write_all(answer);
                    }
                }
            }
        });
        Ok((Self { ours }, theirs))
    }

    /// Types into it.
    pub(super) fn type_in(&self, text: &str) -> Result<()> {
        Ok(self.ours.lock().write_all(text.as_bytes())?)
    }
}
