//! Messages of kubelets, controllers and the scheduler: what they name as the cause, and the
//! part of them that a reader needs.

mod telling;

use std::borrow::Cow;

pub use self::telling::telling_line;

use crate::objects::ObjectRef;

/// Bytes of a message that are shown.
const WORDS_MAX: usize = 360;

/// Beginnings that say who speaks, and not what is wrong.
const PREFIXES: [&str; 31] = [
    "error looking up ",
    "Internal error occurred: ",
    "failed to call webhook: ",
    "failed calling webhook ",
    "httpReadSeeker: failed open: ",
    "rpc error: ",
    "Failed to pull image ",
    "failed to pull and unpack image ",
    "failed to pull image ",
    "failed to resolve reference ",
    "failed to resolve image",
    "failed to do request: ",
    "failed to copy: ",
    "failed to authorize: ",
    "failed to fetch anonymous token: ",
    "failed to fetch oauth token: ",
    "Error response from daemon: ",
    "Error: ",
    "Back-off pulling image ",
    "ErrImagePull: ",
    "ImagePullBackOff: ",
    "failed to create containerd task: ",
    "failed to create shim task: ",
    "failed to start container ",
    "OCI runtime create failed: ",
    "runc create failed: ",
    "unable to start container process: ",
    "error during container init: ",
    "MountVolume.SetUp failed for volume ",
    "MountVolume.MountDevice failed for volume ",
    "AttachVolume.Attach failed for volume ",
];

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// The object that it names as missing, full or refusing.
    pub cause: Option<ObjectRef>,
    /// The part that a reader needs.
    pub words: String,
}

/// Reads a message about an object of a namespace.
pub(crate) fn explain(namespace: &str, message: &str) -> Explanation {
    Explanation {
        cause: cause(namespace, message),
        words: words(message),
    }
}

/// The object that a message names as missing, full or refusing.
pub(crate) fn cause(namespace: &str, message: &str) -> Option<ObjectRef> {
    let lower = message.to_ascii_lowercase();
    for (word, kind) in [
        ("configmap \"", "ConfigMap"),
        ("secret \"", "Secret"),
        ("persistentvolumeclaim \"", "PersistentVolumeClaim"),
        ("serviceaccount \"", "ServiceAccount"),
        ("storageclass.storage.k8s.io \"", "StorageClass"),
        ("runtimeclass.node.k8s.io \"", "RuntimeClass"),
        ("priorityclass.scheduling.k8s.io \"", "PriorityClass"),
    ] {
        let Some(at) = lower.find(word) else { continue };
        let rest = &message[at + word.len()..];
        let (name, after) = rest.split_once('"')?;
        if after.trim_start().starts_with("not found") {
            let is_cluster_wide = matches!(kind, "StorageClass" | "RuntimeClass" | "PriorityClass");
            let namespace = if is_cluster_wide { "" } else { namespace };
            return Some(ObjectRef::new(kind, namespace, last_part(name)));
        }
    }
    if let Some(name) = after(message, "exceeded quota: ", &[',', ' ']) {
        return Some(ObjectRef::new("ResourceQuota", namespace, name));
    }
    if let Some(name) = after(message, "no PriorityClass with name ", &[' ']) {
        return Some(ObjectRef::new("PriorityClass", "", name));
    }
    for (word, kind) in [("in ConfigMap ", "ConfigMap"), ("in Secret ", "Secret")] {
        if message.contains("couldn't find key")
            && let Some(name) = after(message, word, &[' ', ',', ':'])
        {
            return Some(ObjectRef::new(kind, namespace, last_part(name)));
        }
    }
    None
}

/// The name of the webhook that could not be asked.
pub(crate) fn webhook(message: &str) -> Option<&str> {
    after(message, "failed calling webhook \"", &['"'])
}

/// The part of a message that a reader needs, on one line.
pub(crate) fn words(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = &*line;
    while let Some(next) = without_prefix(rest) {
        rest = next;
    }
    // The scheduler's second thoughts say the same again.
    for thought in [" preemption: ", " no new claims to deallocate"] {
        rest = rest.find(thought).map_or(rest, |at| &rest[..at]);
    }
    squeeze(without_pod(rest).trim_end_matches(['.', ' ']), WORDS_MAX)
}

