//! Redaction of a workload's text, whole and line by line.

use kubecrier_redact::{Redactor, neutralise};

/// On a line of its own nothing around may hide this secret.
const SECRET: &str = "hunter2-swordfish";

/// Characters that end a line for whoever reads it, and become a newline.
const BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// What a mark and a `\x..` can add to each character at most.
const GROWTH_MAX: usize = 32;

/// Cleans a text, and cleans it again.
///
/// # Panics
///
/// If something does not hold.
pub fn redaction(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let redactor = Redactor::default();
    let clean = redactor.workload(&text);
    assert!(clean.len() <= GROWTH_MAX * text.len(), "{clean}");
    assert_eq!(neutralise(&clean), clean, "no control character stays");
    assert_eq!(redactor.workload(&clean), clean, "what is clean stays");
    let mut lines = redactor.lines();
    for line in text.lines() {
        let clean = lines.clean(line);
        assert!(clean.len() <= GROWTH_MAX * (line.len() + 1), "{clean}");
        assert!(!clean.contains('\n') || line.contains(BREAKS), "{clean}");
        assert_eq!(neutralise(&clean), clean, "no control character stays");
    }
    uncovers_nothing(&redactor, &text);
}

fn uncovers_nothing(redactor: &Redactor, text: &str) {
    let (before, after) = text.split_at(text.floor_char_boundary(text.len() / 2));
    // Where nothing calls it a secret, it is an ordinary word, also one that control characters
    // cut in two.
    let around = format!("{before}\n\n{after}");
    let has_word = |text: &str| neutralise(text).contains(SECRET);
    if has_word(&around) || around.lines().any(has_word) {
        return;
    }
    let text = format!("{before}\nDB_PASSWORD={SECRET}\n{after}");
    assert!(!redactor.workload(&text).contains(SECRET), "{text:?}");
    let mut lines = redactor.lines();
    for line in text.lines() {
        assert!(!lines.clean(line).contains(SECRET), "{text:?}");
    }
}
