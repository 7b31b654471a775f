//! `kubecrier doctor`: checks a connection, the settings, the issuers of tokens, the sinks, the store of servers that
//! work together, the configuration of MCP clients and each cluster, and reports findings with hints.

mod clients;
mod cluster_store;
mod impersonation;
mod manifest;
mod oauth;
mod report;
mod service_accounts;
mod settings;
mod sinks;

use std::collections::BTreeSet;

use anyhow::Result;
use futures_util::{StreamExt, stream};

use self::{
    report::{Finding, Report, Section},
    service_accounts::AccountReview,
    settings::check_settings,
};
use crate::{
    cli::{DoctorArgs, IdentityChoice, OutputFormat, Settings},
    clients::SearchPaths,
    config::Config,
    watch::read_token,
};
use kubecrier_client::{ClientError, Endpoint, Probe, Screen};
use kubecrier_k8s::{
    Actor, Checkup, Cluster, Contexts, GrantedScope, Impersonated, Name, PermissionReview,
};

/// Contexts that are checked at once, so that unreachable clusters time out side by side.
const CONTEXT_CONCURRENCY: usize = 64;

/// A larger clock skew makes `since` and ages wrong.
const CLOCK_SKEW_SECONDS_MAX: i64 = 5;

/// A slower API server is noticeable in every call.
const SLOW_MILLIS: u128 = 1000;

/// Stands in a manifest where the API server does not say who we are.
const UNKNOWN_USER: &str = "REPLACE-WITH-YOUR-USER";

/// Who calls the server, as far as the rights that it needs depend on it.
#[derive(Clone, Copy, Debug)]
struct Callers {
    /// Whether they act in clusters as themselves.
    act_as_themselves: bool,
    /// Whether service accounts are among them.
    are_service_accounts: bool,
}

// === impl Callers ===

impl Callers {
    fn of(settings: &Settings) -> Self {
        Self {
            act_as_themselves: settings.cluster_identity == Some(IdentityChoice::Impersonate),
            are_service_accounts: settings.service_account_audience.is_some(),
        }
    }
}

/// Runs the checks and prints the report; `false` if a check failed. `settings` are those
/// of the server to check, `config` is that of this process.
pub async fn run(args: &DoctorArgs, settings: &Settings, config: Config) -> Result<bool> {
    let mut sections = Vec::new();
    if let Some(url) = &args.url {
        let token = read_token(args.token_file.as_deref())?;
        let authority = args.certificate_authority.as_deref();
        let endpoint = Endpoint::with_certificate_authority(url, token.as_deref(), authority);
        sections.push(check_connection(url, endpoint).await);
    }
    // With --url only that server is checked, unless contexts are named as well.
    if args.url.is_none() || !args.context.is_empty() {
        sections.push(check_settings(settings));
        // With --url the token is for that server.
        let token_file = args.token_file.as_deref().filter(|_| args.url.is_none());
        let contexts = Contexts::new(config.cluster);
        sections.extend(oauth::check_oauth(settings, token_file, &contexts).await);
        sections.extend(sinks::check_sinks(settings, &config.redactor).await);
        sections.extend(cluster_store::check_store(settings).await);
        let paths = SearchPaths::of_this_process();
        sections.extend(clients::check_clients(&paths, &config.redactor).await);
        sections.extend(check_clusters(args, &contexts, Callers::of(settings)).await);
    }
    let report = Report::new(sections);
    let mut screen = Screen::new(args.color.on_stdout());
    let lines = match args.output {
        OutputFormat::Text => report.lines(screen.color()),
        OutputFormat::Json => vec![serde_json::to_string_pretty(&report)?],
    };
    if let Err(error) = screen.show(&lines).await {
        error.ignore_closed_pipe()?;
    }
    Ok(report.ok)
}

