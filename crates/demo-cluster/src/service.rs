//! The tower service: routes requests, and answers them.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use kubecrier_k8s_api::kinds;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower_service::Service;

use crate::{
    faults::{Fault, RecordedRequest},
    list,
    logs::{self, LogKey, LogOptions},
    request::{RequestInfo, RequestTarget, ResourcePath},
    resource::{self, Resource, Storage},
    selector::Selection,
    shared::{Shared, Signals},
    status::StatusError,
    view::{ResponseKind, View},
    watch::WatchStream,
};

/// The API of a demo cluster, for `kube::Client::new` or any HTTP server.
#[derive(Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
}

/// The body of a response.
pub type ApiBody = StreamBody<Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>>;

type ApiResponse = Response<ApiBody>;

/// Longer than the body of any review.
const BODY_BYTES_MAX: usize = 1 << 20;

// === impl ApiService ===

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = ApiResponse;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<ApiResponse>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut signals = shared.signals();
            let began = *signals.borrow_and_update();
            tokio::select! {
                biased;
                // A pending request is reset together with the open streams.
                _reset = signals.wait_for(|now| now.cut > began.cut) => {
                    Err(io::ErrorKind::ConnectionReset.into())
                }
                response = serve(&shared, request) => response,
            }
        })
    }
}

async fn serve<B>(shared: &Arc<Shared>, request: Request<B>) -> io::Result<ApiResponse>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    if shared.refuses_connections() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let request = RequestInfo::parse(&parts);
    let recorded = RecordedRequest::of(&request);
    let fault = shared.lock().injector.on_request(recorded);
    shared.count_request();
    if let Some(fault) = fault
        && let Some(response) = inject(shared, &request, fault).await?
    {
        return Ok(response);
    }
    let mut signals = shared.signals();
    if signals.wait_for(|now: &Signals| !now.frozen).await.is_err() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_too_long_or_reset) => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    Ok(handle(shared, &request, &body).unwrap_or_else(|error| error_response(&error)))
}

/// The response of an injected fault; `None` if the fault only delays the right one.
async fn inject(
    shared: &Shared,
    request: &RequestInfo,
    fault: Fault,
) -> io::Result<Option<ApiResponse>> {
    let error = match fault {
        Fault::Delay(delay) => {
            sleep(delay).await;
            return Ok(None);
        }
        Fault::Silence => std::future::pending().await,
        Fault::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
        Fault::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
        Fault::TooManyRequests(seconds) => {
            let text = "Too many requests, please try again later.\n";
            let mut response = text_response(StatusCode::TOO_MANY_REQUESTS, text);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
            return Ok(Some(response));
        }
        Fault::Unauthorized => StatusError::unauthorized(),
        Fault::Forbidden => {
            let no_resource = ResourcePath::default();
            let at = match &request.target {
                RequestTarget::Resource(at) => at,
                RequestTarget::NonResource => &no_resource,
            };
            shared.lock().access.forbidden(request, at)
        }
        Fault::Gone => StatusError::watch_expired(),
        Fault::InternalError => StatusError::internal("etcdserver: request timed out"),
        Fault::Unavailable => StatusError::unavailable(),
        Fault::Status(code) => {
            StatusError::of_code(StatusCode::from_u16(code).unwrap_or(StatusCode::IM_A_TEAPOT))
        }
    };
    Ok(Some(error_response(&error)))
}

fn handle(
    shared: &Arc<Shared>,
    request: &RequestInfo,
    body: &Bytes,
) -> Result<ApiResponse, StatusError> {
    shared.lock().access.check(request)?;
    match &request.target {
        RequestTarget::NonResource => Ok(discovery(request)),
        RequestTarget::Resource(at) => handle_resource(shared, request, at, body),
    }
}

/// Answers requests without a resource: discovery, health and the version.
fn discovery(request: &RequestInfo) -> ApiResponse {
    let segments: Vec<_> = request
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let found = match segments.as_slice() {
        ["version"] => Some(version()),
        ["readyz" | "livez" | "healthz"] => return text_response(StatusCode::OK, "ok"),
        ["api"] => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"},
            ],
        })),
        ["apis"] => Some(resource::groups()),
        ["apis", group] => resource::group(group).map(|mut found| {
            found["kind"] = "APIGroup".into();
            found["apiVersion"] = "v1".into();
            found
        }),
        ["api", version] => resource::resources("", version),
        ["apis", group, version] => resource::resources(group, version),
        _ => None,
    };
    match found {
        Some(value) if request.verb == "get" => json_response(StatusCode::OK, &value),
        Some(_) => error_response(&StatusError::method_not_allowed()),
        // A group that is served has a status of its own; for others there is no handler.
        None => match segments.as_slice() {
            ["api", ..] => error_response(&StatusError::no_such_resource()),
            ["apis", group, ..] if resource::group(group).is_some() => {
                error_response(&StatusError::no_such_resource())
            }
            _ => text_response(StatusCode::NOT_FOUND, "404 page not found\n"),
        },
    }
}

