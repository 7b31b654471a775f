//! End-to-end tests: the real binary, real clients, a real cluster.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

mod admin;
mod bad_input;
mod bridge;
mod browsers;
mod captures;
#[cfg(feature = "conformance-fixtures")]
mod chart;
mod clients;
mod closer;
mod cluster_store;
mod configuration;
mod continued;
mod demo;
mod dist;
mod doctor;
mod doctor_clients;
mod doors;
mod faults;
mod first_steps;
mod fixtures;
mod frames;
mod graph;
mod guardrails;
mod harness;
mod history;
mod impersonation;
#[cfg(feature = "conformance-fixtures")]
mod in_cluster;
mod incident_watch;
mod incidents;
mod inspector;
mod install;
mod kubelet_errors;
mod labels;
#[cfg(feature = "conformance-fixtures")]
mod leftovers;
mod liveness;
#[cfg(feature = "conformance-fixtures")]
mod loggers;
mod mcp_bash;
mod messages;
mod names;
mod oauth;
mod other_users;
mod packages;
mod pod_status;
mod project_exits;
mod project_prompts;
mod protocol;
mod read_only;
mod redaction;
mod registries;
mod registries_run;
mod replicas;
mod resources;
mod result_types;
mod resumed;
mod rights;
mod rmcp_client;
mod selectors;
mod separate_eyes;
mod sessions;
mod shares;
mod shutdown;
mod silence;
mod sinks;
mod stalled;
mod subscriptions;
mod subscriptions_of_others;
mod tls;
mod tokens;
mod tools;
mod trusted_proxies;
mod tutorial;
#[cfg(feature = "conformance-fixtures")]
mod undeliverable;
mod upstream;
mod waits;
mod watches;
mod watching;
mod watching_far;
