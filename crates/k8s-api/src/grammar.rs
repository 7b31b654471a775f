//! Which texts are names, by the rules that the API server applies when it stores an object.
//!
//! A text that follows them has no room for a sentence, a `key=value` or a line break. What
//! does not follow them is free text, wherever it stands.

pub use super::names::{is_dns_label, is_dns_subdomain};

/// The longest kind or reason: the limit of the Events API.
const WORD_MAX: usize = 128;

/// The longest reference to an image that a registry accepts, with its digest.
const IMAGE_MAX: usize = 512;

/// Whether a text is a word in CamelCase: a kind, a reason, a phase, a type of condition.
/// Digits are left out on purpose: identifiers with digits may be keys of a cloud.
pub fn is_word(text: &str) -> bool {
    text.len() <= WORD_MAX
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a text is the key of a label or an annotation: `app`, `app.kubernetes.io/name`.
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && prefix.is_none_or(is_dns_subdomain)
}

/// Whether a text is an `apiVersion`: `v1`, `apps/v1`.
pub fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((group, version)) => is_dns_subdomain(group) && is_dns_label(version),
        None => is_dns_label(text),
    }
}

/// Whether a text refers to an object: names and kinds with `/` or `:` between them, such as
/// `Pod:shop/web-0`, `pod/web-0` or `Deployment/web`.
pub fn is_reference(text: &str) -> bool {
    let mut parts = text.split(['/', ':']);
    parts.clone().count() <= 3 && parts.all(|part| is_dns_subdomain(part) || is_word(part))
}

/// Whether a text is the path of a field that names a container: `spec.containers{app}`.
pub fn is_field_path(text: &str) -> bool {
    let Some((field, name)) = text.split_once('{') else {
        return false;
    };
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphabetic());
    field.len() <= WORD_MAX
        && field.split('.').all(is_part)
        && name.strip_suffix('}').is_some_and(is_dns_label)
}

/// Whether a text is the reference of an image: `registry.example:5000/team/app:1.2`, with a
/// digest or without. A text with credentials in front of the host is none.
pub fn is_image(text: &str) -> bool {
    let (tagged, digest) = match text.split_once("@sha256:") {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (text, None),
    };
    let is_digest = |hex: &str| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    // The host may have a port, which also follows a colon.
    let (path, tag) = match tagged.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (tagged, None),
    };
    let is_tag = |tag: &str| {
        (1..=128).contains(&tag.len())
            && tag
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    };
    let is_part = |part: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
    };
    let (host, rest) = match path.split_once('/') {
        Some((host, rest)) => (host, Some(rest)),
        None => (path, None),
    };
    let is_host = |host: &str| match host.split_once(':') {
        Some((name, port)) => is_dns_subdomain(name) && port.parse::<u16>().is_ok(),
        None => is_part(host),
    };
    text.len() <= IMAGE_MAX
        && digest.is_none_or(is_digest)
        && tag.is_none_or(is_tag)
        && match rest {
            Some(rest) => is_host(host) && rest.split('/').all(is_part),
            None => is_part(host),
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_those_that_controllers_write() {
        for word in ["Pod", "BackOff", "OOMKilled", "CrashLoopBackOff", "Warning"] {
            assert!(is_word(word), "{word}");
        }
        for text in [
            "",
            "pod",
            "Back Off",
            "A=b",
            "Pöd",
            "AKIA4",
            &"A".repeat(129),
        ] {
            assert!(!is_word(text), "{text}");
        }
    }

    #[test]
    fn keys_of_labels_may_have_a_prefix() {
        for key in ["app", "App_1.x", "app.kubernetes.io/name", &"x".repeat(63)] {
            assert!(is_qualified_name(key), "{key}");
        }
        for text in ["", "-a", "a/", "/a", "A/a", "a b", "a=b", &"x".repeat(64)] {
            assert!(!is_qualified_name(text), "{text}");
        }
    }

    #[test]
    fn versions_and_references_are_made_of_names() {
        assert!(is_api_version("v1") && is_api_version("cert-manager.io/v1alpha2"));
        assert!(!is_api_version("") && !is_api_version("a/b/c") && !is_api_version("V1"));
        for text in ["web-0", "pod/web-0", "Pod:shop/web-0", "Node:node-1"] {
            assert!(is_reference(text), "{text}");
        }
        for text in ["", "a//b", "https://joe:pw@db", "a:b:c:d", "pod/Web 0"] {
            assert!(!is_reference(text), "{text}");
        }
        assert!(is_field_path("spec.containers{sk-learn}"));
        for text in ["", "spec.containers", "spec..x{a}", "a{b", "a{B}", "a=b{c}"] {
            assert!(!is_field_path(text), "{text}");
        }
    }

    #[test]
    fn images_have_no_credentials() {
        let digest = format!("app@sha256:{}", "0a".repeat(32));
        for image in [
            "nginx",
            "nginx:1.27",
            "registry.example:5000/team/app_x:V1",
            "localhost:5000/app",
            &digest,
        ] {
            assert!(is_image(image), "{image}");
        }
        for text in [
            "",
            "joe:hunter2@registry.example/app",
            "https://registry.example/app",
            "app:",
            "app:a:b",
            "APP",
            "app@sha256:00",
            "a b",
        ] {
            assert!(!is_image(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_no_name_holds_a_pair_or_a_sentence(text in "\\PC{0,40}|[A-Za-z0-9:/@._={} -]{0,40}") {
            type Grammar = fn(&str) -> bool;
            let all: [Grammar; 7] = [
                is_word, is_qualified_name, is_api_version, is_reference, is_field_path, is_image,
                is_dns_subdomain,
            ];
            for grammar in all {
                if grammar(&text) {
                    prop_assert!(!text.contains(['=', ' ', '"', '\'', '\n', '?', '&', '%', '$', '\\']));
                    prop_assert!(text.is_ascii() && !text.contains("//"));
                }
            }
        }
    }
}