/// A text that is too long without what tells least: folders of the kubelet, and what is behind
/// the host in an address. Then without its middle.
pub(crate) fn squeeze(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    // How many nodes there are is the sum of what follows.
    let text = match text.split_once(" nodes are available: ") {
        Some((begin, rest)) => {
            let begin = begin.trim_end_matches(|one: char| one.is_ascii_digit() || one == '/');
            format!("{begin}{rest}")
        }
        None => text.to_owned(),
    };
    let text = without_command(&text);
    let words: Vec<_> = text.split(' ').map(shorter).collect();
    cut_middle(&words.join(" "), bytes_max)
}

/// A failed mount without the command that was run: what it answered tells more.
fn without_command(text: &str) -> Cow<'_, str> {
    let Some((before, rest)) = text.split_once(" Mounting command: ") else {
        return text.into();
    };
    match rest.split_once(" Output: ") {
        Some((_, output)) => format!("{before}: {output}").into(),
        None => text.into(),
    }
}

fn shorter(word: &str) -> Cow<'_, str> {
    if let Some(at) = word.find("/var/lib/kubelet/") {
        return format!("{}…", &word[..at]).into();
    }
    let Some(at) = word.find("://") else {
        return word.into();
    };
    let scheme = word[..at].trim_end_matches(|one: char| one.is_ascii_alphanumeric());
    let rest = &word[at + 3..];
    let host = rest.find(['/', '?', '"', ',']).unwrap_or(rest.len());
    // What closes a quotation, or ends a sentence.
    let end = rest
        .trim_end_matches(['"', ':', ',', ';', '.', ')'])
        .len()
        .max(host);
    format!("{scheme}{}{}", &rest[..host], &rest[end..]).into()
}

/// The beginning of a text, up to a number of bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()));
    format!("{}…", text[..end].trim_end())
}

/// The beginning and the end of a text that is too long: who speaks is at the front, and what
/// happened at the end.
pub(crate) fn cut_middle(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let head = text.floor_char_boundary(room * 2 / 5);
    let tail = text.ceil_char_boundary(text.len() - (room - head));
    format!("{}…{}", &text[..head], &text[tail..])
}

/// The text after a beginning that says who speaks, and the quoted name that belongs to it.
fn without_prefix(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix("rpc error: code = ") {
        let (code, said) = rest.split_once(" desc = ")?;
        // Some codes say more than the words after them.
        let is_vague = matches!(
            code,
            "Unknown" | "Internal" | "NotFound" | "InvalidArgument"
        );
        return Some(if is_vague { said } else { rest });
    }
    for (begin, end) in [
        // `HEAD request to URL: 429 Too Many Requests`
        ("unexpected status from ", ": "),
        ("unexpected status code ", ": "),
        ("image pull failed for ", " because the "),
    ] {
        if let Some(rest) = text.strip_prefix(begin) {
            let (_, said) = rest.split_once(end)?;
            return Some(said);
        }
    }
    let prefix = PREFIXES.iter().find(|prefix| text.starts_with(**prefix))?;
    let rest = &text[prefix.len()..];
    let rest = match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((_, after)) => after,
        None => rest,
    };
    let rest = rest.trim_start_matches([':', ' ']);
    // Nothing else was said.
    (!rest.is_empty()).then_some(rest)
}

/// A message without the name of its pod, which the reader knows.
fn without_pod(text: &str) -> &str {
    text.find(" (pod: \"").map_or(text, |at| &text[..at])
}

fn after<'a>(message: &'a str, word: &str, ends: &[char]) -> Option<&'a str> {
    let at = message.find(word)?;
    let rest = &message[at + word.len()..];
    let name = rest.split(ends).next()?.trim_end_matches(['.', ':']);
    (!name.is_empty()).then_some(name)
}

