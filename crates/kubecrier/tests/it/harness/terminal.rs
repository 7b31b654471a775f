//! A pseudo-terminal of a given width, with the binary in it.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, ExitStatus},
    sync::mpsc,
    thread,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::time::{Duration, Instant};

use super::TIMEOUT;

/// A terminal and the text on its screen so far.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    bytes: mpsc::Receiver<Vec<u8>>,
    pub(crate) screen: String,
}

// === impl Terminal ===

impl Terminal {
    pub(crate) fn start(command: &mut Command, columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let open = || {
            let mut options = File::options();
            options
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        let child = command
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let (sender, bytes) = mpsc::channel();
        let mut ours = File::from(ours);
        let keyboard = ours.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // At the end a pseudo-terminal returns an error.
            while let Ok(count) = ours.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keyboard,
            bytes,
            screen: String::new(),
        }
    }

    /// Waits for a text; returns how long that took.
    pub(crate) fn wait_for(&mut self, text: &str) -> Duration {
        let began = Instant::now();
        while !self.screen.contains(text) {
            // The process may print other lines without end.
            let left = TIMEOUT.saturating_sub(began.elapsed());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}, never saw `{text}`:\n{}", self.screen),
            }
        }
        began.elapsed()
    }

    /// Types a line.
    pub(crate) fn types(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Sends SIGINT, as ctrl-c does.
    pub(crate) fn interrupt(&mut self) -> ExitStatus {
        self.signal(Signal::INT);
        self.child.wait().unwrap()
    }

    /// Sends a signal to the process itself.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