async fn check_connection(url: &str, endpoint: Result<Endpoint, ClientError>) -> Section {
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(error) => return Section::new(url, vec![Finding::error(&error.to_string())]),
    };
    let about = endpoint.url();
    let probe = Probe::run(endpoint).await;
    let mut findings = Vec::new();
    if let Some(server) = &probe.server {
        let millis = probe.connect_time.as_millis();
        findings.push(Finding::ok(format!("answers in {millis} ms: {server}")));
    }
    match &probe.push {
        Some((after, method)) => findings.push(Finding::ok(format!(
            "pushes arrive: {method} came {} ms after the stream was opened",
            after.as_millis()
        ))),
        None if probe.error.is_none() => findings.push(
            Finding::fail("no push arrived within 5 s of opening the stream").hint(
                "a proxy in between may hold text/event-stream back: turn its buffering off; clients \
                 behind it can use events_poll instead",
            ),
        ),
        None => {}
    }
    if probe.error.is_none() {
        findings.push(if probe.accepts_level {
            Finding::ok("takes a log level, without which no event is pushed")
        } else {
            Finding::fail("does not take a log level, so it pushes no events")
        });
        findings.push(if probe.has_subscribe {
            Finding::ok("has events_subscribe")
        } else {
            Finding::fail("has no events_subscribe: is it a kubecrier?")
        });
    }
    if let Some(error) = &probe.error {
        findings.push(Finding::error(&error.to_string()));
    }
    Section::new(about, findings)
}

async fn check_clusters(args: &DoctorArgs, contexts: &Contexts, callers: Callers) -> Vec<Section> {
    let listed = match contexts.list() {
        Ok(listed) => listed,
        Err(error) => {
            let mut finding = Finding::fail(error.to_string());
            finding.hint = error.hint().map(str::to_owned);
            return vec![Section::new("kubeconfig", vec![finding])];
        }
    };
    let default = listed.iter().find(|context| context.default);
    let default = default.map(|context| context.name.clone());
    let names: Vec<String> = if args.context.is_empty() {
        listed.into_iter().map(|context| context.name).collect()
    } else {
        args.context.clone()
    };
    if names.is_empty() {
        let finding = Finding::fail("the kubeconfig has no contexts");
        return vec![Section::new("kubeconfig", vec![finding])];
    }
    let checks = names.iter().map(|name| {
        let is_default = default.as_ref() == Some(name);
        check_cluster(contexts, name, is_default, &args.namespace, callers)
    });
    let sections: Vec<_> = stream::iter(checks)
        .buffered(CONTEXT_CONCURRENCY)
        .collect()
        .await;
    sections.into_iter().flatten().collect()
}

async fn check_cluster(
    contexts: &Contexts,
    context: &str,
    is_default: bool,
    namespaces: &[String],
    callers: Callers,
) -> Vec<Section> {
    let about = format!("context {context}");
    let checked = async {
        let cluster = contexts.cluster(&Actor::Server, Some(context)).await?;
        let namespaces = namespaces_to_check(&cluster, namespaces)?;
        let checkup = cluster.check_up(&namespaces).await?;
        let user = checkup.user.as_deref().unwrap_or(UNKNOWN_USER);
        let mut sections = vec![describe(about.clone(), &namespaces, &checkup)];
        let acting = async |whom| {
            let review =
                cluster.review_impersonation(whom, checkup.effective_version(), &namespaces);
            review.await
        };
        if callers.act_as_themselves {
            let review = acting(Impersonated::Users).await?;
            sections.push(impersonation::describe(context, user, review));
        }
        // They are known in the cluster of calls that name none, and nowhere else.
        if callers.are_service_accounts && is_default {
            let review = AccountReview {
                reviews_tokens: cluster.may_review_tokens().await?,
                acting: if callers.act_as_themselves {
                    Some(acting(Impersonated::ServiceAccounts).await?)
                } else {
                    None
                },
            };
            sections.push(service_accounts::describe(context, user, review));
        }
        Ok::<_, kubecrier_k8s::ClusterError>(sections)
    };
    match checked.await {
        Ok(sections) => sections,
        Err(error) => {
            let mut finding = Finding::fail(error.to_string());
            finding.hint = error.hint().map(str::to_owned);
            vec![Section::new(about, vec![finding])]
        }
    }
}

/// The namespaces for permissions that are not granted cluster-wide.
fn namespaces_to_check(
    cluster: &Cluster,
    named: &[String],
) -> Result<Vec<Name>, kubecrier_k8s::ClusterError> {
    if named.is_empty() {
        return Ok(vec![Name::label("namespace", cluster.default_namespace())?]);
    }
    named
        .iter()
        .map(|name| Name::label("namespace", name))
        .collect()
}

