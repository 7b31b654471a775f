//! Decides by the words of a name whether its value is a secret: `dbPassword`,
//! `AWS_SECRET_ACCESS_KEY`, `spring.datasource.password`, `x-api-key`.
//!
//! A name is split into words, and read from its end. The last word that stands for a
//! secret decides the class; the words after it may take that back (`token_count`,
//! `secretName`), or say nothing (`TOKEN_VALUE`).

mod words;

use self::words::{
    CARRIERS, CURSORS, DESCRIPTIVE, EXTENSIONS, KEYS, KEYS_OF_ENTRIES, KEYS_OF_VENDORS, NOT_PASS,
    OBJECTS, Words, has,
};

/// What the value of a name has to look like to be taken for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Like anything but a placeholder.
    Password,
    /// Like anything but a placeholder, a count, a date, an address or a word of prose.
    Secret,
    /// The same, unless it can be the name of an object of Kubernetes: the value of `secret`
    /// is the one or the other.
    Object,
    /// Like something that nobody would write by hand.
    Weak,
    /// A word of a sentence that can be nothing but a secret.
    Said,
    /// The header `Authorization`: a scheme and what follows it.
    Header,
    /// Cookies: pairs of names and values.
    Cookie,
    /// Like a key of a cipher: long, and of all the characters of base64.
    Opaque,
    /// A number that is typed in, or a list of such codes.
    Code,
    /// The identifier of a session: long, and not that of a trace.
    Session,
}

/// A name whose value may be a secret.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) class: Class,
    /// The kind in the mark.
    pub(super) kind: &'static str,
    /// The name is `pass`, which is also an outcome of tests.
    pub(super) bare_pass: bool,
    /// The name is `pwd`, which is also the working directory.
    pub(super) folder: bool,
    /// The name is not English, and its values are not told from words.
    pub(super) foreign: bool,
    /// The name is that of a list or a map, and each of its values is one.
    pub(super) many: bool,
}

/// The longest name that is read.
pub(super) const NAME_MAX: usize = 64;

#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "password", "passwd", "passphrase", "passcode", "pwd", "psw", "masterauth", "pword",
];

/// Words for a password in other languages, of ASCII letters.
#[rustfmt::skip]
const FOREIGN: &[&str] = &[
    "adgangskode", "clave", "contrasena", "contrasenia", "contrasenya", "geslo", "haslo", "heslo",
    "jelszo", "kennwort", "lozinka", "matkhau", "motdepasse", "parola", "passord", "passwort",
    "salasana", "senha", "sifre", "wachtwoord",
];

/// Words before `code` that make it a secret if it looks like one.
const CODES: &[&str] = &["auth", "authorization", "device"];

/// Words before `code` that make it a secret of digits.
#[rustfmt::skip]
const DIGITS: &[&str] = &[
    "access", "alarm", "arm", "backup", "disarm", "door", "gate", "lock", "login", "mfa", "pairing",
    "pass", "pin", "recovery", "rescue", "scratch", "security", "sms", "time", "totp", "unlock",
    "verification",
];

/// What the value of a name may be; `None` if it is no secret.
pub(super) fn classify(name: &str) -> Option<Name> {
    let words = Words::of(name);
    let (all, count) = words.all();
    let all = &all[..count];
    for nth in (0..all.len()).rev() {
        let Some(head) = head(all, nth) else {
            continue;
        };
        let after = match &all[nth + 1..] {
            // The content of a file is what the file holds.
            ["file", content @ ..] if content.first().is_some_and(|word| has(CARRIERS, word)) => {
                content
            }
            after => after,
        };
        return follow(head, all, after);
    }
    None
}

