//! What holds for any text.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// Long texts that begin many secrets and finish none. Quadratic time would take
/// minutes here.
#[test]
fn hostile_text_takes_no_longer_than_other_text() {
    let size = 200_000;
    let mut key_soup = String::new();
    for n in 0..size / 30 {
        write!(key_soup, "-----BEGIN PRIVATE KEY-----{n}").unwrap();
    }
    let soups = [
        "eyJ-".repeat(size / 4),
        "eyJabcdefghi-".repeat(size / 13),
        "://".repeat(size / 3),
        "token=$".repeat(size / 7),
        "pwd=/".repeat(size / 5),
        "password=\"".repeat(size / 10),
        "secret: ".repeat(size / 8),
        "\\\"token\\\":\\\"".repeat(size / 14),
        "AKIA".repeat(size / 4),
        "A".repeat(size),
        "-----END PRIVATE KEY-----".repeat(size / 25),
        "kind: Secret\ndata:\n ".repeat(size / 20),
        "\"kind\":\"Secret\",\"data\":{".repeat(size / 24),
        "bearer ".repeat(size / 7),
        "\u{1b}]".repeat(size / 2),
        "token".repeat(size / 5),
        key_soup,
    ];
    for soup in soups {
        let began = tokio::time::Instant::now();
        let _clean = Redactor::default().workload(&soup);
        let took = began.elapsed();
        assert!(took.as_secs() < 10, "{took:?} for {soup:.60}");
    }
}

/// Pieces that secrets are made of, in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "password",
            "=",
            ":",
            " ",
            "\"",
            "'",
            "\\",
            "\n",
            "token",
            "secret",
            "--",
            "://",
            "@",
            "/",
            "eyJhbGciOi",
            ".",
            "AKIA",
            "Bearer ",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "[redacted",
            "]",
            "[redacted token]",
            "kind: Secret",
            "data:",
            "{",
            "}",
            "\"kind\":\"Secret\"",
            "\"data\":{",
            "\u{1b}[31m",
            "\u{1b}]",
            "ghp_",
            "pwd",
            "$",
            "<",
            ">",
            ",",
            "authorization",
            "IOSFODNN7EXAMPLE",
            "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA",
            "ä",
            "日",
            "\u{200b}",
            "\r",
            "true",
            "|",
            "  ",
            "apikey",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,8}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_is_clean_stays_as_it_is(text in soup()) {
        let redactor = Redactor::default();
        let once = redactor.workload(&text).into_owned();
        prop_assert_eq!(redactor.workload(&once), once.as_str());
    }

    #[test]
    fn no_neighbour_uncovers_a_secret(before in soup(), after in soup()) {
        // On lines of its own nothing around may hide that it is one.
        let text = format!("{before}\nDB_PASSWORD=hunter2-swordfish\n{after}");
        prop_assert!(!Redactor::default().workload(&text).contains("swordfish"), "{}", text);
    }

    #[test]
    fn plain_words_and_numbers_stay(text in "([a-z]{1,12}|[0-9]{1,12}|[a-f0-9]{40}|[a-f0-9]{64})( ([a-z]{1,12}|[0-9]{1,12}|[a-f0-9-]{36})){0,20}") {
        prop_assert_eq!(Redactor::default().text(&text), text.as_str());
    }
}
