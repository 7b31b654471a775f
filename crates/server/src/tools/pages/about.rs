//! What the code of a tool does not say: which notifications it causes, and an example.
//! A tool without an entry here fails the test.

use super::notifications::Notifies;
use crate::{
    output::Output,
    tools::{nodes_top, pods_top},
};

/// The hand-written part of a tool's page.
pub(super) struct ToolDoc {
    pub(super) tool: &'static str,
    pub(super) notifies: Notifies,
    pub(super) example: Example,
    /// Calls of its own that it refuses, beside those that every tool does.
    pub(super) wrong: &'static [&'static str],
}

/// A call that shows what a tool is for.
pub(super) enum Example {
    /// A call on the demo's cluster, after these steps. `"$name"` is replaced by that
    /// field of the previous answer.
    Called {
        before: &'static [Step],
        arguments: &'static str,
    },
    /// Made-up rows, where the demo's cluster has no data.
    Made {
        arguments: &'static str,
        answer: fn() -> Output,
    },
}

/// A step before an example.
pub(super) enum Step {
    /// Plays the demo's story for this many seconds.
    Play(u64),
    /// A tool is called.
    Call(&'static str, &'static str),
}

// === impl Step ===

impl Step {
    pub(super) fn seconds(&self) -> u64 {
        match self {
            Self::Play(seconds) => *seconds,
            Self::Call(..) => 0,
        }
    }
}

/// After the payment service has crashed.
const WARNINGS: &str = r#"{"namespace":"shop","types":["Warning"]}"#;

const CRASHED: &[Step] = &[Step::Play(20)];

const fn asks(
    tool: &'static str,
    before: &'static [Step],
    arguments: &'static str,
    wrong: &'static [&'static str],
) -> ToolDoc {
    ToolDoc {
        tool,
        notifies: Notifies::WhileItRuns,
        example: Example::Called { before, arguments },
        wrong,
    }
}

