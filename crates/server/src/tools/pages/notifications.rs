//! The section of a page about notifications: which ones a tool causes, and what
//! happens when one cannot be delivered.

/// The notifications that a tool causes.
#[derive(Clone, Copy)]
pub(super) enum Notifies {
    /// None at all.
    Nothing,
    /// Progress, and a message about credentials, while a call runs.
    WhileItRuns,
    /// Events, for as long as the subscription lives.
    Subscribes,
    /// None; its feed is a resource that can be subscribed to.
    Polls,
    /// None; it ends those of a subscription.
    Unsubscribes,
}

// === impl Notifies ===

impl Notifies {
    /// The cell in the table of all tools.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::WhileItRuns => "progress, if it is asked for",
            Self::Subscribes => "events, faults or incidents",
            Self::Polls => "nothing; the same by asking",
            Self::Unsubscribes => "nothing; it ends them",
        }
    }

    /// The text on the page of a tool.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Nothing => {
                "It sends no notifications and causes none, so none can fail. Its answer is all there is.\n"
            }
            Self::WhileItRuns => WHILE_IT_RUNS,
            Self::Subscribes => SUBSCRIBES,
            Self::Polls => POLLS,
            Self::Unsubscribes => UNSUBSCRIBES,
        }
    }
}

const WHILE_IT_RUNS: &str = "\
It causes no notifications after its answer. While it runs:

| notification | when | if it cannot be delivered |
|---|---|---|
| `notifications/progress` | the request has a `progressToken`: connecting, asking; on the stream of its answer | a network error or a timeout (2 s) is sent again after 100, 200 and 400 ms; then, and at once for anything else, it is given up with one record at WARN (`session`, `method`, `error_message`, `attempt_number`) and counted nowhere |
| `notifications/message`, level `notice`, logger `kubecrier/cluster` | the cluster refused our credentials, and they are fetched anew; to sessions whose level admits it, with 2026-07-28 on the stream of the answer | in a session it waits in the outbox, and if it has to make room, a `notifications/stream/gap` says so in its place; on the stream of an answer as above |

