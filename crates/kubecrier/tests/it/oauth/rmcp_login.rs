//! rmcp's own OAuth client: from the 401 to a token, and to more scopes after a 403.

use std::{collections::BTreeMap, error::Error};

use reqwest::{Url, header, redirect::Policy};
use rmcp::{
    RoleClient, ServiceExt,
    model::CallToolRequestParams,
    service::{Peer, ServiceError},
    transport::{
        StreamableHttpClientTransport,
        auth::{AuthClient, AuthorizationCallback, AuthorizationRequest, OAuthState},
        streamable_http_client::{InsufficientScopeError, StreamableHttpClientTransportConfig},
    },
};
use serde_json::json;
use testbed::User;

use super::provider::{Guarded, Provider};
use crate::harness::one_context;

const CALLBACK: &str = "http://127.0.0.1:1/callback";

/// What a browser does: follows to the callback, with cookies.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

// === impl Browser ===

impl Browser {
    /// The callback that the provider leads to.
    async fn browse(&mut self, from: &str) -> String {
        let client = reqwest::Client::builder().redirect(Policy::none());
        let client = client.build().unwrap();
        let mut url = Url::parse(from).unwrap();
        for _ in 0..20 {
            if url.as_str().starts_with(CALLBACK) {
                return url.into();
            }
            let cookies = self.cookies.iter();
            let cookies: Vec<_> = cookies
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let request = client.get(url.clone());
            let request = request.header(header::COOKIE, cookies.join("; "));
            let answer = request.send().await.unwrap();
            for line in answer.headers().get_all(header::SET_COOKIE) {
                let pair = line.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
            let next = answer.headers().get(header::LOCATION).cloned();
            let Some(next) = next else {
                panic!("{url}: {}", answer.text().await.unwrap());
            };
            url = url.join(next.to_str().unwrap()).unwrap();
        }
        panic!("too many redirects: {url}");
    }
}

/// A parameter of a URL.
fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).unwrap();
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

async fn call(peer: &Peer<RoleClient>, tool: &'static str) -> Result<(), ServiceError> {
    let arguments = json!({}).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new(tool).with_arguments(arguments);
    let answer = peer.call_tool(call).await?;
    assert_ne!(answer.is_error, Some(true), "{tool}: {answer:?}");
    Ok(())
}

/// The scopes that a refused call would need.
fn missing_scopes(error: &ServiceError) -> String {
    let mut source: Option<&(dyn Error + 'static)> = match error {
        ServiceError::TransportSend(error) => Some(error.error.as_ref()),
        other => Some(other),
    };
    while let Some(current) = source {
        if let Some(refused) = current.downcast_ref::<InsufficientScopeError>() {
            return refused.get_required_scope().unwrap().to_owned();
        }
        source = current.source();
    }
    panic!("not for its scopes: {error:?}");
}

#[tokio::test]
async fn it_logs_in_from_the_401_and_asks_for_more_after_a_403() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let file = one_context(bed.dev(), User::Reader);
    let guarded = Guarded::start(&file.path, &provider.issuer, &[]);
    let resource = guarded.resource();
    let unknown = StreamableHttpClientTransport::from_uri(resource.clone());
    let refused = ().serve(unknown).await.unwrap_err();
    let challenge = refused.auth_challenge().expect("a 401 with a challenge");
    // All that it knows is in the challenge.
    let request = AuthorizationRequest::new(CALLBACK)
        .with_preregistered_client("person")
        .with_initial_scope_selection()
        .with_challenge(challenge);
    let mut state = OAuthState::new(&*resource, None).await.unwrap();
    state.start_authorization(request).await.unwrap();
    let login = state.get_authorization_url().await.unwrap();
    assert!(login.starts_with(&provider.issuer), "{login}");
    assert_eq!(parameter(&login, "resource"), Some(resource.clone()));
    assert_eq!(
        parameter(&login, "code_challenge_method").as_deref(),
        Some("S256")
    );
    let scope = parameter(&login, "scope").unwrap_or_default();
    let asked: Vec<_> = scope.split(' ').collect();
    assert!(
        asked.contains(&"kubecrier:read") && !scope.contains("events"),
        "what the challenge names: {scope}"
    );
    let mut browser = Browser::default();
    let callback = browser.browse(&login).await;
    state.handle_callback_url(&callback).await.unwrap();
    let manager = state.into_authorization_manager().unwrap();
    let client = AuthClient::new(reqwest::Client::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(resource);
    let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
    let session = ().serve(transport).await.unwrap();
    call(&session, "namespaces_list").await.unwrap();
    let refused = call(&session, "events_list").await.unwrap_err();
    let missing = missing_scopes(&refused);
    assert_eq!(missing, "kubecrier:read kubecrier:events");
    // The refusal has ended nothing, and another log-in is for this call alone.
    call(&session, "namespaces_list").await.unwrap();
    let before = client.get_access_token().await.unwrap();
    {
        let manager = client.auth_manager.lock().await;
        let login = manager.request_scope_upgrade(&missing).await.unwrap();
        let callback = browser.browse(&login).await;
        let callback = AuthorizationCallback::from_redirect_url(&callback).unwrap();
        let exchanged = manager.exchange_code_for_token_with_issuer(
            &callback.code,
            &callback.csrf_token,
            callback.issuer.as_deref(),
        );
        exchanged.await.unwrap();
    }
    assert_ne!(client.get_access_token().await.unwrap(), before);
    // The session is the caller's, and goes on with the token that permits more.
    call(&session, "events_list").await.unwrap();
    let refused = call(&session, "pods_log").await.unwrap_err();
    let scopes = missing_scopes(&refused);
    assert!(scopes.contains("kubecrier:logs"), "{scopes}");
    session.cancel().await.unwrap();
}
