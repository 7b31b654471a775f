//! Passwords among the arguments of calls, as stack traces and code print them:
//! `mysqli_connect('mysql', 'shop', 'X', 'shop')`.

use std::ops::Range;

use super::{pairs, values, work::examined};

/// Calls, up to and with the bracket, and which of their arguments is the password.
#[rustfmt::skip]
pub(super) const CALLS: &[(&str, usize)] = &[
    ("mysqli_connect(", 2),
    ("mysqli_real_connect(", 3),
    ("mysqli->__construct(", 2),
    ("mysqli->real_connect(", 2),
    ("mysqli->connect(", 2),
    ("new mysqli(", 2),
    ("mysql_connect(", 2),
    ("mysql_pconnect(", 2),
    ("pdo->__construct(", 2),
    ("pdo::__construct(", 2),
    ("pdo::connect(", 2),
    ("new pdo(", 2),
    ("pdoconnection->__construct(", 2),
    ("connector->createconnection(", 2),
    ("oci_connect(", 1),
    ("oci_pconnect(", 1),
    ("odbc_connect(", 2),
    ("db2_connect(", 2),
    ("ibase_connect(", 2),
    ("ftp_login(", 2),
    ("ldap_bind(", 2),
    ("ldap_bind_s(", 1),
    ("simple_bind_s(", 1),
    ("imap_open(", 2),
    ("ssh2_auth_password(", 2),
    ("getconnection(", 2),
    ("redis->auth(", 0),
    ("redis.auth(", 0),
    ("setsaslauthdata(", 1),
    ("httpbasicauth(", 1),
    ("httpdigestauth(", 1),
    ("setbasicauth(", 1),
    ("basicauth(", 1),
    ("basiccredentials(", 1),
    ("usernamepasswordcredentials(", 1),
    ("usernamepasswordauthenticationtoken(", 1),
    ("plainauth(", 2),
    ("plaintextauthprovider(", 1),
    ("plaincredentials(", 1),
    ("networkcredential(", 1),
    ("password_hash(", 0),
    ("password_verify(", 0),
    ("wp_check_password(", 0),
    ("wp_authenticate(", 1),
    ("->attempt(", 1),
    ("->login(", 1),
    (".login(", 1),
    ("->authenticate(", 1),
    (".authenticate(", 1),
    ("hash_hmac(", 2),
    ("openssl_encrypt(", 2),
    ("openssl_decrypt(", 2),
    ("db.auth(", 1),
    ("dbi::connect(", 3),
    ("dbi->connect(", 2),
    ("dbi::db->connect(", 2),
    ("pgp_sym_encrypt(", 1),
    ("pgp_sym_decrypt(", 1),
    ("aes_encrypt(", 1),
    ("aes_decrypt(", 1),
    ("encryptbypassphrase(", 0),
    ("decryptbypassphrase(", 0),
    ("from mysql(", 4),
    ("from postgresql(", 4),
    ("from s3(", 2),
    ("jwt::encode(", 1),
    ("jwt.encode(", 1),
    ("jwt::decode(", 1),
    ("jwt.decode(", 1),
    ("jwt.sign(", 1),
    ("jwt.verify(", 1),
];

/// The arguments are looked at up to here.
const ARGUMENTS_MAX: usize = 400;

/// The argument of this number, of a call whose bracket ends at `from`, if it is a text.
pub(super) fn password(text: &str, from: usize, nth: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let until = bytes.len().min(from + ARGUMENTS_MAX);
    let mut at = from;
    let mut number = 0;
    let mut depth = 0_usize;
    while at < until {
        match bytes[at] {
            b'\\' if !matches!(bytes.get(at + 1), Some(b'"' | b'\'' | b'\\')) => return None,
            quote @ (b'"' | b'\'') => {
                let escapes = bytes[from..at]
                    .iter()
                    .rev()
                    .take_while(|byte| **byte == b'\\')
                    .count();
                let end = pairs::quoted_end(
                    &text[..text.floor_char_boundary(until)],
                    at + 1,
                    quote,
                    escapes,
                );
                if number == nth && depth == 0 {
                    examined(at - from);
                    let given = &text[at + 1..end];
                    let shown = !values::is_placeholder(given) && given.len() > 1;
                    return shown.then_some(at + 1..end);
                }
                at = end + escapes;
            }
            b',' if depth == 0 => {
                number += 1;
                if number > nth {
                    break;
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                let Some(outer) = depth.checked_sub(1) else {
                    break;
                };
                depth = outer;
            }
            _ => {}
        }
        at += 1;
    }
    examined(at.min(until) - from);
    None
}
