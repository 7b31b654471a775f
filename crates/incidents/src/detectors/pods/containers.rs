//! Detectors of containers: why one does not start, or does not stay.

use jiff::{SignedDuration, Timestamp};

use super::{super::Context, LOOP_WINDOW};
use crate::{
    messages::{explain, words},
    objects::{ContainerStatus, Object, ObjectRef, Pod, Terminated},
    symptom::Symptom,
};

/// So many restarts are a loop.
const LOOP_RESTARTS: i64 = 2;

/// A pod that has been ready for so long is well again (seconds).
const WELL_AGAIN: i64 = 5 * 60;

/// Waiting reasons of a container whose image cannot be had.
const IMAGE_REASONS: [&str; 6] = [
    "SignatureValidationFailed",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
];

/// The worst of the containers.
pub(super) fn container(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let mut worst: Option<(u8, Symptom)> = None;
    for status in pod.containers() {
        let Some(symptom) = waiting(context, pod, status).or_else(|| looping(context, pod, status))
        else {
            continue;
        };
        let rank = super::super::detector(symptom.detector).map_or(0, |detector| detector.rank);
        if worst.as_ref().is_none_or(|(known, _)| rank > *known) {
            worst = Some((rank, symptom.container(&status.name)));
        }
    }
    worst
        .map(|(_, symptom)| symptom)
        .or_else(|| exited(context, pod))
}

/// A container that cannot be started.
fn waiting(context: &Context<'_>, pod: &Pod, status: &ContainerStatus) -> Option<Symptom> {
    let waiting = status.state.waiting.as_ref()?;
    let id = pod.object_ref();
    let namespace = &*pod.metadata.namespace;
    let image = pod.spec_of(&status.name).map_or("", |spec| &spec.image);
    let since = context.born(pod);
    match &*waiting.reason {
        "InvalidImageName" => {
            let what = format!("has an invalid image name `{image}`");
            let failed = context.warning(pod, &["InspectFailed", "Failed"]);
            let message = match &*waiting.message {
                "" => failed.map_or("", |event| &event.message),
                message => message,
            };
            let why = words(message);
            Some(
                Symptom::new("image-name", id, since, what)
                    .reason("InvalidImageName")
                    .why(why)
                    .certain(),
            )
        }
        reason if IMAGE_REASONS.contains(&reason) => {
            let what = format!("cannot pull image {image}{}", part(pod, &status.name));
            let why = words(pull_error(context, pod, image, &waiting.message));
            let why = if why.starts_with("Back-off") {
                String::new()
            } else {
                why
            };
            let secret = pull_secret(context, pod);
            let why = match &secret {
                Some(secret) => format!("image pull {} is missing; {why}", secret.short()),
                None => why,
            };
            Some(
                Symptom::new("image-pull", id, since, what)
                    .reason(reason)
                    .why(why)
                    .caused_by(secret)
                    .certain(),
            )
        }
        "CreateContainerConfigError" => {
            let said = explain(namespace, &waiting.message);
            let what = match &said.cause {
                Some(cause) => format!("cannot start without {}", cause.short()),
                None => "cannot create its container".to_owned(),
            };
            let symptom = Symptom::new("config-missing", id, since, what);
            let symptom = symptom.reason(&waiting.reason);
            Some(symptom.why(said.words).caused_by(said.cause).certain())
        }
        "CreateContainerError"
        | "RunContainerError"
        | "StartError"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "PostStartHookError"
        | "ContainerCannotRun" => {
            let symptom = cannot_start(context, pod, status, &waiting.message);
            Some(symptom.reason(&waiting.reason))
        }
        "CrashLoopBackOff" => Some(crash(context, pod, status)),
        _ => None,
    }
}