/// What a word stands for, with the words before it.
fn head(all: &[&str], nth: usize) -> Option<Name> {
    let word = all[nth].trim_end_matches(|one: char| one.is_ascii_digit());
    let before = nth.checked_sub(1).map(|at| all[at]);
    let name = |class, kind| {
        Some(Name {
            class,
            kind,
            bare_pass: false,
            folder: false,
            foreign: false,
            many: false,
        })
    };
    let ends = |stem: &str| word.ends_with(stem);
    // A list or a map of them.
    let word = match word {
        "passwords" | "passphrases" | "passcodes" => {
            let many = true;
            return name(Class::Secret, "password").map(|name| Name { many, ..name });
        }
        "passwordsalt" => return name(Class::Weak, "secret"),
        _ => word,
    };
    if PASSWORDS.iter().any(|stem| ends(stem)) {
        return Some(Name {
            class: Class::Password,
            kind: "password",
            bare_pass: false,
            folder: ends("pwd"),
            foreign: false,
            many: false,
        });
    }
    let french = word == "passe" && before == Some("de");
    if FOREIGN.contains(&word) || french {
        return Some(Name {
            class: Class::Password,
            kind: "password",
            bare_pass: false,
            folder: false,
            foreign: true,
            many: false,
        });
    }
    if word == "authtok" {
        return name(Class::Password, "password");
    }
    if ends("pass") && !has(NOT_PASS, word) || ends("pw") && word.len() <= 8 {
        return Some(Name {
            class: Class::Password,
            kind: "password",
            bare_pass: word == "pass",
            folder: false,
            foreign: false,
            many: false,
        });
    }
    // One word of two: apikey, secretaccesskey.
    if let Some(stem) = word.strip_suffix("key").or(word.strip_suffix("keys")) {
        if let ["file", content, ..] = &all[nth + 1..]
            && has(CARRIERS, content)
        {
            return name(Class::Weak, "secret");
        }
        let qualifier = if stem.is_empty() { before? } else { stem };
        if all[..nth].ends_with(&["logged", "in"]) || qualifier == "nonce" {
            return name(Class::Secret, "secret");
        }
        let any = |list: &[&str]| list.iter().any(|one| qualifier.ends_with(one));
        let plural = word.ends_with('s');
        // `active_record_encryption.primary_key`
        let ciphers = |word: &&str| matches!(*word, "encryption" | "crypt" | "cipher" | "hmac");
        if all[..nth].iter().any(ciphers) && !plural && qualifier != "public" {
            return name(Class::Secret, "secret");
        }
        return match () {
            () if any(KEYS) && !plural => name(Class::Secret, "secret"),
            () if any(KEYS) => name(Class::Weak, "secret"),
            () if has(KEYS_OF_VENDORS, qualifier) && !plural => name(Class::Weak, "secret"),
            // A key of its own word: a monkey is none.
            () if stem.is_empty() && !has(KEYS_OF_ENTRIES, qualifier) && !plural => {
                name(Class::Opaque, "secret")
            }
            () => None,
        };
    }
    match word {
        "secret" => {
            let object = before.is_none_or(|before| has(OBJECTS, before));
            let class = if object { Class::Object } else { Class::Secret };
            name(class, "secret")
        }
        // What directories call the password of an account.
        "credential" | "credentials"
            if matches!(before, Some("bind" | "ldap" | "login" | "security")) =>
        {
            name(Class::Password, "secret")
        }
        "auth" | "credential" | "credentials" | "cred" | "creds" | "salt" | "pepper"
        | "secrets" => name(Class::Weak, "secret"),
        "tokens" | "pat" | "sig" | "signature" | "samlresponse" | "pats" => {
            name(Class::Weak, "token")
        }
        "login" if before.is_some_and(|before| before.ends_with("sonar")) => {
            name(Class::Weak, "token")
        }
        "response" | "assertion" if before == Some("saml") => name(Class::Weak, "token"),
        "seed" if matches!(before, Some("totp" | "otp" | "mfa" | "wallet" | "master")) => {
            name(Class::Secret, "secret")
        }
        "string" if before == Some("community") => name(Class::Secret, "secret"),
        "mnemonic" | "accountkey" | "setcookie" => name(Class::Secret, "secret"),
        "phrase" if matches!(before, Some("seed" | "recovery" | "mnemonic" | "secret")) => {
            name(Class::Password, "secret")
        }
        "authorization" => name(Class::Header, "token"),
        "bearer" | "jwt" => name(Class::Secret, "token"),
        "cookie" if matches!(before, Some("erlang" | "magic" | "distribution")) => {
            name(Class::Secret, "secret")
        }
        "code" if before.is_some_and(|before| has(CODES, before)) => name(Class::Weak, "token"),
        "codes" if matches!(before, Some("recovery" | "backup" | "scratch" | "rescue")) => {
            name(Class::Code, "token")
        }
        "code" if before.is_some_and(|before| has(DIGITS, before)) => name(Class::Code, "token"),
        "pin" | "otp" | "totp" => name(Class::Code, "token"),
        "code" if all.len() == 1 => name(Class::Session, "token"),
        "verifier" if before == Some("code") => name(Class::Weak, "token"),
        "cookie" => name(Class::Cookie, "token"),
        "cookies" => name(Class::Weak, "token"),
        "session" | "sessionid" | "sid" | "phpsessid" | "jsessionid" | "sessid"
        | "sessiontoken" => name(Class::Session, "token"),
        "id" if matches!(before, Some("session" | "sess")) => name(Class::Session, "token"),
        "id" if before == Some("secret") => name(Class::Secret, "secret"),
        _ if ends("psk") => name(Class::Password, "secret"),
        _ if ends("secret") => name(Class::Secret, "secret"),
        // Where a list goes on.
        "token" if before.is_some_and(|before| has(CURSORS, before)) => None,
        "nexttoken" | "pagetoken" | "nextpagetoken" | "continuetoken" => None,
        _ if ends("token") => name(Class::Secret, "token"),
        // secretvalue, tokendata
        _ => ["secret", "token"].into_iter().find_map(|stem| {
            let rest = word.strip_prefix(stem)?;
            let carrier = has(CARRIERS, rest);
            carrier.then(|| name(Class::Secret, "secret")).flatten()
        }),
    }
}

