//! The tower service: requests in, answers out.

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
use serde_json::{Value, json};
use tokio::time::sleep;
use tower_service::Service;

use crate::{
    faults::{Fault, Seen},
    list,
    logs::{self, Source, Wanted},
    request::{Asked, Coordinates, Target},
    resource::{self, Resource, Storage},
    selector::Selection,
    shared::{Shared, Signals},
    status::Refusal,
    view::{Answer, View},
    watch::Watching,
};

/// The API of a demo cluster, for `kube::Client::new` or any HTTP server.
#[derive(Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
}

/// What an answer's bytes come from.
pub type ApiBody = StreamBody<Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>>;

type Answered = Response<ApiBody>;

/// Nobody asks a question longer than this.
const QUESTION_MAX: usize = 1 << 20;

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
    type Response = Answered;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Answered>> + Send>>;

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
                // What waits for an answer is cut with everything else.
                _cut = signals.wait_for(|now| now.cut > began.cut) => {
                    Err(io::ErrorKind::ConnectionReset.into())
                }
                answered = serve(&shared, request) => answered,
            }
        })
    }
}

async fn serve<B>(shared: &Arc<Shared>, request: Request<B>) -> io::Result<Answered>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    if shared.refuses() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let asked = Asked::parse(&parts);
    let fault = shared.lock().script.meet(Seen::of(&asked));
    shared.count_request();
    if let Some(fault) = fault
        && let Some(answer) = fail(shared, &asked, fault).await?
    {
        return Ok(answer);
    }
    let mut signals = shared.signals();
    if signals.wait_for(|now: &Signals| !now.frozen).await.is_err() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let question = match Limited::new(body, QUESTION_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_too_long_or_gone) => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    Ok(answer(shared, &asked, &question).unwrap_or_else(|refusal| refuse(&refusal)))
}

/// What a scripted fault makes of a request; nothing if it only took its time.
async fn fail(shared: &Shared, asked: &Asked, fault: Fault) -> io::Result<Option<Answered>> {
    let refusal = match fault {
        Fault::Delay(delay) => {
            sleep(delay).await;
            return Ok(None);
        }
        Fault::Silence => std::future::pending().await,
        Fault::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
        Fault::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
        Fault::TooManyRequests(seconds) => {
            let words = "Too many requests, please try again later.\n";
            let mut response = plain(StatusCode::TOO_MANY_REQUESTS, words);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
            return Ok(Some(response));
        }
        Fault::Unauthorized => Refusal::unauthorized(),
        Fault::Forbidden => {
            let nothing = Coordinates::default();
            let at = match &asked.target {
                Target::Object(at) => at,
                Target::Path => &nothing,
            };
            shared.lock().access.forbidden(asked, at)
        }
        Fault::Gone => Refusal::watch_expired(),
        Fault::InternalError => Refusal::internal("etcdserver: request timed out"),
        Fault::Unavailable => Refusal::unavailable(),
        Fault::Status(code) => {
            Refusal::of_code(StatusCode::from_u16(code).unwrap_or(StatusCode::IM_A_TEAPOT))
        }
    };
    Ok(Some(refuse(&refusal)))
}

fn answer(shared: &Arc<Shared>, asked: &Asked, question: &Bytes) -> Result<Answered, Refusal> {
    shared.lock().access.check(asked)?;
    match &asked.target {
        Target::Path => Ok(discover(asked)),
        Target::Object(at) => about_objects(shared, asked, at, question),
    }
}

/// Answers what is not about objects.
fn discover(asked: &Asked) -> Answered {
    let segments: Vec<_> = asked
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let found = match segments.as_slice() {
        ["version"] => Some(version()),
        ["readyz" | "livez" | "healthz"] => return plain(StatusCode::OK, "ok"),
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
        Some(value) if asked.verb == "get" => say(StatusCode::OK, &value),
        Some(_) => refuse(&Refusal::method_not_allowed()),
        // A group it has answers for its own; nobody answers for others.
        None => match segments.as_slice() {
            ["api", ..] => refuse(&Refusal::no_such_resource()),
            ["apis", group, ..] if resource::group(group).is_some() => {
                refuse(&Refusal::no_such_resource())
            }
            _ => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
        },
    }
}

/// The release whose answers this cluster gives; the side-by-side test runs on it.
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