fn describe(about: String, namespaces: &[Name], checkup: &Checkup) -> Section {
    let latency = checkup.latency.as_millis();
    let emulated = checkup.emulated.as_ref();
    let answer = format!(
        "answers in {latency} ms ({} ms the first time): {}{}",
        checkup.first_latency.as_millis(),
        checkup.version,
        emulated.map_or_else(String::new, |version| format!(", as {version}"))
    );
    let mut findings = vec![if latency > SLOW_MILLIS {
        Finding::note(answer).hint("every call takes at least that long")
    } else {
        Finding::ok(answer)
    }];
    match checkup.clock_skew_seconds {
        None => findings.push(Finding::note("does not say what time it is")),
        Some(ahead) if ahead.abs() > CLOCK_SKEW_SECONDS_MAX => {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            let text = format!("its clock is {} s {side} ours", ahead.abs());
            findings.push(
                Finding::note(text)
                    .hint("ages and `since` are off by that: let both keep time by NTP"),
            );
        }
        Some(_) => findings.push(Finding::ok("its clock is ours")),
    }
    // Permissions with the same purpose and the same grant share a line.
    let mut last_hint = None;
    let group = |review: &PermissionReview| {
        checkup
            .permissions
            .iter()
            .position(|one| same_group(one, review))
    };
    let mut reviews: Vec<&PermissionReview> = checkup.permissions.iter().collect();
    reviews.sort_by_key(|review| group(review));
    for reviews in reviews.chunk_by(|one, next| same_group(one, next)) {
        let mut finding = describe_reviews(reviews);
        // A hint is not repeated for the lines that follow.
        if finding.hint.is_some() && finding.hint == last_hint {
            finding.hint = None;
        } else if finding.hint.is_some() {
            last_hint.clone_from(&finding.hint);
        }
        findings.push(finding);
    }
    let user = checkup.user.as_deref().unwrap_or(UNKNOWN_USER);
    let names: Vec<String> = namespaces
        .iter()
        .map(|name| name.as_str().to_owned())
        .collect();
    let mut section = Section::new(about, findings);
    section.manifest = manifest::manifest(&checkup.permissions, user, &names);
    section
}

fn same_group(one: &PermissionReview, other: &PermissionReview) -> bool {
    one.permission.purpose == other.permission.purpose && one.granted == other.granted
}

/// What is not seen without these permissions.
fn unseen(reviews: &[&PermissionReview]) -> String {
    let detectors: BTreeSet<_> = reviews
        .iter()
        .flat_map(|review| review.permission.detectors())
        .collect();
    if detectors.is_empty() {
        return String::new();
    }
    let detectors: Vec<_> = detectors.into_iter().collect();
    format!(", and does not see: {}", detectors.join(", "))
}

/// The finding on permissions with the same purpose and the same grant.
fn describe_reviews(reviews: &[&PermissionReview]) -> Finding {
    let permission = reviews[0].permission;
    let mut verbs: Vec<_> = reviews
        .iter()
        .map(|review| review.permission.verb)
        .collect();
    let mut resources: Vec<_> = reviews
        .iter()
        .map(|review| review.permission.resource)
        .collect();
    verbs.sort_unstable();
    verbs.dedup();
    resources.dedup();
    let (verbs, resources) = (verbs.join(" and "), resources.join(", "));
    let what = format!("{verbs} {resources} ({})", permission.purpose);
    match &reviews[0].granted {
        GrantedScope::Everywhere => Finding::ok(format!("may {what}")),
        GrantedScope::Only(places) if !places.is_empty() => {
            let places = places.join(", ");
            Finding::note(format!("may {what} only in {places}")).hint(format!(
                "name the namespace in calls, and with `watch -n {places}`"
            ))
        }
        GrantedScope::Only(_) if permission.required => Finding::fail(format!("may not {what}")),
        GrantedScope::Only(_) => {
            let unseen = unseen(reviews);
            Finding::note(format!("may not {what}; works with less{unseen}"))
        }
        GrantedScope::Unknown(why) => Finding::note(format!("may or may not {what}: {why}")),
    }
}
