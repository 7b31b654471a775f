//! Where a secret may begin: words of names, prefixes of tokens, markers.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{calls::CALLS, commands, finds::MARK, tokens::SHAPES};

/// What begins where a trigger was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// A mark, which is left alone.
    Mark,
    /// A word that names of secrets have.
    Name,
    /// A name of one letter less: what is before it separates parameters.
    Parameter,
    /// A token with which nodes join a cluster.
    Node,
    /// The call of this number among those with a password.
    Call(usize),
    /// The token of this number in the table.
    Shape(usize),
    Url,
    At,
    Slash,
    Begin,
    End,
    Jwt,
    Scheme,
    Hash,
    Telegram,
    TelegramAddress,
    Terraform,
    Azure,
    NewRelic,
    Mailchimp,
    Command,
    Identified,
    WebKey,
    Putty,
    Mac,
    PassFile,
    /// The key `apiVersion` of an object.
    Object,
    /// Something that shows that the line is worth a closer look.
    Nothing,
}

const OTHERS: &[(&str, Trigger)] = &[
    (MARK, Trigger::Mark),
    ("LS0t", Trigger::Nothing),
    ("pass", Trigger::Name),
    ("pwd", Trigger::Name),
    ("psw", Trigger::Name),
    ("pword", Trigger::Name),
    ("pw", Trigger::Name),
    ("secret", Trigger::Name),
    ("token", Trigger::Name),
    ("auth", Trigger::Name),
    ("cred", Trigger::Name),
    ("cookie", Trigger::Name),
    ("sess", Trigger::Name),
    ("sid", Trigger::Name),
    ("key", Trigger::Name),
    ("salt", Trigger::Name),
    ("sig", Trigger::Name),
    ("pat=", Trigger::Name),
    ("pat:", Trigger::Name),
    ("pat\"", Trigger::Name),
    ("_pat", Trigger::Name),
    ("psk", Trigger::Name),
    ("mnemonic", Trigger::Name),
    ("phrase", Trigger::Name),
    ("otp", Trigger::Name),
    ("samlresponse", Trigger::Name),
    ("jwt", Trigger::Name),
    ("pepper", Trigger::Name),
    ("?code=", Trigger::Parameter),
    ("&code=", Trigger::Parameter),
    ("_code", Trigger::Name),
    ("code_verifier", Trigger::Name),
    ("K10", Trigger::Node),
    ("sqlldr ", Trigger::Slash),
    ("expdp ", Trigger::Slash),
    ("impdp ", Trigger::Slash),
    ("rman ", Trigger::Slash),
    ("://", Trigger::Url),
    ("@", Trigger::At),
    ("oracle:thin:", Trigger::Slash),
    ("sqlplus ", Trigger::Slash),
    ("-----begin", Trigger::Begin),
    ("---- begin", Trigger::Begin),
    ("-----end", Trigger::End),
    ("---- end", Trigger::End),
    ("eyJ", Trigger::Jwt),
    ("bearer ", Trigger::Scheme),
    ("basic ", Trigger::Scheme),
    ("ssws ", Trigger::Scheme),
    ("auth plain ", Trigger::Scheme),
    ("auth login ", Trigger::Scheme),
    ("$apr1$", Trigger::Hash),
    ("$2a$", Trigger::Hash),
    ("$2b$", Trigger::Hash),
    ("$2y$", Trigger::Hash),
    ("$1$", Trigger::Hash),
    ("$5$", Trigger::Hash),
    ("$6$", Trigger::Hash),
    ("$y$", Trigger::Hash),
    ("$argon2", Trigger::Hash),
    ("$pbkdf2", Trigger::Hash),
    ("pbkdf2_sha256$", Trigger::Hash),
    ("scram-sha-256$", Trigger::Hash),
    ("{ssha", Trigger::Hash),
    ("{sha}", Trigger::Hash),
    (":AA", Trigger::Telegram),
    ("/bot", Trigger::TelegramAddress),
    (".atlasv1.", Trigger::Terraform),
    ("Q~", Trigger::Azure),
    ("NRAL", Trigger::NewRelic),
    ("-us", Trigger::Mailchimp),
    ("identified", Trigger::Identified),
    ("\"kty\"", Trigger::WebKey),
    ("private-lines:", Trigger::Putty),
    ("private-mac:", Trigger::Mac),
    (":5432:", Trigger::PassFile),
    (":*:", Trigger::PassFile),
    ("apiversion", Trigger::Object),
];

pub(super) static TRIGGERS: LazyLock<Vec<Trigger>> = LazyLock::new(|| {
    let others = OTHERS.iter().map(|(_, trigger)| *trigger);
    let shapes = (0..SHAPES.len()).map(Trigger::Shape);
    let commands = commands::WORDS.iter().map(|_| Trigger::Command);
    let calls = (0..CALLS.len()).map(Trigger::Call);
    others.chain(shapes).chain(commands).chain(calls).collect()
});

pub(super) static SEARCH: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let others = OTHERS.iter().map(|(text, _)| *text);
    let shapes = SHAPES.iter().map(|shape| shape.prefix);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(
            others
                .chain(shapes)
                .chain(commands::WORDS.iter().copied())
                .chain(CALLS.iter().map(|(call, _)| *call)),
        )
        .expect("tests build it")
});
