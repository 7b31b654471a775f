//! The users of a testbed cluster and their permissions.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

/// A user of the API server, authenticated by a static token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum User {
    /// May do everything.
    Admin,
    /// May get, list and watch what kubecrier reads, everywhere.
    Reader,
    /// As [`User::Reader`], but only in the namespace `team-a`.
    TeamA,
    /// As [`User::TeamA`], and may list namespaces.
    TeamAAndNames,
    /// As [`User::Reader`], but not the logs of pods.
    NoLogs,
    /// May do everything; [`crate::Cluster::audit`] records its requests.
    Audited,
    /// May act as any other user, to read only, and read nothing itself;
    /// [`crate::Cluster::audit_of`] records its requests.
    ActsAsCallers,
    /// Is authenticated and has no permissions.
    Unprivileged,
    /// Presents a token that the API server does not know.
    Unknown,
}

// === impl User ===

impl User {
    pub(crate) const KNOWN: [Self; 8] = [
        Self::Admin,
        Self::Reader,
        Self::TeamA,
        Self::TeamAAndNames,
        Self::NoLogs,
        Self::Audited,
        Self::ActsAsCallers,
        Self::Unprivileged,
    ];

    /// The name in RBAC bindings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Reader => "reader",
            Self::TeamA => "team-a",
            Self::TeamAAndNames => "team-a-and-names",
            Self::NoLogs => "no-logs",
            Self::Audited => "audited",
            Self::ActsAsCallers => "acts-as-callers",
            Self::Unprivileged => "nobody",
            Self::Unknown => "unknown",
        }
    }

    /// The bearer token.
    pub fn token(self) -> String {
        format!("token-of-{}", self.name())
    }

    /// A line of `--token-auth-file`.
    pub(crate) fn token_line(self) -> String {
        let group = if matches!(self, Self::Admin | Self::Audited) {
            ",\"system:masters\""
        } else {
            ""
        };
        format!("{},{},{}{group}", self.token(), self.name(), self.name())
    }
}

/// Creates the roles and bindings of the users.
pub(crate) async fn grant(client: &Client) -> kube::Result<()> {
    let read = ["get", "list", "watch"];
    let rules = |core: &[&str]| {
        json!([
            {"apiGroups": [""], "resources": core, "verbs": read},
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"], "verbs": read},
            {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": read},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": read},
        ])
    };
    let without_logs = ["namespaces", "nodes", "pods", "events", "services"];
    let with_logs = [
        "namespaces",
        "nodes",
        "pods",
        "pods/log",
        "events",
        "services",
    ];
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let names = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": read}]);
    let acting = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"],
         "verbs": ["impersonate:user-info"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": [
            "impersonate-on:user-info:get",
            "impersonate-on:user-info:list",
            "impersonate-on:user-info:watch",
        ]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"],
         "verbs": ["create"]},
    ]);
    for (name, rules) in [
        ("testbed-acts-as-callers", acting),
        ("testbed-names", names),
        ("testbed-reader", rules(&with_logs)),
        ("testbed-no-logs", rules(&without_logs)),
    ] {
        create(&roles, json!({"metadata": {"name": name}, "rules": rules})).await?;
    }
    let everywhere: Api<ClusterRoleBinding> = Api::all(client.clone());
    create(&everywhere, binding("testbed-reader", User::Reader)).await?;
    create(&everywhere, binding("testbed-no-logs", User::NoLogs)).await?;
    create(&everywhere, binding("testbed-names", User::TeamAAndNames)).await?;
    create(
        &everywhere,
        binding("testbed-acts-as-callers", User::ActsAsCallers),
    )
    .await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": "team-a"}})).await?;
    let in_team_a: Api<RoleBinding> = Api::namespaced(client.clone(), "team-a");
    create(&in_team_a, binding("testbed-reader", User::TeamA)).await?;
    create(&in_team_a, binding("testbed-reader", User::TeamAAndNames)).await
}

fn binding(role: &str, user: User) -> Value {
    json!({
        "metadata": {"name": format!("{role}-{}", user.name())},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name()}],
    })
}

async fn create<K>(api: &Api<K>, object: Value) -> kube::Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await.map(drop)
}
