//! Where a secret may begin: words of names, prefixes of tokens, markers.

use std::sync::LazyLock;

use super::search::Search;
use crate::{calls::CALLS, commands, finds::MARK, pairs::foreign, paths, tokens::SHAPES};

/// What begins where a trigger was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// A mark, which is left alone.
    Mark,
    /// A word that names of secrets have.
    Name,
    /// A name of one letter less: what is before it separates parameters or words.
    Parameter,
    /// A token with which nodes join a cluster.
    Node,
    /// The word of this number for a secret in another language.
    Foreign(usize),
    /// The part of this number of paths that a secret follows.
    Path(usize),
    /// The password of a query that has a user too.
    Query,
    /// The key of a query.
    QueryKey,
    /// The mark of a password that is not hashed.
    Plain,
    /// A statement that inserts rows.
    Insert,
    /// A statement with the key of an encrypted database.
    DatabaseKey,
    /// A word that a quoted secret follows.
    Quoted,
    /// `.LOGON` of Teradata.
    Logon,
    /// A command that prints a secret.
    Shows,
    /// A server asks for a password in base64.
    Asks,
    /// The same, if nothing follows.
    AsksAtEnd,
    /// A word that names a part of a configuration that has keys.
    Section,
    /// The call of this number among those with a password.
    Call(usize),
    /// The token of this number in the table.
    Shape(usize),
    Url,
    At,
    Slash,
    /// A statement that opens a session.
    Connect,
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
    Adyen,
    /// The algorithm of a key of IPsec.
    Esp,
    /// A password that Terraform has made up.
    RandomPassword,
    /// A private number of a key in XML.
    Number,
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
    ("saml_response", Trigger::Name),
    ("samlassertion", Trigger::Name),
    ("saml_assertion", Trigger::Name),
    ("jwt", Trigger::Name),
    ("pepper", Trigger::Name),
    ("_seed", Trigger::Name),
    ("community_string", Trigger::Name),
    ("kennwort", Trigger::Name),
    ("contrasen", Trigger::Name),
    ("clave", Trigger::Name),
    ("senha", Trigger::Name),
    ("wachtwoord", Trigger::Name),
    ("haslo", Trigger::Name),
    ("heslo", Trigger::Name),
    ("geslo", Trigger::Name),
    ("parola", Trigger::Name),
    ("sifre", Trigger::Name),
    ("adgangskode", Trigger::Name),
    ("salasana", Trigger::Name),
    ("jelszo", Trigger::Name),
    ("lozinka", Trigger::Name),
    ("matkhau", Trigger::Name),
    ("?code=", Trigger::Parameter),
    ("&code=", Trigger::Parameter),
    ("\"code\"", Trigger::Parameter),
    ("'code'", Trigger::Parameter),
    ("_code", Trigger::Name),
    (" code", Trigger::Parameter),
    ("_pin", Trigger::Name),
    ("pin=", Trigger::Name),
    ("pin:", Trigger::Name),
    ("pin\"", Trigger::Name),
    ("code_verifier", Trigger::Name),
    ("sonar.login", Trigger::Name),
    ("K10", Trigger::Node),
    ("sqlldr ", Trigger::Slash),
    ("expdp ", Trigger::Slash),
    ("impdp ", Trigger::Slash),
    ("rman ", Trigger::Slash),
    ("://", Trigger::Url),
    ("@", Trigger::At),
    ("oracle:thin:", Trigger::Slash),
    ("sqlplus ", Trigger::Slash),
    ("connect ", Trigger::Connect),
    ("conn ", Trigger::Connect),
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
    ("{plain}", Trigger::Plain),
    ("{cleartext}", Trigger::Plain),
    ("{clear}", Trigger::Plain),
    (":AA", Trigger::Telegram),
    ("/bot", Trigger::TelegramAddress),
    (".atlasv1.", Trigger::Terraform),
    ("Q~", Trigger::Azure),
    ("NRAL", Trigger::NewRelic),
    ("-us", Trigger::Mailchimp),
    ("AQE", Trigger::Adyen),
    ("rfc4106(gcm(aes)) ", Trigger::Esp),
    ("\"random_password\"", Trigger::RandomPassword),
    ("<d>", Trigger::Number),
    ("<p>", Trigger::Number),
    ("<q>", Trigger::Number),
    ("<dp>", Trigger::Number),
    ("<dq>", Trigger::Number),
    ("<inverseq>", Trigger::Number),
    ("identified", Trigger::Identified),
    ("insert into ", Trigger::Insert),
    ("pragma ", Trigger::DatabaseKey),
    ("attach database ", Trigger::DatabaseKey),
    (".logon ", Trigger::Logon),
    ("convertto-securestring ", Trigger::Quoted),
    (": eap ", Trigger::Quoted),
    (": xauth ", Trigger::Quoted),
    ("&p=", Trigger::Query),
    ("?p=", Trigger::Query),
    ("?key=", Trigger::QueryKey),
    ("&key=", Trigger::QueryKey),
    ("print-access-token", Trigger::Shows),
    ("print-identity-token", Trigger::Shows),
    ("openssl rand", Trigger::Shows),
    ("pwgen", Trigger::Shows),
    ("create token ", Trigger::Shows),
    ("initial-password", Trigger::Shows),
    ("get-login-password", Trigger::Shows),
    ("generate-password", Trigger::Shows),
    ("UGFzc3dvcmQ6", Trigger::Asks),
    ("auth plain", Trigger::AsksAtEnd),
    ("authenticate plain", Trigger::AsksAtEnd),
    ("crypt", Trigger::Section),
    ("signing", Trigger::Section),
    ("hmac", Trigger::Section),
    ("fernet", Trigger::Section),
    ("jwt", Trigger::Section),
    ("[client.", Trigger::Section),
    ("[mon.", Trigger::Section),
    ("[mgr.", Trigger::Section),
    ("[osd.", Trigger::Section),
    ("[mds.", Trigger::Section),
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
    let foreign = (0..foreign::WORDS.len()).map(Trigger::Foreign);
    let paths = (0..paths::PARTS.len()).map(Trigger::Path);
    let all = others.chain(shapes).chain(commands);
    all.chain(calls).chain(foreign).chain(paths).collect()
});

pub(super) static SEARCH: LazyLock<Search> = LazyLock::new(|| {
    let others = OTHERS.iter().map(|(text, _)| *text);
    let shapes = SHAPES.iter().map(|shape| shape.prefix);
    let all = others.chain(shapes).chain(commands::WORDS.iter().copied());
    let all = all
        .chain(CALLS.iter().map(|(call, _)| *call))
        .chain(foreign::WORDS.iter().map(|(word, _)| *word))
        .chain(paths::PARTS.iter().copied());
    // `pw` ends a name; the others begin a token.
    Search::new(all, |word, next| match word {
        "pw" => !next.is_ascii_alphabetic(),
        _ => next.is_ascii_alphanumeric() || matches!(next, b'_' | b'-' | b'.' | b'~'),
    })
});
