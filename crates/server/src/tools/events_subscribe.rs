//! `events_subscribe`: pushes events as they happen.

use std::sync::Arc;

use mcp_notify::Level;
use rmcp::{model::JsonObject, schemars};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    FAULTS_WAIT, Output, ToolContext, ToolEntry, ToolError, arguments,
    events_poll::WAIT_SECONDS_MAX, schema,
};
use crate::{doors::Door, known_clients, resources::ProtocolEra};
use kubecrier_core::{
    filters::{EventType, FilterRequest, Filters, Mode},
    subscriptions::Subscription,
};
use kubecrier_incidents::Incident;
use kubecrier_k8s::ObjectName;

pub(super) const ENTRY: ToolEntry = ToolEntry {
    name: "events_subscribe",
    title: "Events: subscribe",
    description: "Subscribe to Kubernetes events, pushed as log messages (logger \
                  kubernetes/events, /faults or /incidents; set a level first: logging/setLevel \
                  info). The answer says whether your client is told; if not, or on stdio, call \
                  faults_wait or events_poll. Only events after this call are sent.",
    schema: schema::of::<FilterArgs>,
    call: |context, given| Box::pin(async move { call(context, arguments(given)?).await }),
};

/// The filters of a subscription; events_poll takes the same.
#[derive(Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct FilterArgs {
    /// events (default), faults (Warnings about pods, with logs) or incidents (what is wrong)
    mode: Option<ModeArg>,
    /// Kubeconfig context
    #[serde(alias = "cluster")]
    context: Option<String>,
    /// Only this namespace
    namespace: Option<String>,
    /// Only these namespaces
    namespaces: Option<Vec<String>>,
    /// Namespace patterns, e.g. prod-*
    namespace_selector: Option<Vec<String>>,
    /// Labels of the involved object, e.g. app=web,tier in (a,b)
    label_selector: Option<String>,
    /// Only about this object, e.g. deployment/web
    r#for: Option<String>,
    /// Only about this kind, e.g. Pod
    involved_kind: Option<String>,
    /// Only about objects with this name
    involved_name: Option<String>,
    /// Only about objects in this namespace
    involved_namespace: Option<String>,
    /// Only this type
    r#type: Option<EventTypeArg>,
    /// Only these types
    types: Option<Vec<EventTypeArg>>,
    /// Reason prefix, e.g. Fail
    reason: Option<String>,
    /// Reasons to exclude
    exclude_reasons: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(crate = "rmcp::schemars")]
enum ModeArg {
    Events,
    Faults,
    Incidents,
}

#[derive(Clone, Copy, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum EventTypeArg {
    Normal,
    Warning,
}

/// Open incidents that the answer names; faults_list has the rest.
const OPEN_MAX: usize = 20;

/// How events reach this client.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryInfo {
    via: &'static str,
    level: Option<Level>,
    stream_open: bool,
    /// Whether the client is told by itself, as it and its connection are now.
    pushed: bool,
    /// The call to make instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll: Option<Value>,
    /// The call that answers when something is wrong, for a client that is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Value>,
}

// === impl FilterArgs ===

impl FilterArgs {
    /// The filters that incidents have.
    pub(super) fn of_incidents(
        namespace: Option<String>,
        namespaces: Option<Vec<String>>,
        namespace_selector: Option<Vec<String>>,
        object: Option<String>,
    ) -> Self {
        Self {
            mode: Some(ModeArg::Incidents),
            namespace,
            namespaces,
            namespace_selector,
            r#for: object,
            ..Self::default()
        }
    }

    /// The same, about objects of this kind, name and namespace.
    pub(super) fn about(
        self,
        involved_kind: Option<String>,
        involved_name: Option<String>,
        involved_namespace: Option<String>,
    ) -> Self {
        Self {
            involved_kind,
            involved_name,
            involved_namespace,
            ..self
        }
    }

    pub(super) fn context(&self) -> Option<&str> {
        self.context.as_deref().filter(|name| !name.is_empty())
    }

