use std::{collections::BTreeMap, fs, slice};

use proptest::prelude::*;

use super::*;

const ANN: &str = "0123456789abcdef-ann";
const BOB: &str = "0123456789abcdef-bob";

fn file(content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    file
}

fn tokens(content: &str) -> Tokens {
    Tokens::read(file(content).path()).unwrap().0
}

fn name_of(tokens: &Tokens, token: &str) -> Option<String> {
    tokens.caller_of(token).map(|caller| caller.to_string())
}

#[test]
fn a_token_names_its_caller() {
    let tokens = tokens(&format!("# people\nann:{ANN}\n\n bob : {BOB} \n"));
    assert_eq!(name_of(&tokens, ANN).as_deref(), Some("ann"));
    assert_eq!(name_of(&tokens, BOB).as_deref(), Some("bob"));
    for wrong in ["", "ann", "0123456789abcdef-an", "0123456789abcdef-annn"] {
        assert_eq!(name_of(&tokens, wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_that_is_not_in_the_file_any_more_is_revoked() {
    let tokens = tokens(&format!("ann:{ANN}\nbob:{BOB}\n"));
    let (ann, bob) = (
        tokens.caller_of(ANN).unwrap(),
        tokens.caller_of(BOB).unwrap(),
    );
    let replaced = |text: &str| tokens.replace(vec![Ok(text.as_bytes().to_vec())]);
    // Ann's token changes: the one who had the old one is not she any more.
    let other = "0123456789abcdef-new";
    let gone = replaced(&format!("bob:{BOB}\nann:{other}\n"));
    assert_eq!(gone, slice::from_ref(&ann));
    assert!(ann.is_revoked() && !bob.is_revoked());
    assert_eq!(name_of(&tokens, ANN), None);
    let new = tokens.caller_of(other).unwrap();
    assert!(new == ann && !new.is_revoked(), "the name is the same");
    // A line that is broken gives nobody access, and does not keep what was before.
    let gone = replaced(&format!("bob {BOB}\nann:{other}\n"));
    assert_eq!(gone, slice::from_ref(&bob));
    assert!(bob.is_revoked() && !new.is_revoked());
    assert_eq!(name_of(&tokens, BOB), None);
    assert_eq!(replaced("# nobody\n"), [new]);
    assert_eq!(name_of(&tokens, other), None);
    // It comes back, and goes with the file.
    assert!(replaced(&format!("bob:{BOB}\n")).is_empty());
    assert_eq!(name_of(&tokens, BOB).as_deref(), Some("bob"));
    assert!(bob.is_revoked(), "what was open does not come back");
    let gone = tokens.replace(vec![Err(io::ErrorKind::NotFound.into())]);
    assert_eq!(gone.len(), 1);
    assert_eq!(name_of(&tokens, BOB), None);
}

#[test]
fn a_changed_user_ends_what_is_open_and_counts_for_what_comes() {
    let line = |user: &str| format!("ann:{ANN}{user}\nbob:{BOB} user=bob\n");
    let tokens = tokens(&line(""));
    let user_of = |token: &str| {
        let caller = tokens.caller_of(token).unwrap();
        let user = caller.kubernetes_user().cloned();
        (caller, user)
    };
    let (before, user) = user_of(ANN);
    assert_eq!(user, None);
    let (bob, _) = user_of(BOB);
    for (after, name, groups) in [
        (" user=ann", "ann", 1),
        (" user=ann groups=dev", "ann", 2),
        (" user=eve groups=dev", "eve", 2),
    ] {
        let (old, _) = user_of(ANN);
        let gone = tokens.replace(vec![Ok(line(after).into_bytes())]);
        assert_eq!(gone, slice::from_ref(&old));
        assert!(old.is_revoked());
        let (now, user) = user_of(ANN);
        let user = user.unwrap();
        assert_eq!(now.to_string(), before.to_string(), "the name is the same");
        assert!(
            now != old && !now.is_revoked(),
            "another user is another caller"
        );
        assert_eq!((user.name(), user.groups().len()), (name, groups));
    }
    // Written otherwise, it says the same.
    let same = line("   groups=\"dev\"  user=eve");
    assert!(tokens.replace(vec![Ok(same.into_bytes())]).is_empty());
    assert!(!bob.is_revoked());
    let file = file(&line(""));
    let summary = check_token_file(file.path()).unwrap();
    assert_eq!((summary.tokens, summary.without_user), (2, 1));
}

#[test]
fn a_file_that_makes_no_sense_is_named_without_its_tokens() {
    let check = |content: &str, words: &str| {
        let error = check_token_file(file(content).path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(words) && !error.contains("0123456789"),
            "{error}"
        );
    };
    check("", "has no token");
    check("# only a comment", "has no token");
    check("ann 0123456789abcdef", "line 1");
    check(":0123456789abcdef", "has no name");
    check("ann:short", "fewer than 16");
    check("ann:0123456789abcdef\nann:0123456789abcdeg", "line 2");
    let gone = check_token_file(Path::new("/no/such/tokens"))
        .unwrap_err()
        .to_string();
    assert!(gone.contains("/no/such/tokens"), "{gone}");
}

/// Files by name: any of two tokens each, or none.
fn people() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[a-d]", "[AB]{16}", 0..4)
}

proptest! {
    #[test]
    fn fuzz_a_right_file_names_the_owner_of_each_token(
        right in prop::collection::btree_map("[a-z]{1,3}", "[A-Z0-9:#]{16,20}", 1..5),
        (between, space) in ("(\r?\n|# [a-z]{0,9}:[A-Z]{0,20}\n){0,3}", " {0,2}"),
    ) {
        let mut text = String::new();
        for (name, token) in &right {
            text += &format!("{between}{space}{name}{space}:{space}{token}{space}\n");
        }
        let (lines, errors) = parse(Path::new("tokens"), &text);
        prop_assert!(errors.is_empty());
        let lines: Vec<_> = lines.iter().map(|one| (one.name, one.digest)).collect();
        let right: Vec<_> = right.iter().map(|(name, token)| (&**name, digest(token))).collect();
        prop_assert_eq!(lines, right);
    }

    #[test]
    fn fuzz_any_file_is_read_or_refused_without_its_tokens(
        text in prop_oneof![any::<String>(), "([a-z#: ]{0,4}:?[A-Z0-9]{14,20}\r?\n){0,5}"],
    ) {
        let (lines, errors) = parse(Path::new("tokens"), &text);
        prop_assert!(lines.len() + errors.len() <= text.lines().count());
        for error in errors {
            let error = error.to_string();
            for word in text.split([':', '\n', '\r', ' ']).filter(|word| word.len() >= 14) {
                prop_assert!(!error.contains(word), "{}", error);
            }
        }
    }

    /// Whatever was in the file before, only what is in it now opens the door; and exactly
    /// those whose own line stayed keep what they have open.
    #[test]
    fn what_counts_is_what_the_file_has_now(before in people(), after in people()) {
        let text = |people: &BTreeMap<String, String>| {
            let lines = people.iter().map(|(name, token)| format!("{name}:{name}{token}\n"));
            vec![Ok(lines.collect::<String>().into_bytes())]
        };
        let tokens = Tokens { path: PathBuf::new(), known: RwLock::default() };
        tokens.replace(text(&before));
        let callers: Vec<_> = before.iter().map(|(name, token)| {
            (name, token, tokens.caller_of(&format!("{name}{token}")).unwrap())
        }).collect();
        let revoked = tokens.replace(text(&after));
        for (name, token, caller) in callers {
            let stays = after.get(name) == Some(token);
            prop_assert_eq!(caller.is_revoked(), !stays);
            prop_assert_eq!(revoked.contains(&caller), !stays);
            prop_assert_eq!(tokens.caller_of(&format!("{name}{token}")).is_some(), stays);
        }
        for (name, token) in &after {
            let found = name_of(&tokens, &format!("{name}{token}"));
            prop_assert_eq!(found.as_ref(), Some(name));
        }
    }
}
