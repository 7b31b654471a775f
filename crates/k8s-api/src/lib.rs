//! The words of the Kubernetes API, without a client.
//!
//! - [`kinds`] is the one table of built-in kinds: group, version, plural, short names.
//!   Custom kinds are known from discovery only.
//! - [`LabelSelector`] parses and matches label selectors in the grammar of Kubernetes.
//! - [`grammar`] decides whether a text is a name by the API server's own rules.
//! - [`names`] builds and splits what kinds and objects are called in paths, in
//!   `apiVersion` and in RBAC rules.

pub mod grammar;
pub mod kinds;
pub mod names;
mod selector;

pub use self::{
    kinds::BuiltinKind,
    selector::{InvalidSelector, LabelSelector},
};