    pub(super) fn filters(self) -> Result<Filters, ToolError> {
        let mut kind = self.involved_kind.filter(|kind| !kind.is_empty());
        let mut name = self.involved_name.filter(|name| !name.is_empty());
        if let Some(text) = self.r#for.filter(|text| !text.is_empty()) {
            if kind.is_some() || name.is_some() {
                return Err(ToolError::Arguments(
                    "`for` and `involvedKind`/`involvedName` say the same: give one of them"
                        .to_owned(),
                ));
            }
            let object = ObjectName::parse(&text)?;
            kind = Some(exact_kind("for", object.kind, object.exact)?);
            name = Some(object.name);
        } else if let Some(text) = kind.take() {
            if text.contains(['/', '.']) {
                return Err(ToolError::Arguments(format!(
                    "`involvedKind` is `{text}`, but must be a kind alone, e.g. Pod; use `for` for an object"
                )));
            }
            // Read as kubectl takes kinds: `pods` is Pod.
            let object = ObjectName::parse(&format!("{text}/x"))?;
            kind = Some(exact_kind("involvedKind", object.kind, object.exact)?);
        }
        let types = self.types.unwrap_or_default();
        let types = types.into_iter().chain(self.r#type).map(EventType::from);
        let request = FilterRequest {
            mode: match self.mode {
                None | Some(ModeArg::Events) => Mode::Events,
                Some(ModeArg::Faults) => Mode::Faults,
                Some(ModeArg::Incidents) => Mode::Incidents,
            },
            namespace: self.namespace.filter(|name| !name.is_empty()),
            namespaces: self.namespaces.unwrap_or_default(),
            namespace_selector: self.namespace_selector.unwrap_or_default(),
            label_selector: self.label_selector,
            involved_kind: kind,
            involved_name: name,
            involved_namespace: self.involved_namespace,
            types: types.collect(),
            reason: self.reason,
            exclude_reasons: self.exclude_reasons.unwrap_or_default(),
        };
        Filters::try_from(request).map_err(|error| ToolError::Arguments(error.to_string()))
    }
}

/// An event has the kind as Kubernetes spells it, so a filter must have the same.
fn exact_kind(argument: &str, kind: String, exact: bool) -> Result<String, ToolError> {
    if exact {
        return Ok(kind);
    }
    Err(ToolError::Arguments(format!(
        "`{argument}` has the kind `{kind}`, which is not one of the well-known ones: spell it as \
         Kubernetes does, e.g. Certificate"
    )))
}

async fn call(context: ToolContext<'_>, args: FilterArgs) -> Result<Output, ToolError> {
    if !context.client.pushes {
        return Err(ToolError::Unsupported(
            "this server speaks stdio, where events cannot be pushed: start it with `--port 8080` and \
             connect over HTTP (Streamable HTTP, with its SSE stream) to subscribe; or call events_poll \
             with the same filters, or faults_wait, which answer here"
                .to_owned(),
        ));
    }
    let name = args.context().map(str::to_owned);
    let filters = args.filters()?;
    check_mode(&context, &filters)?;
    let requester = &context.client.requester;
    let subscribing = context
        .subscriptions
        .subscribe(requester, name.as_deref(), filters);
    let created = subscribing.await?;
    let one = &created.subscription;
    let (delivery, obstacles) = DeliveryInfo::of(one, &context);
    let mut warnings = created.warnings;
    warnings.extend(obstacles);
    let mut data = describe(one);
    if one.filters().mode() == Mode::Incidents {
        data.insert("open".to_owned(), json!(open_incidents(&created.open)));
    }
    data.insert("delivery".to_owned(), json!(delivery));
    data.insert("warnings".to_owned(), json!(warnings));
    Ok(Output::json(context.redactor, data))
}

/// The incidents that are open when a subscription begins, the worst first.
fn open_incidents(open: &[Arc<Incident>]) -> Value {
    let shown = open.iter().take(OPEN_MAX).map(|incident| {
        json!({
            "id": incident.id,
            "severity": incident.severity,
            "object": incident.object,
            "headline": incident.headline,
        })
    });
    let shown: Vec<_> = shown.collect();
    json!({"total": open.len(), "incidents": shown})
}

/// Refuses faults and incidents where they are switched off: they come with what faults_get
/// and faults_list give.
pub(super) fn check_mode(context: &ToolContext<'_>, filters: &Filters) -> Result<(), ToolError> {
    match filters.mode() {
        Mode::Events => Ok(()),
        Mode::Faults => Ok(context.tool_filter.check(Door::FaultMode)?),
        Mode::Incidents => Ok(context.tool_filter.check(Door::IncidentMode)?),
    }
}