/// Whether the last word of a name is the one for a secret, or says that it holds it.
pub(super) fn is_whole(name: &str) -> bool {
    let words = Words::of(name);
    let (all, count) = words.all();
    let last = (0..count)
        .rev()
        .find(|nth| !has(CARRIERS, all[*nth]) || all[*nth] == "key");
    last.is_some_and(|nth| head(&all[..count], nth).is_some())
}

/// Whether the last word of a name says something about a value instead of naming it.
pub(super) fn describes(name: &str) -> bool {
    let words = Words::of(name);
    let (all, count) = words.all();
    all[..count].last().is_some_and(|last| {
        has(DESCRIPTIVE, last) || matches!(*last, "key" | "from" | "env" | "note" | "hint")
    })
}

/// Whether a name says that it holds the value of what is around it: `value`,
/// `inline_string`, `plainText`.
pub(super) fn carries(name: &str) -> bool {
    let words = Words::of(name);
    let (all, count) = words.all();
    let last = all[..count].last().copied().unwrap_or_default();
    has(CARRIERS, last) && !matches!(last, "key" | "header" | "env" | "param" | "arg")
        || matches!(last, "inline" | "literal" | "list" | "secret")
        || last == "bytes" && all[..count].contains(&"inline")
}

/// What is left of a name's meaning after the words that follow.
fn follow(head: Name, all: &[&str], after: &[&str]) -> Option<Name> {
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let plain = |word: &&str| has(CARRIERS, word) || digits(word);
    // The key of an entry that holds it: `adminPasswordKey: postgres-password`.
    if head.class == Class::Password && after.contains(&"key") {
        return None;
    }
    if after.iter().all(plain) {
        let lists = |word: &&str| matches!(*word, "map" | "list" | "dict" | "array");
        return Some(Name {
            many: head.many || after.iter().any(lists),
            bare_pass: head.bare_pass && all.len() == 1,
            ..head
        });
    }
    if after.iter().any(|word| has(DESCRIPTIVE, word)) {
        return None;
    }
    // Extensions say what a file is.
    if after.last().is_some_and(|word| has(EXTENSIONS, word)) {
        return None;
    }
    if head.class == Class::Code {
        return None;
    }
    // Words that say nothing known: the value decides.
    let class = match head.class {
        Class::Password if !head.bare_pass && head.kind == "password" => Class::Secret,
        Class::Secret => Class::Secret,
        Class::Object
        | Class::Weak
        | Class::Said
        | Class::Opaque
        | Class::Session
        | Class::Code
        | Class::Password
        | Class::Header
        | Class::Cookie => Class::Weak,
    };
    Some(Name {
        class,
        bare_pass: false,
        ..head
    })
}

#[cfg(test)]
mod tests;
