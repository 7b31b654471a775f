mod classes;

use serde_json::json;

use super::*;

fn clean(text: &str) -> String {
    Redactor::default().text(text).into_owned()
}

/// What must not be read, and all around it that must.
#[track_caller]
fn hides(text: &str, secret: &str, expected: &str) {
    assert!(text.contains(secret), "the sample lacks its secret: {text}");
    let clean = clean(text);
    assert_eq!(clean, expected, "{text}");
    assert!(!clean.contains(secret));
}

fn jwt() -> String {
    [
        "eyJhbGciOiJIUzI1NiJ9",
        "eyJzdWIiOiIxMjM0NSJ9",
        "c2lnbmF0dXJlLWhlcmU",
    ]
    .join(".")
}

/// Put together here, so that no scanner takes this file for a leak.
fn token(prefix: &str, length: usize) -> String {
    let letters = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA".chars().cycle();
    prefix.chars().chain(letters.take(length)).collect()
}

fn key_lines(count: usize) -> Vec<String> {
    (0..count).map(|n| token(&format!("MII{n}"), 60)).collect()
}

#[test]
fn values_given_away_by_their_name_are_hidden() {
    let p = "[redacted password]";
    let t = "[redacted token]";
    let s = "[redacted secret]";
    hides(
        "password=hunter2 user=joe",
        "hunter2",
        &format!("password={p} user=joe"),
    );
    hides(
        "user=joe;Pwd=hunter2;Timeout=3",
        "hunter2",
        &format!("user=joe;Pwd={p};Timeout=3"),
    );
    hides(
        "DB_PASSWORD=a,b;c&d",
        "a,b;c&d",
        &format!("DB_PASSWORD={p}"),
    );
    hides(
        "export PGPASSWORD='hun ter2'",
        "hun ter2",
        &format!("export PGPASSWORD='{p}'"),
    );
    hides(
        "  password: correct horse battery",
        "correct horse",
        &format!("  password: {p}"),
    );
    hides(
        "password: 123456\nnext: 1",
        "123456",
        &format!("password: {p}\nnext: 1"),
    );
    hides(
        r#"{"user":"joe","password":"hun\"ter2","n":1}"#,
        "ter2",
        &format!(r#"{{"user":"joe","password":"{p}","n":1}}"#),
    );
    hides(
        r#"{"m":"{\"password\":\"hunter2\",\"n\":1}"}"#,
        "hunter2",
        &format!(r#"{{"m":"{{\"password\":\"{p}\",\"n\":1}}"}}"#),
    );
    hides(
        "--password hunter2 --verbose",
        "hunter2",
        &format!("--password {p} --verbose"),
    );
    hides(
        "-token=abc123def -v",
        "abc123def",
        &format!("-token={t} -v"),
    );
    hides(
        r#"args: ["--api-key", "abc12345", "-v"]"#,
        "abc12345",
        &format!(r#"args: ["--api-key", "{s}", "-v"]"#),
    );
    hides(
        "<password>hunter2</password>",
        "hunter2",
        &format!("<password>{p}</password>"),
    );
    hides(
        "GET /x?access_token=abc123&page=2",
        "abc123",
        &format!("GET /x?access_token={t}&page=2"),
    );
    hides(
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG",
        "wJalr",
        &format!("aws_secret_access_key = {s}"),
    );
    hides(
        "AccountName=x;AccountKey=abc/def+ghi==;Suffix=y",
        "abc/def",
        &format!("AccountName=x;AccountKey={s};Suffix=y"),
    );
    hides(
        "client_secret: \"a b\"",
        "a b",
        &format!("client_secret: \"{s}\""),
    );
    hides(
        "password => 'hunter2',",
        "hunter2",
        &format!("password => '{p}',"),
    );
    hides("secret_id=0a1b2c3d", "0a1b2c3d", &format!("secret_id={s}"));
    hides(
        "token = 'unclosed secret value\nnext line",
        "unclosed",
        &format!("token = '{t}\nnext line"),
    );
    hides(
        "Set-Cookie: sid=31d4d96e; Path=/",
        "31d4d96e",
        &format!("Set-Cookie: {t}"),
    );
    hides(
        "passwd=$2a$10$N9qo8uLOickgx2ZMRZoMye",
        "N9qo8u",
        &format!("passwd={p}"),
    );
}

#[test]
fn tokens_are_known_by_their_shape() {
    for (text, kind) in [
        (jwt(), "jwt"),
        (token("AKIA", 0) + "IOSFODNN7EXAMPLE", "aws key"),
        (token("ghp_", 36), "token"),
        (token("github_pat_", 60), "token"),
        (token("glpat-", 20), "token"),
        (token("xoxb-", 24), "token"),
        (token("npm_", 36), "token"),
        (token("sk_live_", 24), "token"),
        (token("sk-ant-", 40), "token"),
        (token("hvs.", 30), "token"),
        (token("AIza", 35), "google key"),
        (token("ya29.", 60), "google key"),
        (
            token("AGE-SECRET-KEY-1", 0) + &"Q3".repeat(29),
            "private key",
        ),
    ] {
        let around = format!("before {text} after");
        assert_eq!(clean(&around), format!("before [redacted {kind}] after"));
        assert_eq!(
            clean(&format!("x=\"{text}\"")),
            format!("x=\"[redacted {kind}]\"")
        );
    }
    let half = jwt()[..40].to_owned();
    assert_eq!(clean(&half), "[redacted jwt]", "cut off in its payload");
    assert_eq!(
        clean("eyJhbGciOiJIUzI1NiIs"),
        "[redacted jwt]",
        "cut off in its header"
    );
    let sas = format!(
        "https://x.blob.core/y?sv=1&sig={}&se=2",
        token("", 43) + "%3D"
    );
    assert_eq!(
        clean(&sas),
        "https://x.blob.core/y?sv=1&sig=[redacted token]&se=2"
    );
}

#[test]
fn headers_of_requests_are_hidden() {
    let bearer = token("", 30);
    hides(
        &format!("Authorization: Bearer {bearer}"),
        &bearer,
        "Authorization: [redacted token]",
    );
    hides(
        "curl -H 'Authorization: Bearer token-of-joe' x",
        "token-of-joe",
        "curl -H 'Authorization: [redacted token]' x",
    );
    hides(
        "authorization=\"Basic am9lOmh1bnRlcjI=\"",
        "am9l",
        "authorization=\"[redacted token]\"",
    );
    hides(
        &format!("sent Bearer {bearer} to x"),
        &bearer,
        "sent Bearer [redacted token] to x",
    );
    hides(
        "sent basic am9lOmh1bnRlcjI= to x",
        "am9l",
        "sent basic [redacted token] to x",
    );
    hides(
        "X-Api-Key: 0123456789abcdef",
        "0123456789abcdef",
        "X-Api-Key: [redacted secret]",
    );
}

#[test]
fn addresses_lose_their_credentials_and_stay_addresses() {
    let p = "[redacted password]";
    hides(
        "postgres://joe:hunter2@db:5432/app?x=1",
        "hunter2",
        &format!("postgres://joe:{p}@db:5432/app?x=1"),
    );
    hides(
        "redis://:hunter2@cache:6379",
        "hunter2",
        &format!("redis://:{p}@cache:6379"),
    );
    hides(
        "amqp://joe:p@ss@mq/",
        "p@ss",
        &format!("amqp://joe:{p}@mq/"),
    );
    hides(
        "mysql://joe:p/s?s@db/app",
        "p/s?s",
        &format!("mysql://joe:{p}@db/app"),
    );
    let git = token("", 40);
    hides(
        &format!("https://{git}@git.example/r.git"),
        &git,
        &format!("https://{p}@git.example/r.git"),
    );
}

#[test]
fn private_keys_are_hidden_whole_and_cut() {
    let body = key_lines(4).join("\n");
    let whole =
        format!("a\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nb");
    let marks = |lines: usize| vec!["[redacted private key]"; lines].join("\n");
    assert_eq!(clean(&whole), format!("a\n{}\nb", marks(6)));
    let prefixed = whole.replace("\nMII", "\n12:00 app MII");
    assert!(!clean(&prefixed).contains("MII"), "{}", clean(&prefixed));
    let cut = format!("a\n-----BEGIN PRIVATE KEY-----\n{body}");
    assert_eq!(clean(&cut), format!("a\n{}", marks(5)));
    let cut = format!("a\n-----BEGIN PRIVATE KEY-----\n{body}\nand then it went on");
    assert_eq!(clean(&cut), format!("a\n{}\nand then it went on", marks(5)));
    let beheaded = format!("{body}\nAb3=\n-----END PRIVATE KEY-----\nb");
    let headless = clean(&beheaded);
    assert!(
        !headless.contains("MII") && !headless.contains("Ab3"),
        "{headless}"
    );
    assert!(
        headless.ends_with("[redacted private key]\nb"),
        "{headless}"
    );
    let middle = key_lines(3).join("\n");
    assert!(!clean(&middle).contains("MII"), "{}", clean(&middle));
    let one_line = format!(
        r#"{{"k":"-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"}}"#,
        body.replace('\n', "\\n")
    );
    assert_eq!(clean(&one_line), r#"{"k":"[redacted private key]\n"}"#);
    let open = one_line.split(r"\n-----END").next().unwrap().to_owned();
    assert!(!clean(&open).contains("MII"), "{}", clean(&open));
    assert_eq!(
        clean("wanted -----BEGIN PRIVATE KEY-----, got nothing"),
        "wanted [redacted private key], got nothing"
    );
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----";
    assert_eq!(clean(certificate), certificate, "a certificate is public");
}

#[test]
fn a_printed_secret_keeps_its_keys_only() {
    let yaml = "kind: Secret\nmetadata:\n  name: db\ndata:\n  user: am9l\n  note: |\n    free text\ntype: Opaque\n";
    assert_eq!(
        clean(yaml),
        "kind: Secret\nmetadata:\n  name: db\ndata:\n  user: [redacted secret]\n  note: |\n    [redacted secret]\ntype: Opaque\n"
    );
    let json = r#"got {"kind":"Secret","data":{"user":"am9l","b":"x}y"},"type":"Opaque"}"#;
    assert_eq!(
        clean(json),
        r#"got {"kind":"Secret","data":{[redacted secret]},"type":"Opaque"}"#
    );
    let map = "kind: ConfigMap\ndata:\n  colour: blue\n";
    assert_eq!(clean(map), map);
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "image registry.example/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "uid 3f2504e0-4f89-11d3-9a0c-0305e82c3301 commit 0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33",
        "pod web-7d4b9c6f5d-x2x8z in kube-system, event web-0.17f2a9c3b4d5e6f7",
        "password reset requested",
        "password authentication failed for user \"joe\"",
        "invalid token: unexpected end of input",
        "failed to get token: connection refused",
        "token: expired",
        "secret: not found",
        "authorization: denied",
        "MountVolume.SetUp failed for volume \"x\" : secret \"db-creds\" not found",
        "couldn't find key password in Secret default/db",
        "secret=\"cert-manager/webhook-ca\"",
        "secretName: db-creds",
        "secretKeyRef: db",
        "tokenExpirationSeconds: 3600",
        "token_type=bearer",
        "--token-file /var/run/token --password-file=/etc/pw",
        "max_tokens=4096 total_tokens: 532",
        "PWD=/usr/src/app",
        "OLDPWD=/",
        "password=",
        "password=true token=null",
        "password: \"\"",
        "password=${DB_PASSWORD}",
        "DB_PASSWORD:  <set to the key 'password' in secret 'db'>",
        "DB_PASSWORD=********",
        "http://example.org:8080/path/@joe",
        "git ssh://git@git.example/r.git",
        "https://example.org/a?b=c#d",
        "basic authentication is off",
        "Basic Authentication required",
        "bearer of bad news everybody knows",
        "task-12345678901234567890 done",
        "risk-assessment-of-the-quarter",
        "non-ASCII text: Grüße, 日本語, 🦀",
        "panic: runtime error: index out of range [5] with length 3",
        "at com.example.Token.parse(Token.java:12)",
        "goroutine 1 [running]:\nmain.main()\n\t/app/main.go:7 +0x1d",
        "keys: a, b; monkey=banana; key=value",
        "cookies: disabled",
        "the access key: missing",
        "2026-01-01T00:00:00Z level=info msg=\"token refreshed\" seconds=3",
    ] {
        assert_eq!(clean(text), text);
        assert!(
            matches!(Redactor::default().workload(text), Cow::Borrowed(_)),
            "{text}"
        );
    }
}

#[test]
fn an_operator_can_add_patterns_and_a_bad_one_is_named() {
    let redactor = Redactor::new(&[r"CUST-\d+".to_owned(), r"pin:(\d{4})".to_owned()]).unwrap();
    let text = "CUST-12 said pin:1234, password=CUST-13";
    let clean = redactor.text(text);
    assert_eq!(
        clean,
        "[redacted custom] said pin:[redacted custom], password=[redacted password]"
    );
    assert_eq!(redactor.text(&clean), clean);
    let greedy = Redactor::new(&[r"\w+".to_owned()]).unwrap();
    let once = greedy.text("one two").into_owned();
    assert_eq!(once, "[redacted custom] [redacted custom]");
    assert_eq!(greedy.text(&once), once);
    for bad in ["(", "a*", ""] {
        let error = Redactor::new(&["fine".to_owned(), bad.to_owned()]).unwrap_err();
        assert_eq!(error.pattern, bad);
        assert!(!error.to_string().is_empty());
    }
    assert!(
        Redactor::new(&[r"\w{1000}{1000}".to_owned()]).is_err(),
        "too large"
    );
}

#[test]
fn payloads_are_cleaned_by_key_and_by_value() {
    let mut value = json!({
        "password": "hunter2", "count": 3, "note": "token=abc123", "secretName": "db",
        "apiKey": ["a1", "b2"], "token": {"inner": "Bearer abc12345678"}, "enabledToken": true,
        "env": [{"name": "DB_PASSWORD", "value": "x y"}, {"name": "COLOUR", "value": "blue"}],
        "object": {"kind": "Secret", "data": {"a": "YQ=="}, "metadata": {"annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"a\":\"YQ==\"}}"}}},
        "k\u{1b}[31mey": "\u{1b}[31mred\u{1b}[0m",
    });
    Redactor::default().json(&mut value);
    let secret = "[redacted secret]";
    assert_eq!(
        value,
        json!({
            "password": secret, "count": 3, "note": "token=[redacted token]", "secretName": "db",
            "apiKey": [secret, secret], "token": {"inner": "Bearer [redacted token]"}, "enabledToken": true,
            "env": [{"name": "DB_PASSWORD", "value": secret}, {"name": "COLOUR", "value": "blue"}],
            "object": {"kind": "Secret", "data": {"a": secret}, "metadata": {"annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": secret}}},
            "key": "red",
        })
    );
    let before = value.clone();
    Redactor::default().json(&mut value);
    assert_eq!(value, before);
}

#[test]
fn control_characters_lose_their_power() {
    for (text, expected) in [
        ("\u{1b}[1;31mred\u{1b}[0m", "red"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{9b}31mred", "red"),
        ("a\u{1b}(Bb\u{1b}7c\u{1b}", "abc"),
        ("\u{1b}]0;no end\nnext", "0;no end\nnext"),
        ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd"),
        ("nul\0 bell\u{7} del\u{7f}", "nul\\x00 bell\\x07 del\\x7f"),
        ("a\u{202e}b\u{200b}c\u{e0041}d\u{feff}", "abcd"),
        (
            "tab\tand 日本語 👩\u{200d}💻 ❤\u{fe0f}",
            "tab\tand 日本語 👩💻 ❤",
        ),
        (
            "so\u{ad}ft hy\u{200c}phen \u{3164}\u{ffa0}\u{115f}filler",
            "soft hyphen filler",
        ),
        ("\u{9d}0;title\u{9c}a\u{90}b\u{9c}c\u{9e}open", "acopen"),
    ] {
        assert_eq!(neutralise(text), expected, "{text:?}");
        assert_eq!(neutralise(expected), expected);
    }
    let hidden = "pass\u{1b}[0mword=hun\u{200b}ter2";
    assert_eq!(
        Redactor::default().workload(hidden),
        "password=[redacted password]"
    );
}

#[test]
fn a_key_is_known_in_every_line_of_it() {
    let redactor = Redactor::default();
    let mut lines = redactor.lines();
    let mut text = vec![
        "start".to_owned(),
        "12:00 -----BEGIN EC PRIVATE KEY-----".to_owned(),
    ];
    text.extend(key_lines(3).iter().map(|line| format!("12:00 {line}")));
    text.extend(["12:00 -----END EC PRIVATE KEY-----", "password=x1", "done"].map(str::to_owned));
    let clean: Vec<_> = text
        .iter()
        .map(|line| lines.clean(line).into_owned())
        .collect();
    assert!(
        clean[1..=5]
            .iter()
            .all(|line| line.ends_with("[redacted private key]")),
        "{clean:?}"
    );
    assert_eq!(
        (clean[0].as_str(), clean[6].as_str(), clean[7].as_str()),
        ("start", "password=[redacted password]", "done")
    );
}
