//! What holds for any text.

use proptest::prelude::*;

use super::{work::examined_by, *};

/// Pieces that have a meaning to some rule: names, separators, quotes, markers, prefixes of
/// tokens, controls.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "password", "pass", "pwd", "token", "secret", "apikey", "key", "auth", "authorization", "cookie",
    "sessionid", "sig", "name", "value", "kind", "data", "apiVersion", "Secret", "user", "is", "with",
    "=", ":", "=>", ":=", " ", "  ", "\t", "\"", "'", "`", "\\", "\\\"", "\\n", "\\u003d", "\\/", "%3D",
    "%22", "%", "&quot;", "&", "\n", "\r", ",", ";", "|", "(", ")", "[", "]", "{", "}", "<", ">", "</", "<<",
    "-", "--", "- ", "$", "${", "$(", "{{", "@", "://", "/", ".", "..", "+", "~", "#", "!", "*", "?", "_",
    "eyJhbGciOi", "eyJ", "AKIA", "IOSFODNN7EXAMPLE", "Bearer ", "Basic ", "ghp_", "sk-", "xoxb-", "s.",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----",
    "-----END CERTIFICATE-----", "-----BEGIN", "-----END", "---- BEGIN", "Private-Lines: 2", "Private-MAC: ",
    "[redacted", "[redacted token]", "[redacted ", "kind: Secret", "data:", "\"kind\":\"Secret\"", "\"data\":{",
    "Data:map[", "Secret{", "\"kty\"", "\"d\":\"", "identified by ", "mysql -p", "curl -u ", "--from-literal=",
    "oracle:thin:", ":AA", "/bot", ".atlasv1.", "Q~", "NRAL", "-us1", "$2a$", "$6$", "{SSHA}", ":5432:", ":*:",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2", "cGFzc3dvcmQ9aHVudGVyMi1zd29yZGZpc2g=", "MIIEvQIBADAN",
    "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA", "0123456789abcdef", "hunter2", "true", "null", "5432", "Some(", "b'",
    "2026-01-01T00:00:00Z ", "stdout F ", "\u{1b}[31m", "\u{1b}]", "\u{1b}", "\u{7}", "\u{9b}", "\u{9c}", "\u{9d}",
    "\u{90}", "\u{98}", "\u{9e}", "\u{9f}", "\u{85}", "\u{2028}", "\u{200b}", "\u{200d}", "\u{ad}", "\u{fe0f}",
    "пароль", "Пароль ", "密码", "パスワードは ", "contraseña", "senha", "：", "→", "?=", "::=", "......", "''", "'\\''",
    "\"\"", ";s:8:\"", "hook", "/hooks/", "/magic/", "?key=", "rtmp://", "?u=joe", "&p=", "insert into t (password) ",
    "values ('", "pragma key = '", ".logon a/b,", "openssl rand", "'crypt' => [", "echo $", "printenv ", "-field=",
    "Value '", "value [", "] for property: ", "\" for flag -", "rejected value [", "(string) (len=8) \"", "[\"password\"],",
    "\"input\":", "\"old\":", "login ", "A2 LOGIN ", " on >", "net use ", "setuser", "{plain}", "snmpwalk -A ", "lautet: ",
    "is ", "_file line 1: ", "username,password", "| password |", "0x7f1182330000", "This field is ", "<![CDATA[", "<a:",
    "st.", "live_", "K00", "xprv", "SUA", "Str(", "map[string]string{", "+'",
    "recovery codes: ", "_code", "pin=", "\t", "SecureString", "[ \"", "(password ", "password[", "334 UGFzc3dvcmQ6", "+ '[' -n '",
    "+ TOKEN=", "auth plain", "CONNECT TO ", " USING ", "CONNECT a/b", "?key=", "discord://", "AQE", "=-", "<D>", "<P>", " -p ", "-u ",
    "as the password", "generated: ", "passwd: ", "->", "form-data; name=\"password\"", "'[redacted", "\\u043f", "[client.x]", "key = ",
    "access_token$production$", "setup key ", "below", "7z ", "mysqladmin ", "Name\tToken\tAge", "Authorization: X ", "[\n",
    "\u{3164}", "\u{e0041}", "ä", "日", "🦀", "•", "x", "0",
];

/// Pieces in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => "[ -~]{0,8}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// How many bytes a rule may look at for each byte of a text.
const WORK_MAX: usize = 600;

/// The work for a text of about this length that is made of a few pieces again and again.
fn work(pieces: &str, length: usize) -> usize {
    let text = pieces.repeat(length / pieces.len().max(1) + 1);
    let work = examined_by(|| drop(Redactor::default().workload(&text).into_owned()));
    work / text.len()
}

