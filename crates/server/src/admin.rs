//! `/healthz`, `/readyz`, `/metrics` and `/stats`: the pages for operators; and `/`, for who
//! opens the address in a browser.
//!
//! `/` and the first two have no content and are for everyone. The others are for who may call
//! the server, or have a listener of their own.

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

use crate::{Caller, Server};
use kubecrier_core::metrics::{HistoryNumbers, Metrics, SharedWatchNumbers, WatchState};
use kubecrier_history::{Health, History};
use kubecrier_k8s::{Contexts, Reachability, Reached, WatchInfo, WatchRole};
use kubecrier_lifecycle::{InFlight, Lifecycle};

/// What `/` answers.
const ABOUT: &str = "kubecrier, an MCP server for Kubernetes: point an MCP client at /mcp here; \
                     /healthz says whether it runs, /readyz whether it serves\n";

/// The state that the pages show.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Ready or draining.
    pub lifecycle: Lifecycle,
    /// The metrics of `/metrics`.
    pub metrics: Metrics,
    /// The contexts of `/stats`.
    pub contexts: Arc<Contexts>,
    /// Whether any of them can be reached.
    pub reachability: Reachability,
    /// Its sessions, subscriptions and watches.
    pub server: Server,
    /// When the process started, for the uptime.
    pub started: tokio::time::Instant,
}

/// Whose sessions, subscriptions and watches `/stats` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsScope {
    /// Those of all callers.
    Everyone,
    /// Those of the caller of the request.
    Caller,
}

impl Admin {
    /// Whether any context can be reached; an established watch is as good as an answer.
    async fn reached(&self) -> Reached {
        let is_live = |watch: &WatchInfo| watch.state == WatchState::Live;
        if self.server.watching().watches.iter().any(is_live) {
            Reached::Yes
        } else {
            self.reachability.check().await
        }
    }
}

/// The pages without content.
pub(super) fn health(admin: Admin) -> Router {
    Router::new()
        .route("/", get(async || ABOUT))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(admin)
}

/// The pages with content.
pub(super) fn pages(admin: Admin, scope: StatsScope) -> Router {
    let stats = match scope {
        StatsScope::Everyone => get(stats),
        StatsScope::Caller => get(stats_of_caller),
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/stats", stats)
        .with_state(admin)
}

async fn readyz(State(admin): State<Admin>) -> impl IntoResponse {
    if !admin.lifecycle.is_ready() {
        let why = "starting or draining\n".to_owned();
        return (StatusCode::SERVICE_UNAVAILABLE, why);
    }
    match admin.reached().await {
        Reached::No(errors) => {
            // For everyone: why, and no names.
            let kinds: BTreeSet<_> = errors.values().map(|kind| kind.as_str()).collect();
            let kinds = Vec::from_iter(kinds).join(", ");
            let why = format!("no context can be reached: {kinds}; see `kubecrier doctor`\n");
            (StatusCode::SERVICE_UNAVAILABLE, why)
        }
        // Nothing is taken from clients, so the server is ready.
        _ => {
            let history = admin.server.history().map(History::health);
            let why = match (history, admin.server.cluster_store()) {
                (Some(Health::Failing(_)), _) => {
                    "ok, but the history is not being kept: the log says why\n"
                }
                (_, Some(Err(_))) => {
                    "ok, but the store of --cluster-store cannot be reached or does not \
                     work: this server works alone\n"
                }
                (Some(Health::Ok) | None, Some(Ok(())) | None) => "ok\n",
            };
            (StatusCode::OK, why.to_owned())
        }
    }
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let now = admin.server.watching();
    admin.metrics.watch().sizes(now.silence, now.subscriptions);
    if let Some(history) = admin.server.history() {
        admin.metrics.history().set(&numbers(history));
    }
    if let Some(store) = admin.server.cluster_store() {
        let watches = shared_watches(&now.watches);
        admin.metrics.cluster_store().set(store.is_ok(), watches);
    }
    match admin.metrics.encode(admin.server.sessions()) {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// How many of these watches are shared, by who watches.
fn shared_watches(watches: &[WatchInfo]) -> SharedWatchNumbers {
    let count = |role| watches.iter().filter(|one| one.role == Some(role)).count();
    SharedWatchNumbers {
        holder: count(WatchRole::Holder),
        follower: count(WatchRole::Follower),
        alone: count(WatchRole::Alone),
    }
}

/// The numbers of a history, as of now.
fn numbers(history: &History) -> HistoryNumbers {
    let stats = history.stats();
    HistoryNumbers {
        kept: stats.kept,
        doubles: stats.doubles,
        dropped: stats.dropped,
        removed: stats.removed,
        failures: stats.failures,
        waiting: stats.waiting,
        disk_bytes: stats.disk_bytes,
        is_kept: history.health() == Health::Ok,
    }
}

/// What operators see of a history.
fn history_stats(history: &History) -> Value {
    let numbers = numbers(history);
    let [events, incidents, faults] = history.stats().kept_by_stream;
    let error = match history.health() {
        Health::Ok => None,
        Health::Failing(error) => Some(error),
    };
    json!({
        "kept": numbers.kept,
        "keptByStream": {"events": events, "incidents": incidents, "faults": faults},
        "dropped": numbers.dropped,
        "removed": numbers.removed,
        "waiting": numbers.waiting,
        "diskBytes": numbers.disk_bytes,
        "error": error,
    })
}

async fn stats(State(admin): State<Admin>) -> Json<Value> {
    // Names and a verdict, never addresses or credentials.
    let contexts = match admin.contexts.list() {
        Ok(contexts) => json!(contexts.into_iter().map(|one| one.name).collect::<Vec<_>>()),
        Err(error) => json!({"error": error.to_string()}),
    };
    let now = admin.server.watching();
    let unreachable = match admin.reached().await {
        Reached::No(errors) => json!(errors),
        _ => json!({}),
    };
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": admin.started.elapsed().as_secs(),
        "ready": admin.lifecycle.is_ready(),
        "sessions": admin.server.sessions(),
        "clusterStore": admin.server.cluster_store().map(|store| json!({"error": store.err()})),
        "parkedAnswerBytes": admin.server.parked_answer_bytes(),
        "subscriptions": now.subscriptions,
        "watches": now.watches,
        "tasks": tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        "callsRunning": admin.lifecycle.in_flight(InFlight::ToolCall),
        "contexts": contexts,
        "contextsUnreachable": unreachable,
        "clientsConnected": admin.contexts.connected(),
        "project": admin.server.project_stats(),
        "history": admin.server.history().map(history_stats),
    }))
}

/// What one of several callers may know: nothing of the others, and nothing of the machine.
async fn stats_of_caller(State(admin): State<Admin>) -> Json<Value> {
    let caller = Caller::current();
    let own = admin.server.usage_of(&caller);
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": admin.started.elapsed().as_secs(),
        "ready": admin.lifecycle.is_ready(),
        "caller": caller.to_string(),
        "sessions": own.sessions,
        "subscriptions": own.subscriptions,
    }))
}
