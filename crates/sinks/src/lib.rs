//! Sinks: where incidents go without any agent connected.
//!
//! ```text
//!  incidents ──▶ Sink::on_start, on_update ──▶ Tracker ──▶ Queue ──▶ delivery ──▶ webhook, agent,
//!  (never waits)                               filters,    one message            program
//!                                              once each   per incident
//!                                                 └──────▶ Board ──▶ alerts ────▶ Alertmanager
//!                                                          what fires, sent again
//! ```
//!
//! A sink has a task of its own, a bounded memory and a backoff: a target that is away touches
//! nothing else. Nothing here names kube, rmcp or axum; what follows clusters is in `kubecrier`.
//!
//! - `config`: what a sink is; `check`: whether it would work
//! - `notice`, `payload`: an incident in the words of a target; `signature`: Standard Webhooks
//! - `tracker`: which incidents a sink knows; `turns`: which of several servers delivers
//! - `queue`, `board`: what waits, and what fires
//! - `delivery`, `alerts`: attempts, backoff, the end
//! - `target`, `http`, `exec`: the way out; `address`: which addresses may be connected to;
//!   `secret`: credentials, read for each delivery

mod address;
mod alerts;
mod board;
mod check;
mod config;
mod delivery;
mod exec;
mod http;
mod notice;
mod payload;
mod queue;
mod secret;
mod signature;
mod sink;
mod target;
#[cfg(test)]
mod testing;
mod tracker;
mod turns;

pub use self::{
    address::{AllowedAddresses, InternalAddress},
    check::{SinkCheck, check},
    config::{
        Credentials, ExecTarget, HttpTarget, InvalidUrl, SinkConfig, SinkFilter, TargetConfig,
        TargetUrl, Transitions,
    },
    payload::{alert::is_label_name, cloud_event::ContentMode},
    secret::SecretSource,
    sink::Sink,
};
