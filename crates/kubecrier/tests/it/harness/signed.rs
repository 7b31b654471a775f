//! Sessions whose every request carries the same headers.

use std::sync::atomic::AtomicU64;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::{HttpSession, initialize};

impl HttpSession {
    /// Begins a session; all of its requests carry the token.
    pub(crate) async fn signed(base: &str, token: &str) -> Self {
        Self::with_header(base, "authorization", &format!("Bearer {token}")).await
    }

    /// Begins a session; all of its requests carry the header.
    pub(crate) async fn with_header(base: &str, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().unwrap();
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
        let client = reqwest::Client::builder().default_headers(headers);
        let mut session = Self {
            base: base.to_owned(),
            version: "2025-11-25".to_owned(),
            client: client.build().unwrap(),
            session: String::new(),
            next: AtomicU64::new(1),
        };
        let answer = session.fresh(&initialize(&session.version)).await;
        assert_eq!(answer.status(), 200);
        let id = answer.headers()["mcp-session-id"].to_str().unwrap();
        session.session = id.to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(&done).await.status(), 202);
        session
    }
}