#[test]
fn quotes_that_are_written_twice_again_and_again_are_read_once() {
    for pieces in [
        "TOKEN=''password://",
        "password=''x",
        "token=\"\"a",
        "secret='a'\\''",
    ] {
        let (short, long) = (work(pieces, 8_000), work(pieces, 128_000));
        assert!(long <= short + 16, "{short} {long} for {pieces:?}");
    }
}

#[test]
fn work_grows_with_the_length_and_nothing_else() {
    // Every piece alone, and every pair of them: twice the text is twice the work.
    for one in PIECES {
        for other in PIECES.iter().step_by(11) {
            let pieces = format!("{one}{other}");
            let (short, long) = (work(&pieces, 1_000), work(&pieces, 8_000));
            assert!(
                short <= WORK_MAX && long <= WORK_MAX,
                "{short} {long} for {pieces:?}"
            );
            assert!(long <= short * 2 + 16, "{short} {long} for {pieces:?}");
        }
    }
}

proptest! {
    #[test]
    fn work_is_linear_in_any_text(pieces in soup()) {
        prop_assume!(!pieces.is_empty());
        let (short, long) = (work(&pieces, 1_000), work(&pieces, 8_000));
        prop_assert!(short <= WORK_MAX && long <= WORK_MAX, "{} {} for {:?}", short, long, pieces);
        prop_assert!(long <= short * 2 + 16, "{} {} for {:?}", short, long, pieces);
    }

    #[test]
    fn what_is_clean_stays_as_it_is(text in soup()) {
        let redactor = Redactor::default();
        let once = redactor.workload(&text).into_owned();
        prop_assert_eq!(redactor.workload(&once), once.as_str());
    }

    #[test]
    fn a_stream_of_lines_is_cleaned_as_the_whole_text(text in soup()) {
        let redactor = Redactor::default();
        let text = neutralise(&text).into_owned();
        let mut lines = redactor.lines();
        let cleaned: Vec<_> = text.split('\n').map(|line| lines.clean(line).into_owned()).collect();
        prop_assert_eq!(cleaned.join("\n"), redactor.workload(&text));
    }

    #[test]
    fn no_neighbour_uncovers_a_secret(before in soup(), after in soup()) {
        // On lines of its own nothing around may hide that it is one.
        let text = format!("{before}\nDB_PASSWORD=hunter2-swordfish\n{after}");
        prop_assert!(!Redactor::default().workload(&text).contains("swordfish"), "{}", text);
    }

    #[test]
    fn plain_words_and_numbers_stay(text in "([a-z]{1,12}|[0-9]{1,12}|[a-f0-9]{40}|[a-f0-9]{64})( ([a-z]{1,12}|[0-9]{1,12}|[a-f0-9-]{36})){0,20}") {
        // A word may happen to be the name of a secret.
        prop_assume!(text.split(' ').all(|word| names::classify(word).is_none()));
        prop_assert_eq!(Redactor::default().text(&text), text.as_str());
    }

    /// What Kubernetes names: words, the hash of a template, and a suffix.
    #[test]
    fn names_of_workloads_stay(
        prefix in prop::sample::select(vec!["sk", "pypi", "ghp", "glpat", "xoxb", "hf", "npm", "key", "token", "secret", "pul", "web", "auth", "passwd"]),
        words in prop::collection::vec("[a-z]{2,10}[0-9]{0,2}", 1..4),
        hash in "[bcdfghjklmnpqrstvwxz2456789]{8,10}",
        suffix in "[bcdfghjklmnpqrstvwxz2456789]{5}",
    ) {
        let name = format!("{prefix}-{}-{hash}-{suffix}", words.join("-"));
        for text in [name.clone(), format!("pod {name} is not ready"), format!("{{\"pod\":\"{name}\"}}"), format!("pod=\"default/{name}\"")] {
            prop_assert_eq!(Redactor::default().workload(&text), text.as_str());
        }
    }

    #[test]
    fn fuzz_nothing_panics(text in any::<String>(), soup in soup()) {
        let text = format!("{text}{soup}");
        drop(Redactor::default().workload(&text).into_owned());
    }

    #[test]
    fn what_is_shown_has_no_invisible_character(text in soup()) {
        let clean = neutralise(&text);
        let hidden = |one: char| one.is_control() && !matches!(one, '\n' | '\t') || matches!(one, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}');
        prop_assert!(!clean.contains(hidden), "{:?}", clean);
    }
}
