//! Names of secrets in other languages than English: `Пароль: ...`, `密码为 ...`,
//! `La contraseña del usuario es ...`. Those of ASCII letters are names as any other.

use super::{
    announce::announce,
    context, prose,
    separator::{self, Sep},
    value,
};
use crate::{
    names::{Class, Name},
    scan::Scan,
    state::Pending,
    values,
    work::examined,
};

/// A word for a secret, with the ways in which its first letter is written.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("contraseña", "password"),
    ("contraseÑa", "password"),
    ("пароль", "password"),
    ("Пароль", "password"),
    ("ПАРОЛЬ", "password"),
    ("парола", "password"),
    ("Парола", "password"),
    ("лозинка", "password"),
    ("Лозинка", "password"),
    ("кодовое слово", "password"),
    ("токен", "token"),
    ("Токен", "token"),
    ("ТОКЕН", "token"),
    ("ключ доступа", "token"),
    ("Ключ доступа", "token"),
    ("секретный ключ", "secret"),
    ("Секретный ключ", "secret"),
    ("密码", "password"),
    ("密碼", "password"),
    ("口令", "password"),
    ("密钥", "secret"),
    ("密鑰", "secret"),
    ("秘钥", "secret"),
    ("令牌", "token"),
    ("パスワード", "password"),
    ("パスフレーズ", "password"),
    ("暗証番号", "password"),
    ("トークン", "token"),
    ("シークレット", "secret"),
    ("비밀번호", "password"),
    ("암호", "password"),
    ("토큰", "token"),
    ("hasło", "password"),
    ("hasŁo", "password"),
    ("hasła", "password"),
    ("şifre", "password"),
    ("Şifre", "password"),
    ("ŞİFRE", "password"),
    ("lösenord", "password"),
    ("lÖsenord", "password"),
    ("jelszó", "password"),
    ("jelszÓ", "password"),
    ("κωδικός", "password"),
    ("Κωδικός", "password"),
    ("συνθηματικό", "password"),
    ("mật khẩu", "password"),
    ("รหัสผ่าน", "password"),
    ("كلمة المرور", "password"),
    ("كلمة السر", "password"),
    ("סיסמה", "password"),
    ("סיסמא", "password"),
    ("पासवर्ड", "password"),
    ("گذرواژه", "password"),
    ("رمز عبور", "password"),
    ("slaptažodis", "password"),
    ("parolă", "password"),
    ("clé secrète", "secret"),
    ("clé d'api", "secret"),
    ("clé api", "secret"),
    ("jeton d'accès", "token"),
    ("contrasenya", "password"),
    ("mot de passe", "password"),
    ("kata sandi", "password"),
    ("phrase secrète", "password"),
    ("schlüssel", "secret"),
    ("schlÜssel", "secret"),
];

/// Letters that may follow a word in other cases.
const ENDING_MAX: usize = 24;

/// How far after a word of a language without spaces its value may stand.
const NEAR: usize = 48;

/// Looks at the word of this number that begins at `start` and ends at `end`.
pub(crate) fn at(scan: &mut Scan<'_>, start: usize, end: usize, nth: usize) {
    let text = scan.text;
    let kind = WORDS[nth].1;
    let spaced = !text[start..end]
        .chars()
        .next()
        .is_some_and(is_without_spaces);
    let letter = |one: char| one.is_alphanumeric() || one == '_';
    if spaced
        && text[..start]
            .chars()
            .next_back()
            .is_some_and(char::is_alphabetic)
        && kind != "secret"
    {
        return;
    }
    let near = &text[end..text.floor_char_boundary((end + ENDING_MAX).min(text.len()))];
    let ending = if spaced {
        near.find(|one: char| !letter(one)).unwrap_or(near.len())
    } else {
        0
    };
    examined(ending);
    let end = end + ending;
    let class = if kind == "password" {
        Class::Password
    } else {
        Class::Said
    };
    let name = Name {
        class,
        kind,
        bare_pass: false,
        folder: false,
        foreign: true,
        many: false,
    };
    scan.names_until = scan.names_until.max(end);
    // The space that French puts before a colon does not break.
    let Some(found) = separator::after(text, end) else {
        let said = if spaced {
            prose::value(text, name, end)
        } else {
            close(text, end, kind)
        };
        if let Some(range) = said {
            scan.find(range, kind);
            return;
        }
        match prose::longer(text, name, start, end) {
            Some((found, longer)) if found.at < scan.end => {
                let password = class == Class::Password && longer.class == Class::Said;
                let class = if password {
                    Class::Secret
                } else {
                    longer.class
                };
                let name = Name { class, ..longer };
                let context = context(text, start, &found);
                value::read(scan, name, found.at, &context);
            }
            Some(_) => announce(scan, name, start..end),
            None => {}
        }
        return;
    };
    if found.at >= scan.end {
        let class = Class::Secret;
        scan.next.pending = Some(Pending::Word {
            name: Name { class, ..name },
            lines: 3,
        });
        return;
    }
    if !matches!(found.sep, Sep::Comma | Sep::Tag) {
        let context = context(text, start, &found);
        value::read(scan, name, found.at, &context);
    }
}

/// The first word of ASCII after a word of a language without spaces: `密码为 x`.
fn close(text: &str, end: usize, kind: &str) -> Option<std::ops::Range<usize>> {
    let near =
        &text[end..text.floor_char_boundary((end + NEAR + values::SEEN_MAX).min(text.len()))];
    let near = &near[..prose::text_end(near)];
    let from = near.find(|one: char| one.is_ascii_graphic())?;
    if from > NEAR {
        return None;
    }
    let word = &near[from..];
    let length = word
        .find(|one: char| !one.is_ascii_graphic())
        .unwrap_or(word.len());
    examined(from + length);
    let inner = word[..length].trim_start_matches(['"', '\'', ':', '=', '[', '(']);
    let from = from + length - inner.len();
    let inner = inner.trim_end_matches(['"', '\'', ']', ')', ',', ';', '.', '}']);
    let password = kind == "password" && values::is_secretish(inner) && !values::is_email(inner);
    (password || values::is_strong(inner)).then(|| {
        let start = end + from;
        start..prose::whole_end(text, start + inner.len(), end + near.len())
    })
}

/// Whether a character is one of a language that writes words without spaces.
fn is_without_spaces(one: char) -> bool {
    matches!(one, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}
