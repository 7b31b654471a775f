//! The server as its users meet it: a process, real clients, a real cluster.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod admin;
mod bad_input;
mod captures;
mod clients;
mod configuration;
mod guardrails;
mod harness;
mod pod_status;
mod protocol;
mod redaction;
mod sessions;
mod shutdown;
mod tools;