fn about_objects(
    shared: &Arc<Shared>,
    asked: &Asked,
    at: &Coordinates,
    question: &Bytes,
) -> Result<Answered, Refusal> {
    let Some(resource) = Resource::find(&at.group, &at.version, &at.resource) else {
        let known = at.group.is_empty() || resource::group(&at.group).is_some();
        return if known {
            Err(Refusal::no_such_resource())
        } else {
            Ok(plain(StatusCode::NOT_FOUND, "404 page not found\n"))
        };
    };
    if resource.storage == Storage::Review {
        return review(shared, asked, at, resource, question);
    }
    let placed = match (&at.namespace, resource.namespaced) {
        // A namespace stands in its own path.
        (Some(_), false) => resource.plural == "namespaces" && at.name == at.namespace,
        (None, true) => at.name.is_none(),
        _ => true,
    };
    let log = resource.plural == "pods" && at.subresource.as_deref() == Some("log");
    if !placed || !(log || at.subresource.is_none()) {
        return Err(Refusal::no_such_resource());
    }
    let negotiate = |answer| View::negotiate(&asked.accept, resource, answer);
    let selection = || {
        let query = &asked.query;
        let namespace = at.namespace.as_deref().filter(|_| resource.namespaced);
        let (labels, fields) = (query.text("labelSelector"), query.text("fieldSelector"));
        Selection::parse(resource, namespace, labels, fields)
    };
    match asked.verb {
        "get" if log => pod_log(shared, asked, at),
        "get" => {
            let view = negotiate(Answer::Object)?;
            let store = &shared.lock().store;
            let object = list::get(store, resource, at, &asked.query, view)?;
            Ok(say(StatusCode::OK, &object))
        }
        "list" => {
            let view = negotiate(Answer::List)?;
            let selection = selection()?;
            let store = &shared.lock().store;
            let found = list::list(store, resource, &selection, &asked.query, view)?;
            Ok(say(StatusCode::OK, &found))
        }
        "watch" => {
            let view = negotiate(Answer::Watch)?;
            let watching = Watching::start(shared, resource, selection()?, &asked.query, view)?;
            Ok(respond(StatusCode::OK, JSON, watching.into_stream()))
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn review(
    shared: &Arc<Shared>,
    asked: &Asked,
    at: &Coordinates,
    resource: &Resource,
    question: &Bytes,
) -> Result<Answered, Refusal> {
    if asked.verb != "create" || at.name.is_some() || at.namespace.is_some() {
        return Err(match at.name {
            Some(_) => Refusal::no_such_resource(),
            None => Refusal::method_not_allowed(),
        });
    }
    let question: Value = serde_json::from_slice(question)
        .map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))?;
    let access = &shared.lock().access;
    let answer = match resource.kind {
        "SelfSubjectAccessReview" => access.review(asked.user.as_deref(), &question)?,
        _ => access.rules(asked.user.as_deref(), &question)?,
    };
    Ok(say(StatusCode::CREATED, &answer))
}

fn pod_log(shared: &Arc<Shared>, asked: &Asked, at: &Coordinates) -> Result<Answered, Refusal> {
    let pods = Resource::find("", "v1", "pods").expect("the table has pods");
    let key = list::key(pods, at);
    let wanted = Wanted::parse(&asked.query, &key.name)?;
    let pod = shared.lock().store.get(&key).cloned();
    let pod = pod.ok_or_else(|| Refusal::not_found("pods", "", "pods", &key.name))?;
    let container = logs::container(&pod, asked.query.get("container"))?;
    if pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        // Nothing to ask: it runs nowhere yet.
        return Ok(respond(
            StatusCode::NO_CONTENT,
            TEXT,
            futures_util::stream::empty(),
        ));
    }
    let previous = logs::which(&pod, &container, wanted.previous)?;
    let source = Source {
        namespace: key.namespace,
        pod: key.name,
        container,
        previous,
    };
    Ok(respond(
        StatusCode::OK,
        "text/plain",
        logs::read(shared, source, wanted),
    ))
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

fn say(status: StatusCode, value: &Value) -> Answered {
    let text = Bytes::from(value.to_string());
    respond(status, JSON, futures_util::stream::iter([Ok(text)]))
}

fn refuse(refusal: &Refusal) -> Answered {
    let status = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = say(status, &refusal.to_value());
    if let Some(seconds) = refusal.retry_after() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn plain(status: StatusCode, text: &'static str) -> Answered {
    let text = Bytes::from_static(text.as_bytes());
    respond(status, TEXT, futures_util::stream::iter([Ok(text)]))
}

fn respond(
    status: StatusCode,
    kind: &'static str,
    body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Answered {
    let frames = body.map(|chunk| chunk.map(Frame::data));
    let mut response = Response::new(StreamBody::new(Box::pin(frames) as _));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