/// In the order of the tools.
pub(super) static ABOUT: &[ToolDoc] = &[
    asks(
        "changes_list",
        CRASHED,
        r#"{"namespace":"shop","since":"15m"}"#,
        &[r#"{"namespace":"shop","since":"yesterday"}"#],
    ),
    ToolDoc {
        tool: "configuration_contexts_list",
        notifies: Notifies::Nothing,
        example: Example::Called {
            before: &[],
            arguments: "{}",
        },
        wrong: &[],
    },
    asks(
        "events_list",
        CRASHED,
        r#"{"namespace":"shop","types":["Warning"],"since":"15m"}"#,
        &[
            r#"{"for":"payment"}"#,
            r#"{"types":["Error"]}"#,
            r#"{"fieldSelector":"colour=red"}"#,
        ],
    ),
    ToolDoc {
        tool: "events_list_subscriptions",
        notifies: Notifies::Nothing,
        example: Example::Called {
            before: &[
                Step::Call(
                    "events_subscribe",
                    r#"{"mode":"faults","namespace":"shop"}"#,
                ),
                Step::Play(20),
            ],
            arguments: "{}",
        },
        wrong: &[],
    },
    ToolDoc {
        tool: "events_poll",
        notifies: Notifies::Polls,
        example: Example::Called {
            before: &[
                Step::Call("events_poll", r#"{"namespace":"shop","types":["Warning"]}"#),
                Step::Play(10),
            ],
            arguments: r#"{"namespace":"shop","types":["Warning"],"cursor":"$cursor","waitSeconds":20}"#,
        },
        wrong: &[
            r#"{"subscriptionId":"sub-0","namespace":"shop"}"#,
            r#"{"subscriptionId":"sub-0"}"#,
            r#"{"namespace":"shop","cursor":"yesterday"}"#,
        ],
    },
    ToolDoc {
        tool: "events_subscribe",
        notifies: Notifies::Subscribes,
        example: Example::Called {
            before: &[],
            arguments: r#"{"mode":"incidents","namespaces":["shop"]}"#,
        },
        wrong: &[
            r#"{"labelSelector":"app in web"}"#,
            r#"{"for":"deployment/web","involvedKind":"Pod"}"#,
            r#"{"involvedKind":"certificate"}"#,
            r#"{"mode":"incidents","reason":"Fail"}"#,
        ],
    },
    ToolDoc {
        tool: "events_unsubscribe",
        notifies: Notifies::Unsubscribes,
        example: Example::Called {
            before: &[Step::Call("events_subscribe", r#"{"mode":"faults"}"#)],
            arguments: r#"{"subscriptionId":"$subscriptionId"}"#,
        },
        wrong: &[r#"{"subscriptionId":"sub-0"}"#],
    },
    asks(
        "faults_get",
        &[
            Step::Play(20),
            Step::Call("faults_list", r#"{"namespace":"shop"}"#),
        ],
        r#"{"faultId":"$incidents/0/id"}"#,
        &[r#"{"faultId":"f-0"}"#, r#"{"faultId":"i-0"}"#],
    ),
    asks(
        "faults_list",
        CRASHED,
        r#"{"namespace":"shop"}"#,
        &[r#"{"severity":"bad"}"#],
    ),
    asks(
        "faults_wait",
        &[
            Step::Call("faults_wait", r#"{"namespace":"shop","timeoutSeconds":1}"#),
            Step::Play(20),
        ],
        r#"{"namespace":"shop","cursor":"$cursor"}"#,
        &[
            r#"{"cursor":"yesterday"}"#,
            r#"{"timeoutSeconds":0}"#,
            r#"{"until":"fixed"}"#,
        ],
    ),
    asks(
        "namespaces_list",
        &[],
        "{}",
        &[r#"{"labelSelector":"a in b"}"#],
    ),
    asks("nodes_list", &[], "{}", &[r#"{"labelSelector":"a in b"}"#]),
    ToolDoc {
        tool: "nodes_top",
        notifies: Notifies::WhileItRuns,
        example: Example::Made {
            arguments: r#"{"sortBy":"memory"}"#,
            answer: nodes_top::example,
        },
        wrong: &["{}", r#"{"sortBy":"disk"}"#],
    },
    asks(
        "pods_get",
        &[Step::Play(20), Step::Call("events_list", WARNINGS)],
        r#"{"namespace":"shop","name":"$events/0/involvedObject/name"}"#,
        &[
            r#"{"name":"no-such-pod","namespace":"shop"}"#,
            r#"{"name":"A/b"}"#,
        ],
    ),
    asks(
        "pods_list",
        CRASHED,
        r#"{"namespace":"shop"}"#,
        &[
            r#"{"namespace":"Not A Namespace"}"#,
            r#"{"fieldSelector":"colour=red"}"#,
        ],
    ),
    asks(
        "pods_log",
        &[Step::Play(20), Step::Call("events_list", WARNINGS)],
        r#"{"namespace":"shop","name":"$events/0/involvedObject/name","previous":true,"tail":12}"#,
        &[
            r#"{"name":"no-such-pod","namespace":"shop"}"#,
            r#"{"name":"x","include":"("}"#,
            r#"{"name":"x","limitBytes":0}"#,
        ],
    ),
    ToolDoc {
        tool: "pods_top",
        notifies: Notifies::WhileItRuns,
        example: Example::Made {
            arguments: r#"{"namespace":"shop"}"#,
            answer: pods_top::example,
        },
        wrong: &["{}"],
    },
    asks(
        "resources_get",
        CRASHED,
        r#"{"kind":"deployment","name":"payment","namespace":"shop","output":"yaml"}"#,
        &[
            r#"{"kind":"deplyment","name":"payment"}"#,
            r#"{"kind":"deployment","name":"no-such","namespace":"shop"}"#,
        ],
    ),
    asks(
        "resources_graph",
        CRASHED,
        r#"{"kind":"deployment","name":"payment","namespace":"shop"}"#,
        &[
            r#"{"kind":"deplyment","name":"payment"}"#,
            r#"{"kind":"deployment","name":"no-such","namespace":"shop"}"#,
            r#"{"kind":"deployment","name":"payment","depth":9}"#,
        ],
    ),
    asks(
        "resources_list",
        CRASHED,
        r#"{"kind":"deploy","namespace":"shop"}"#,
        &[r#"{"kind":"deplyment"}"#],
    ),
];
