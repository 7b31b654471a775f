//! Callers with access tokens: a real identity provider, the official clients that log in there, and the API server's
//! own tokens.

mod algorithms;
mod bad_tokens;
mod changed_groups;
mod cluster_tokens;
mod interop_keycloak;
mod lifetime;
mod login;
pub(crate) mod provider;
mod refusals;
mod rmcp_login;
