use super::*;

#[test]
fn the_list_of_words_is_sorted() {
    assert!(STATUS.is_sorted());
}

#[test]
fn what_people_write_is_not_random() {
    for value in [
        "2026-01-01T00:00:00Z",
        "10.0.0.1:6443",
        "v1.29.3",
        "1h30m",
        "RS256",
        "kube-system",
        "web-7d4b9c6f5d-x2x8z",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "ecdsa-sha2-nistp256",
        "/var/run/secrets/token",
        "https://example.org/a1b2?c=d4",
        "same-origin",
        "SCRAM-SHA-256",
        "com.example.Token@1a2b3c",
        "sk-learn-inference-7d9f8c6b5d-abcde",
        "ServiceAccountToken",
    ] {
        assert!(!is_random(value), "{value}");
    }
    for value in [
        "aB3dE5gH7jK9",
        "dXNlcjpwYXNzd29yZA==",
        "9f86d081884c7d659a2feaa0c55ad015",
        "s3cr3t_v4lue_9x",
        "pul-0123456789abcdef0123456789abcdef01234567",
    ] {
        assert!(is_random(value), "{value}");
    }
}

#[test]
fn references_and_masks_are_placeholders() {
    for value in [
        "",
        "$PASSWORD",
        "${DB_PASSWORD}",
        "$(cat x)",
        "{{ .token }}",
        "<your token>",
        "****",
        "xxxx",
        "[FILTERED]",
        "$db_password",
        "%s",
        "h******2",
        "<nil>",
    ] {
        assert!(is_placeholder(value), "{value}");
    }
    for value in [
        "$ecret",
        "$ecr3t!",
        "pa$$word",
        "x",
        "hunter2",
        "<b0gus",
        "{SSHA}abc",
    ] {
        let only_mask = value == "x";
        assert_eq!(is_placeholder(value), only_mask, "{value}");
    }
}