Neither matters to the result: the call goes on, and the agent sees its answer whole. How failures are classified: \
[notifications.md](../notifications.md#when-a-notification-fails).
";

const SUBSCRIBES: &str = "\
It causes notifications for as long as the subscription lives:

| notification | logger | level | what |
|---|---|---|---|
| `notifications/message` | `kubernetes/events` | `info` | an event, with `mode` `events` |
| `notifications/message` | `kubernetes/faults` | `warning` | a fault with its evidence, with `mode` `faults` |
| `notifications/message` | `kubernetes/incidents` | `info`, `warning`, `critical` | an incident that was opened, changed or resolved, with `mode` `incidents`; the level is its severity |
| `notifications/message` | `kubernetes/subscription_error` | `error`, `info`, `warning` | the watch does not work; works again; something may be missing (`gap`) |
| `notifications/resources/updated` | | | the feed has grown, to those who listen to its `resourceUri` (2026-07-28, or `resources/subscribe`) |

Delivery is best effort, and nothing is lost in silence:

- **No stream is open, or the client reads slowly.** Messages wait in the session's outbox, 1,024 of them and 4 MiB. \
Publishing never waits, and other sessions are not touched. Updates of one `resourceUri` that wait become one.
- **The stream breaks.** The client opens it again with `Last-Event-ID`, and it goes on where it broke. On a session's \
stream there is nothing to send again: what was not taken is still there.
- **The outbox is full.** The oldest makes room. It is counted in \
`mcp_notification_failures_total{resource_type=\"events\",error_type=\"other\"}`, summed up in the log (\"notifications \
dropped\" at ERROR, when it begins, every minute, and when the client has caught up), and announced in the stream where it would have stood: `notifications/stream/gap` with `missing`. \
The `seq` of the events around it shows which are gone.
- **A send fails** (`subscriptions/listen` of 2026-07-28). A network error or a timeout (2 s) is sent again after 100, 200 \
and 400 ms; a payload that cannot be serialised, refused parameters and a session that has ended are not. What is given \
up makes one record at ERROR with exactly `resource_type` (`events`), `uri` (the subscription's), `error_message` and \
`attempt_number`, and one count in `mcp_notification_failures_total{resource_type=\"events\",error_type}`, where \
`error_type` is `network`, `timeout`, `serialization` or `other`. After `network` and `timeout` the listener is no \
longer told.
- **The session ends.** Its subscriptions end with it, without a record: nobody is left to miss anything.

What the agent sees: holes in `seq` and the announced gap. Everything that was not pushed can be polled: \
[`events_poll`](events_poll.md) with the `subscriptionId` and the last `cursor` has the same entries in the same order, and \
says with `missed` how many are not kept any more. Operators alert on the rate of the counter \
([alerts](../notifications.md#alerts), [what to do](../notifications.md#operator-guidance)). Nothing of this stops the watch or changes the subscription. More: \
[notifications.md](../notifications.md), [events.md](../events.md#when-the-watch-does-not-work).
";

const POLLS: &str = "\
It sends no notifications: it is what to use when they cannot be delivered or are not shown. With a `subscriptionId` it \
reads what [`events_subscribe`](events_subscribe.md) would have pushed, whether or not that arrived; a push that failed \
changes nothing here. With filters it makes a feed of its own that is pushed to nobody; who listens to its resource \
(`kubecrier://subscriptions/` and the `subscriptionId`) is told of growth by `notifications/resources/updated`, with the \
failures of [`events_subscribe`](events_subscribe.md#when-a-notification-fails).

What the agent sees if it polls too late: `truncated` and `missed`, the number of entries that are not kept any more \
(`--max-feed-events`). A watch that does not work is said with `degraded`.
";

const UNSUBSCRIBES: &str = "\
It sends no notifications, and ends those of a subscription: nothing that happens after its answer is told. What was \
already on its way may still arrive, and is counted and announced as with \
[`events_subscribe`](events_subscribe.md#when-a-notification-fails) if it cannot. That a push failed never keeps a \
subscription from being ended.
";

/// The end of the index page: what all tools have in common.
pub(super) const INDEX: &str = "
With more than one context in the kubeconfig, every tool that asks a cluster takes `context`. All tools only read \
(`readOnlyHint`), and `tests/it/read_only.rs` holds them to it. `--toolsets` and `--disabled-tools` choose which are \
offered.

## Errors

A call that fails is an answer with `isError`: the text says what was tried, where, why it failed and what to do, and \
`structuredContent` has the same as `{\"error\": {\"kind\", \"message\", \"hint\"}}`. Calls are counted in \
`kubecrier_tool_calls_total{tool,outcome}` by these kinds.

| kind | what it means |
|---|---|
| `invalid` | the arguments do not fit, or the API server refused a selector |
| `not_found` | no such object, incident, fault or subscription; others' subscriptions do not exist either |
| `context` | no context of that name, or none to choose |
| `kubeconfig` | there is no usable kubeconfig |
| `unreachable`, `timeout` | the API server does not answer (4 s, `--request-timeout-seconds`) |
| `certificate`, `unauthorized` | it is not who it should be; it does not take us for who we are |
| `forbidden` | RBAC, `--denied-kinds` or `--allowed-namespaces` says no; `kubecrier doctor` prints the manifest for what is missing |
| `throttled` | the API server asks for less |
| `limit` | as many subscriptions as there may be |
| `unsupported` | not on this connection: a subscription on stdio |
| `switched_off` | a part of the tool that the operator excludes: `mode=faults` or `mode=incidents` without faults ([confinement](../confinement.md)) |
| `other`, `bug` | anything else that the API server did; a mistake of ours, after which the server ends |

A tool that does not exist or is switched off, and a request that is no request, are errors of JSON-RPC instead.

## When a notification fails

In short, for all tools: publishing never waits for a client; what fails is sent again after 100, 200 and 400 ms if that can \
help; what is given up is counted in `mcp_notification_failures_total` and recorded once; what is dropped is announced in the \
stream where it was dropped; and everything that is pushed can also be polled. The whole of it: \
[notifications.md](../notifications.md).
";