/// The release that the tests compare this cluster with.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3",
        "gitCommit": "demo",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn handle_resource(
    shared: &Arc<Shared>,
    request: &RequestInfo,
    at: &ResourcePath,
    body: &Bytes,
) -> Result<ApiResponse, StatusError> {
    let Some(resource) = Resource::find(&at.group, &at.version, &at.resource) else {
        let known = at.group.is_empty() || resource::group(&at.group).is_some();
        return if known {
            Err(StatusError::no_such_resource())
        } else {
            Ok(text_response(StatusCode::NOT_FOUND, "404 page not found\n"))
        };
    };
    if resource.storage == Storage::Review {
        return review(shared, request, at, resource, body);
    }
    let in_scope = match (&at.namespace, resource.api.namespaced) {
        // The path of a namespace has the namespace as its scope, too.
        (Some(_), false) => *resource.api == kinds::NAMESPACE && at.name == at.namespace,
        (None, true) => at.name.is_none(),
        _ => true,
    };
    let log = *resource.api == kinds::POD && at.subresource.as_deref() == Some("log");
    if !in_scope || !(log || at.subresource.is_none()) {
        return Err(StatusError::no_such_resource());
    }
    let negotiate = |response| View::negotiate(&request.accept, resource, response);
    let selection = || {
        let query = &request.query;
        let namespace = at.namespace.as_deref().filter(|_| resource.api.namespaced);
        let (labels, fields) = (query.text("labelSelector"), query.text("fieldSelector"));
        Selection::parse(resource, namespace, labels, fields)
    };
    match request.verb {
        "get" if log => pod_log(shared, request, at),
        "get" => {
            let view = negotiate(ResponseKind::Object)?;
            let store = &shared.lock().store;
            let object = list::get(store, resource, at, &request.query, view)?;
            Ok(json_response(StatusCode::OK, &object))
        }
        "list" => {
            let view = negotiate(ResponseKind::List)?;
            let selection = selection()?;
            let store = &shared.lock().store;
            let found = list::list(store, resource, &selection, &request.query, view)?;
            Ok(json_response(StatusCode::OK, &found))
        }
        "watch" => {
            let view = negotiate(ResponseKind::Watch)?;
            let watch = WatchStream::open(shared, resource, selection()?, &request.query, view)?;
            Ok(stream_response(StatusCode::OK, JSON, watch.into_stream()))
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn review(
    shared: &Arc<Shared>,
    request: &RequestInfo,
    at: &ResourcePath,
    resource: &Resource,
    body: &Bytes,
) -> Result<ApiResponse, StatusError> {
    if request.verb != "create" || at.name.is_some() || at.namespace.is_some() {
        return Err(match at.name {
            Some(_) => StatusError::no_such_resource(),
            None => StatusError::method_not_allowed(),
        });
    }
    let review: Value = serde_json::from_slice(body)
        .map_err(|error| StatusError::bad_request(format!("the body is not JSON: {error}")))?;
    let access = &shared.lock().access;
    let user = request.user.as_deref();
    let answered = if *resource.api == kinds::SELF_SUBJECT_ACCESS_REVIEW {
        access.review(user, &review)?
    } else {
        access.rules(user, &review)?
    };
    Ok(json_response(StatusCode::CREATED, &answered))
}

fn pod_log(
    shared: &Arc<Shared>,
    request: &RequestInfo,
    at: &ResourcePath,
) -> Result<ApiResponse, StatusError> {
    let pods = Resource::find("", "v1", "pods").expect("the table has pods");
    let key = list::key(pods, at);
    let options = LogOptions::parse(&request.query, &key.name)?;
    let pod = shared.lock().store.get(&key).cloned();
    let pod = pod.ok_or_else(|| StatusError::not_found("pods", "", "pods", &key.name))?;
    let container = logs::container(&pod, request.query.get("container"))?;
    if pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        // The pod is not scheduled, so there is no kubelet to ask.
        return Ok(stream_response(
            StatusCode::NO_CONTENT,
            TEXT,
            futures_util::stream::empty(),
        ));
    }
    let previous = logs::select(&pod, &container, options.previous)?;
    let log = LogKey {
        namespace: key.namespace,
        pod: key.name,
        container,
        previous,
    };
    Ok(stream_response(
        StatusCode::OK,
        "text/plain",
        logs::read(shared, log, options),
    ))
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

fn json_response(status: StatusCode, value: &Value) -> ApiResponse {
    let text = Bytes::from(value.to_string());
    stream_response(status, JSON, futures_util::stream::iter([Ok(text)]))
}

fn error_response(error: &StatusError) -> ApiResponse {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, &error.to_value());
    if let Some(seconds) = error.retry_after() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn text_response(status: StatusCode, text: &'static str) -> ApiResponse {
    let text = Bytes::from_static(text.as_bytes());
    stream_response(status, TEXT, futures_util::stream::iter([Ok(text)]))
}

fn stream_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> ApiResponse {
    let frames = body.map(|chunk| chunk.map(Frame::data));
    let mut response = Response::new(StreamBody::new(Box::pin(frames) as _));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}