/// What the registry said, rather than that the kubelet waits.
fn pull_error<'m, 'a: 'm>(
    context: &Context<'a>,
    pod: &Pod,
    image: &str,
    message: &'m str,
) -> &'m str {
    let backs_off = message.is_empty() || message.starts_with("Back-off");
    // Newer kubelets put the error behind their own words.
    if !backs_off || message.contains("ErrImagePull: ") {
        return message
            .find("ErrImagePull: ")
            .map_or(message, |at| &message[at..]);
    }
    let failures = context.events(pod).rev();
    let mut failures = failures.filter(|event| &*event.reason == "Failed");
    let pull = failures.find(|event| {
        event.message.contains("pull image") && (image.is_empty() || event.message.contains(image))
    });
    pull.map_or(message, |event| &event.message)
}

/// The Secret that a kubelet wanted to log in to the registry with, and did not find.
fn pull_secret(context: &Context<'_>, pod: &Pod) -> Option<ObjectRef> {
    let missing = context.warning(pod, &["FailedToRetrieveImagePullSecret"])?;
    // `Unable to retrieve some image pull secrets (regcred); attempting to ...`
    let (_, names) = missing.message.split_once('(')?;
    let name = names.split([')', ',']).next()?.trim();
    let name = name.rsplit('/').next()?;
    (!name.is_empty()).then(|| ObjectRef::new("Secret", &pod.metadata.namespace, name))
}

fn cannot_start(
    context: &Context<'_>,
    pod: &Pod,
    status: &ContainerStatus,
    message: &str,
) -> Symptom {
    let said = explain(&pod.metadata.namespace, message);
    let since = context.born(pod);
    let what = format!("cannot start container {}", status.name);
    let symptom = Symptom::new("cannot-start", pod.object_ref(), since, what);
    symptom.why(said.words).caused_by(said.cause).certain()
}

/// A container that was restarted just now, and before.
fn looping(context: &Context<'_>, pod: &Pod, status: &ContainerStatus) -> Option<Symptom> {
    let ended = last_end(status)?;
    let is_recent = context.within(ended.finished_at, LOOP_WINDOW);
    let retries = &*pod.spec.restart_policy != "Never";
    let again = status.restart_count >= LOOP_RESTARTS
        || (status.restart_count >= 1 && status.state.terminated.is_some());
    let ready = pod.condition("Ready").filter(|ready| ready.is_true());
    let is_well =
        ready.is_some_and(|ready| !context.within(ready.last_transition_time, WELL_AGAIN));
    (retries && is_recent && again && !is_well).then(|| crash(context, pod, status))
}

/// The last time that a container ended.
pub(super) fn last_end(status: &ContainerStatus) -> Option<&Terminated> {
    let now = status.state.terminated.as_ref();
    now.or(status.last_state.terminated.as_ref())
}

/// A container that ends again and again.
fn crash(context: &Context<'_>, pod: &Pod, status: &ContainerStatus) -> Symptom {
    let id = pod.object_ref();
    let ended = last_end(status).cloned().unwrap_or_default();
    let since = began(context, pod, status);
    if matches!(&*ended.reason, "StartError" | "ContainerCannotRun") {
        return cannot_start(context, pod, status, &ended.message).reason(&ended.reason);
    }
    if &*ended.reason == "OOMKilled" {
        let what = format!(
            "is OOMKilled again and again{}{}",
            limit(pod, status),
            part(pod, &status.name)
        );
        return Symptom::new("oom-loop", id, since, what)
            .reason("OOMKilled")
            .certain();
    }
    let probe = context.events(pod).rev().find(|event| {
        &*event.reason == "Killing"
            && (event.message.contains("failed liveness probe")
                || event.message.contains("failed startup probe"))
    });
    if let Some(killing) = probe
        && matches!(ended.exit_code, 137 | 143 | 2 | 0)
    {
        let kind = if killing.message.contains("startup") {
            "startup"
        } else {
            "liveness"
        };
        let what = format!(
            "is restarted by its {kind} probe{}",
            part(pod, &status.name)
        );
        let failure = context.warning(pod, &["Unhealthy"]);
        let why = failure.map_or(String::new(), |event| words(&event.message));
        return Symptom::new("liveness", id, since, what)
            .reason("Unhealthy")
            .why(why)
            .certain();
    }
    let when = "at start";
    let quick = ended
        .started_at
        .zip(ended.finished_at)
        .is_some_and(|(from, to)| to.duration_since(from) < SignedDuration::from_secs(60));
    let when = if quick {
        format!(" {when}")
    } else {
        String::new()
    };
    let part = part(pod, &status.name);
    let what = match ended.exit_code {
        0 => format!("ends again and again (Completed, exit 0){part}"),
        code => format!("crashes{when} (exit {code}){part}"),
    };
    let why = last_words(context, pod, status, &ended);
    Symptom::new("crash-loop", id, since, what)
        .reason("CrashLoopBackOff")
        .why(why)
        .certain()
}

