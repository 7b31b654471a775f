use super::{Passes, WHOLE_LINE, settle, text};
use crate::{Redactor, state::State};

/// Redacts a text whole and line by line, and each result again.
#[track_caller]
fn stable(given: &str) -> String {
    let redactor = Redactor::default();
    let clean = redactor.text(given).into_owned();
    assert_eq!(redactor.text(&clean), clean, "{given}");
    let by_line = |given: &str| {
        let mut lines = redactor.lines();
        let lines = given.split('\n').map(|line| lines.clean(line).into_owned());
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(by_line(given), clean, "{given}");
    assert_eq!(by_line(&clean), clean, "{given}");
    clean
}

#[test]
fn a_mark_that_hides_the_beginning_of_a_block_hides_nothing_after_it() {
    // The second line stands in a public block, but whoever reads the mark does not know that.
    let begin = r#"{"pwd":"-----BEGIN CERTIFICATE-----":"x"}"#;
    let clean = stable(&format!("{begin}\n\neyJhbGciOiJIUzI1NiJ9\nnext"));
    assert!(clean.ends_with("\n\n[redacted jwt]\nnext"), "{clean}");
    // Where nothing is hidden, a block is public to its end.
    let shown = "-----BEGIN CERTIFICATE-----\neyJhbGciOiJIUzI1NiJ9\n-----END CERTIFICATE-----";
    assert_eq!(stable(shown), shown);
}

#[test]
fn what_a_hidden_line_has_announced_is_still_hidden() {
    let clean = stable("x=\npassword: |\n  hunter2\n  swordfish\nnext: 1");
    assert!(
        !clean.contains("hunter2") && !clean.contains("swordfish"),
        "{clean}"
    );
    assert!(clean.ends_with("next: 1"), "{clean}");
}

#[test]
fn two_states_become_one_when_nothing_tells_them_apart() {
    let mut passes = Passes::default();
    text(&mut passes, "DB_PASSWORD=aB3dE5gH7jK9mN1pQ2rS");
    assert!(passes.marked.is_some(), "the value may be repeated");
    for _ in 0..16 {
        text(&mut passes, "ready");
    }
    assert!(passes.marked.is_none());
}

#[test]
fn a_line_of_one_mark_stays_whatever_is_known_before_it() {
    for before in [
        "",
        "-----BEGIN PRIVATE KEY-----",
        "Private-Lines: 3",
        "password:",
        "  password: |",
        "| user | password |",
        "username,password",
        "TOKENS=[",
        "334 UGFzc3dvcmQ6",
        "AKIAIOSFODNN7EXAMPLE",
        "kind: Secret\ndata:",
    ] {
        let mut state = State::default();
        for line in before.split('\n') {
            super::look(&mut state, line);
        }
        for indent in ["", "  "] {
            let line = format!("{indent}{WHOLE_LINE}");
            assert_eq!(settle(&state, &line, None).0, None, "{before}");
        }
    }
}
