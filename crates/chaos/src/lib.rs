//! Servers that work together, of which one is killed, frozen or cut off every few seconds: does
//! every subscriber still get every event?
//!
//! ```text
//!  Creating ──▶ API server ◀── replica ◀─▶ Link ◀─▶ nats-server
//!                          ◀── replica ◀─▶ Link ◀─▶
//!                          ◀── replica ◀─▶ Link ◀─▶
//!                                ▲ one for each request, in turns
//!  sessions, callers ────────▶ Front
//! ```
//!
//! Everything is real: the API server, nats-server, the program. What is done to them follows from
//! a seed (`plan`); when the kernel and the network do their part does not.
//!
//! - `plan`: what is done when; `replica`, `link`: to what; `front`: the proxy before them
//! - `creating`: events with numbers; `watches`: how many watches the API server has
//! - `session`, `caller`: subscribers of both generations, over `wire`; `heard`: what they got
//! - `run`: all of it; `leftovers`: what is there afterwards
//! - `verdict`: whether the promise held; `report`: the same for people and programs

mod caller;
mod clock;
mod creating;
mod front;
mod heard;
mod leftovers;
mod link;
mod plan;
mod replica;
mod report;
mod run;
mod session;
mod verdict;
mod watches;
mod wire;

pub use crate::{
    report::Report,
    run::{ChaosConfig, run},
};

use std::io::Write as _;

/// Prints progress and results to stderr.
pub(crate) fn print_line(line: &str) {
    // A failed write to stderr cannot be reported anywhere else.
    let _written = writeln!(std::io::stderr(), "{line}");
}