/// A subscription, as every tool shows it.
pub(super) fn describe(one: &Subscription) -> JsonObject {
    let degraded = one.degraded();
    let mut data = JsonObject::new();
    let status = if degraded.is_some() {
        "degraded"
    } else {
        "active"
    };
    for (key, value) in [
        ("subscriptionId", json!(one.id())),
        ("cluster", json!(one.cluster())),
        ("mode", json!(one.filters().mode())),
        ("filters", json!(one.filters())),
        ("createdAt", json!(one.created_at())),
        ("resourceUri", json!(one.uri())),
        ("status", json!(status)),
        ("lastSeq", json!(one.feed().last())),
    ] {
        data.insert(key.to_owned(), value);
    }
    if let Some(error) = degraded {
        data.insert("error".to_owned(), json!(error));
    }
    data
}

// === impl EventTypeArg ===

impl From<EventTypeArg> for EventType {
    fn from(argument: EventTypeArg) -> Self {
        match argument {
            EventTypeArg::Normal => Self::Normal,
            EventTypeArg::Warning => Self::Warning,
        }
    }
}

// === impl DeliveryInfo ===

impl DeliveryInfo {
    /// How a subscription reaches its client, and what keeps it from being told.
    fn of(one: &Subscription, context: &ToolContext<'_>) -> (Self, Vec<String>) {
        let client = context.client;
        let level = match client.requester.era {
            ProtocolEra::Legacy => {
                (client.requester.session.as_ref()).and_then(mcp_notify::Session::log_level)
            }
            ProtocolEra::Modern => None,
        };
        let mut obstacles = match client.requester.era {
            ProtocolEra::Legacy => legacy_obstacles(one, level, client.stream_open),
            ProtocolEra::Modern => vec![format!(
                "protocol version 2026-07-28 has no messages outside of a request, so this connection is \
                 not told by itself: listen to `{}` with subscriptions/listen, or poll; a subscription \
                 that is neither listened to nor polled ends after a few minutes",
                one.uri()
            )],
        };
        if let Some(title) = client
            .info
            .as_ref()
            .and_then(known_clients::drops_notifications)
        {
            obstacles.push(format!(
                "this client is {title}, which shows no notification to its model, so you are not told"
            ));
        }
        let pushed = obstacles.is_empty();
        let can_wait = context.tool_filter.check_tool(FAULTS_WAIT).is_ok();
        let wait = (!pushed && can_wait).then(|| {
            let arguments = wait_arguments(one.filters());
            obstacles.push(format!(
                "to be told when something is wrong, call {FAULTS_WAIT} with {arguments}: it answers once \
                 an incident is opened"
            ));
            json!({"tool": FAULTS_WAIT, "arguments": arguments})
        });
        let can_poll = context.tool_filter.check_tool("events_poll").is_ok();
        let poll = (!pushed && can_poll).then(|| {
            let arguments = json!({"subscriptionId": one.id(), "waitSeconds": WAIT_SECONDS_MAX});
            obstacles.push(format!(
                "until then poll: call events_poll with {arguments}, and again with the `cursor` of each answer"
            ));
            json!({"tool": "events_poll", "arguments": arguments})
        });
        let delivery = Self {
            via: match client.requester.era {
                ProtocolEra::Legacy => "notifications/message",
                ProtocolEra::Modern => "notifications/resources/updated",
            },
            level,
            stream_open: client.stream_open && client.requester.era == ProtocolEra::Legacy,
            pushed,
            poll,
            wait,
        };
        (delivery, obstacles)
    }
}

/// The arguments of a wait for what is wrong in the same namespaces.
fn wait_arguments(filters: &Filters) -> Value {
    match filters.exact_namespaces().as_deref() {
        Some([name]) => json!({"namespace": name}),
        Some(names) => json!({"namespaces": names}),
        None => json!({}),
    }
}

/// What keeps a session from being told.
fn legacy_obstacles(one: &Subscription, level: Option<Level>, stream_open: bool) -> Vec<String> {
    let mut obstacles = Vec::new();
    let needed = match one.filters().mode() {
        Mode::Events => Level::Info,
        Mode::Faults | Mode::Incidents => Level::Warning,
    };
    match level {
        None => obstacles.push(format!(
            "no log level is set, so this connection is not told: the client has to call logging/setLevel \
             with `{needed}`"
        )),
        Some(level) if level > needed => obstacles.push(format!(
            "the log level is `{level}`, so this connection is not told: the client has to call \
             logging/setLevel with `{needed}`"
        )),
        Some(_) => {}
    }
    if !stream_open {
        obstacles.push(
            "no stream is open, so this connection is not told: what happens waits until the client opens \
             one (GET /mcp)"
                .to_owned(),
        );
    }
    obstacles
}