/// Why a pod's containers ended, if one of them did with an error.
pub(in super::super) fn last_words_of(context: &Context<'_>, pod: &Pod) -> Option<String> {
    let mut failed = pod.containers().filter_map(|status| {
        let ended = last_end(status)?;
        (ended.exit_code != 0).then(|| last_words(context, pod, status, ended))
    });
    failed.find(|words| !words.is_empty())
}

/// Why a container ended: what it wrote for the kubelet, or the line of its log.
fn last_words(
    context: &Context<'_>,
    pod: &Pod,
    status: &ContainerStatus,
    ended: &Terminated,
) -> String {
    match words(&ended.message) {
        said if !said.is_empty() => said,
        _ => {
            let line = context.state.log_line(&pod.object_ref(), &status.name);
            line.map_or(String::new(), |line| format!("\"{}\"", words(line)))
        }
    }
}

/// Which of several containers it is.
fn part(pod: &Pod, name: &str) -> String {
    let is_init = pod
        .spec
        .init_containers
        .iter()
        .any(|one| *one.name == *name);
    match (is_init, pod.spec.containers.len()) {
        (true, _) => format!(" in init container {name}"),
        (false, 0 | 1) => String::new(),
        (false, _) => format!(" in container {name}"),
    }
}

/// When a loop began, as far as the kubelet still tells.
fn began(context: &Context<'_>, pod: &Pod, status: &ContainerStatus) -> Timestamp {
    let ready = pod.condition("Ready").filter(|ready| ready.is_false());
    let times = [
        last_end(status).and_then(|ended| ended.finished_at),
        ready.and_then(|ready| ready.last_transition_time),
    ];
    context.since(times.into_iter().flatten().min(), pod)
}

pub(super) fn limit(pod: &Pod, status: &ContainerStatus) -> String {
    let spec = pod.spec_of(&status.name);
    let limit = spec.and_then(|spec| spec.limit("memory"));
    limit.map_or(String::new(), |limit| format!(" (limit {limit})"))
}

/// A container that ended with an error and is not restarted.
pub(super) fn exited(context: &Context<'_>, pod: &Pod) -> Option<Symptom> {
    let owner = context.state.owner("Pod", &pod.metadata);
    let is_of_job = owner.is_some_and(|(kind, _)| kind == "Job");
    if is_of_job || &*pod.spec.restart_policy != "Never" {
        return None;
    }
    let (status, ended) = pod.containers().find_map(|status| {
        let ended = status.state.terminated.as_ref()?;
        (ended.exit_code != 0).then_some((status, ended))
    })?;
    let since = context.since(ended.finished_at, pod);
    let what = match &*ended.reason {
        "OOMKilled" => format!("was OOMKilled{} and stays down", limit(pod, status)),
        _ => format!("ended with exit {} and stays down", ended.exit_code),
    };
    let what = format!("{what}{}", part(pod, &status.name));
    let symptom = Symptom::new("exit", pod.object_ref(), since, what).reason(&ended.reason);
    let why = last_words(context, pod, status, ended);
    Some(symptom.why(why).container(&status.name).certain())
}