/// The name in `namespace/name`.
fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(message: &str) -> Option<String> {
        cause("shop", message).map(|cause| cause.to_string())
    }

    #[test]
    fn what_is_missing_is_named() {
        for (message, wanted) in [
            (
                r#"configmap "settings" not found"#,
                "shop/configmap/settings",
            ),
            (
                r#"MountVolume.SetUp failed for volume "tls" : secret "web-tls" not found"#,
                "shop/secret/web-tls",
            ),
            (
                "couldn't find key URL in Secret shop/db-auth",
                "shop/secret/db-auth",
            ),
            (
                r#"pods "web-5d9-" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4"#,
                "shop/resourcequota/compute",
            ),
            (
                r#"pods "web-5d9-" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found"#,
                "shop/serviceaccount/robot",
            ),
            (
                r#"storageclass.storage.k8s.io "fast" not found"#,
                "storageclass/fast",
            ),
            (
                r#"0/3 nodes are available: persistentvolumeclaim "data" not found."#,
                "shop/persistentvolumeclaim/data",
            ),
        ] {
            assert_eq!(named(message).as_deref(), Some(wanted), "{message}");
        }
        assert_eq!(named(r#"secret "web-tls" has no key tls.crt"#), None);
        assert_eq!(named("Back-off restarting failed container"), None);
    }

    #[test]
    fn a_reader_gets_the_part_that_explains() {
        for (message, wanted) in [
            (
                r#"Failed to pull image "reg.example/web:1": rpc error: code = Unknown desc = failed to pull and unpack image "reg.example/web:1": failed to resolve reference "reg.example/web:1": failed to do request: Head "https://reg.example/v2/web/manifests/1": dial tcp: lookup reg.example on 10.96.0.10:53: no such host"#,
                r#"Head "https://reg.example/v2/web/manifests/1": dial tcp: lookup reg.example on 10.96.0.10:53: no such host"#,
            ),
            (
                r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "serve": executable file not found in $PATH: unknown"#,
                r#"exec: "serve": executable file not found in $PATH: unknown"#,
            ),
            (
                "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
                "0/2 nodes are available: 2 Insufficient cpu",
            ),
            (
                r#"Back-off pulling image "web:1""#,
                r#"Back-off pulling image "web:1""#,
            ),
        ] {
            assert_eq!(words(message), wanted);
        }
    }

    #[test]
    fn what_tells_least_is_left_out_first() {
        let mount = "mount failed: exit status 32 Mounting arguments: -t nfs 10.0.0.50:/img /var/lib/kubelet/pods/95d3428f/volumes/kubernetes.io~nfs/img Output: mount.nfs: Connection timed out";
        assert_eq!(
            squeeze(mount, 130),
            "mount failed: exit status 32 Mounting arguments: -t nfs 10.0.0.50:/img … Output: mount.nfs: Connection timed out"
        );
        let mount = mount.replace("Mounting arg", "Mounting command: mount Mounting arg");
        assert_eq!(
            squeeze(&mount, 80),
            "mount failed: exit status 32: mount.nfs: Connection timed out"
        );
        let get = r#"cannot read: Get "https://reg.example:5000/v2/web/manifests/1": no such host"#;
        assert_eq!(
            squeeze(get, 60),
            r#"cannot read: Get "reg.example:5000": no such host"#
        );
        assert_eq!(squeeze(get, 100), get);
    }

    proptest::proptest! {
        #[test]
        fn fuzz_a_squeezed_text_fits(text in "\\PC{0,200}|([a-z]{1,4}://[a-z/\"é]{0,40} |/var/lib/kubelet/[é/]{0,30} ){0,6}", room in 12..120_usize) {
            proptest::prop_assert!(squeeze(&text, room).len() <= room);
        }

        #[test]
        fn fuzz_any_message_is_short_and_on_one_line(message in "\\PC{0,400}|[a-z\" :/]{0,300}") {
            let words = words(&message);
            proptest::prop_assert!(words.len() <= WORDS_MAX && !words.contains('\n'));
            let _ = cause("shop", &message);
        }
    }
}
