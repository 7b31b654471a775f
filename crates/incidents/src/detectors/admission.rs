//! Detectors of what bounds or answers requests of others.

use serde_json::Value;

use super::Context;
use crate::{
    messages::words,
    objects::{Object, ObjectRef, PodDisruptionBudget, ResourceQuota, condition, selects},
    symptom::{Severity, Symptom},
};

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for quota in context.state.quotas.iter() {
        found.extend(of_quota(context, quota));
    }
    for service in context.state.api_services.iter() {
        let available = condition(&service.status.conditions, "Available");
        let Some(down) = available.filter(|one| one.is_false()) else {
            continue;
        };
        let since = context.since(down.last_transition_time, &**service);
        let symptom = Symptom::new(
            "api-service",
            service.object_ref(),
            since,
            "does not answer",
        );
        found.push(symptom.why(words(&down.message)).certain());
    }
    unanswered(context, found);
    for budget in context.state.budgets.iter() {
        found.extend(of_budget(context, budget));
    }
}

/// A quota that is used up: worth knowing, and the cause of what may not be created.
fn of_quota(context: &Context<'_>, quota: &ResourceQuota) -> Option<Symptom> {
    let status = &quota.status;
    let full = status.hard.iter().find(|(resource, hard)| {
        let used = status.used.get(*resource);
        used.is_some_and(|used| amount(used) >= amount(hard) && amount(hard) > 0.0)
    });
    let (resource, hard) = full?;
    let hard = hard
        .as_str()
        .map_or_else(|| hard.to_string(), str::to_owned);
    let what = format!("is used up ({resource} {hard})");
    let since = context.born(quota);
    let symptom = Symptom::new("quota", quota.object_ref(), since, what);
    Some(symptom.severity(Severity::Info))
}

/// A quantity as a number, good enough to compare.
fn amount(quantity: &Value) -> f64 {
    let text = match quantity {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let digits = text.trim_end_matches(|one: char| one.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => 1.0,
    };
    digits.parse::<f64>().unwrap_or(0.0) * unit
}

/// Webhooks that must agree, and whose Service has nobody behind it.
fn unanswered(context: &Context<'_>, found: &mut Vec<Symptom>) {
    let state = context.state;
    if !state.services.is_known() || !state.slices.is_known() {
        return;
    }
    for (id, hooks) in &state.webhooks {
        let must = hooks
            .webhooks
            .iter()
            .filter(|hook| &*hook.failure_policy != "Ignore");
        let mut services = must.filter_map(|hook| hook.client_config.service.as_ref());
        let silent = services.find(|service| !context.answers(&service.namespace, &service.name));
        let Some(service) = silent else { continue };
        let cause = ObjectRef::new("Service", &service.namespace, service.name.clone());
        let what = format!("asks {cause}, which has no ready endpoint");
        let since = context.created(&hooks.metadata);
        let symptom = Symptom::new("webhook", id.clone(), since, what);
        found.push(symptom.caused_by(Some(cause)));
    }
}

/// A budget that keeps a cordoned node from being drained.
fn of_budget(context: &Context<'_>, budget: &PodDisruptionBudget) -> Option<Symptom> {
    let status = &budget.status;
    if status.disruptions_allowed > 0 || status.expected_pods == 0 || budget.metadata.is_deleted() {
        return None;
    }
    let selector = &budget.spec.selector.match_labels;
    if selector.is_empty() {
        return None;
    }
    let mut pods = context.state.pods.in_namespace(&budget.metadata.namespace);
    let held = pods.find(|pod| {
        let node = context.state.nodes.get("", &pod.spec.node_name);
        selects(selector, &pod.metadata.labels)
            && !pod.metadata.is_deleted()
            && node.is_some_and(|node| node.spec.unschedulable)
    })?;
    let disallowed = condition(&status.conditions, "DisruptionAllowed");
    let since = disallowed.and_then(|one| one.last_transition_time);
    let since = context.since(since, budget);
    let what = format!("blocks the drain of node/{}", held.spec.node_name);
    let why = format!(
        "{} of {} pods are healthy, {} have to be",
        status.current_healthy, status.expected_pods, status.desired_healthy
    );
    Some(Symptom::new("budget", budget.object_ref(), since, what).why(why))
}
