//! Callers with access tokens: a real identity provider, the official client that logs in there, and the API server's
//! own tokens.

mod cluster_tokens;
mod lifetime;
mod login;
mod provider;
mod refusals;
