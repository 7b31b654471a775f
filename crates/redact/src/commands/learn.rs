//! How commands take a password.

/// Words that announce a command with a password among its arguments.
#[rustfmt::skip]
pub(crate) const WORDS: &[&str] = &[
    "mysql", "mariadb", "sshpass", "login", "mongo", "redis-cli", "ldap", "sqlcmd", "curl", "wget",
    "smbclient", "7z ", "7za ", "influx ", " -p ", "htpasswd", "from-literal", "rabbitmqctl", "etcdctl", "unseal", "chpasswd",
    "httpie", "smbpasswd", "passwd --stdin", "password-stdin", "openssl", "radtest",
    "wpa_passphrase", "ipmitool", "mosquitto_", "cqlsh", "rclone obscure", "reset-admin-password",
    "set-initial-password", "mc alias set", "config host add", "net user ", "zip -p", "rabbitmqadmin",
    "cypher-shell", "hdbsql", "beeline", "couchbase-cli", "racadm", "certutil", "psexec",
    "evil-winrm", "isql ", "bcp ", "tsql ", "osql ", "vsql ", "kinit ", "kadmin", "slappasswd", "snmp",
    "signtool", "schtasks", "freerdp", "cmdkey", "rar ", "db2 ", "net use ", "lftp ", "ncftp", "setuser",
    "privmsg", "community ", "auth-pass", "user:password", "ejabberdctl", "prosodyctl", " on >",
    "http -a ", "ab -a ", "rpcclient", "winexe", "radius-server", "tacacs-server", "credentials",
    "sp_addlogin", "--auth ", "<<< ", "sudo -s", "put-parameter", "nuget ", "http-basic.", "addauth ",
    "ssh-keygen ", "cypress ", "check_http", "rootpw ",
];

/// Whether a word is what a client of IMAP puts before a command: `A001`.
fn is_tag(word: &str) -> bool {
    word.len() <= 6
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// How a command takes its password.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, and all combinations happen"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// `-pX`
    pub(super) attached: bool,
    /// The flags before a password.
    pub(super) flags: &'static [&'static str],
    /// `/p:X`
    pub(super) slashed: bool,
    /// `-hpX`
    pub(super) archive: bool,
    /// A share of a network, and its password.
    pub(super) share: bool,
    /// `on >X`
    pub(super) acl: bool,
    /// `-u user,X`
    pub(super) comma: bool,
    /// `vault login X`
    pub(super) vault: bool,
    /// A sentence says with what to log in.
    pub(super) said: bool,
    /// `-u user:X`
    pub(super) user: bool,
    /// `-U user%X`
    pub(super) percent: bool,
    /// Any literal of a Secret that is made.
    pub(super) literal: bool,
    /// The password is the argument of this number from here, without flags.
    pub(super) positional: Option<u8>,
    /// The password comes from the standard input.
    pub(super) input: bool,
    /// `-passin pass:X`
    pub(super) openssl: bool,
    /// `mysqladmin password X`
    pub(super) admin: bool,
    /// A user is given: `-p X` may be the password.
    pub(super) given_user: bool,
}

/// What the arguments after a word are.
pub(super) fn learn(style: &mut Style, word: &str, before: Option<&str>) {
    let command = word.rsplit('/').next().unwrap_or(word);
    style.admin |= matches!(command, "mysqladmin" | "mariadb-admin");
    style.given_user |= matches!(word, "-u" | "-U" | "--user" | "--username" | "--login");
    match command {
        "mysql" | "mysqldump" | "mysqladmin" | "mariadb" | "mariadb-dump" | "mariadb-admin"
        | "mysqlsh" | "mysqlimport" | "mysqlpump" | "7z" | "7za" => style.attached = true,
        "sshpass" => {
            style.attached = true;
            style.flags = &["-p"];
        }
        "login"
            if matches!(
                before,
                Some(
                    "docker"
                        | "podman"
                        | "nerdctl"
                        | "registry"
                        | "oc"
                        | "az"
                        | "cf"
                        | "crane"
                        | "skopeo"
                        | "auth"
                        | "argocd"
                        | "buildah"
                        | "oras"
                        | "regctl"
                        | "ibmcloud"
                )
            ) =>
        {
            style.flags = &["-p"];
        }
        "mongo" | "mongosh" | "mongodump" | "mongorestore" | "mongoexport" | "mongoimport" => {
            style.flags = &["-p"];
        }
        "cypher-shell" | "hdbsql" | "beeline" | "couchbase-cli" | "cbq" | "racadm" | "certutil"
        | "psexec" | "evil-winrm" => style.flags = &["-p"],
        "sqlcmd" | "isql" | "bcp" | "tsql" | "osql" | "freebcp" => style.flags = &["-P"],
        "vsql" | "kadmin" | "kadmin.local" => style.flags = &["-w"],
        "rootpw" => style.positional = Some(1),
        "cypress" => style.flags = &["--key", "-k"],
        "ssh-keygen" => style.flags = &["-N", "-P"],
        "slappasswd" => style.flags = &["-s"],
        "ldappasswd" => style.flags = &["-w", "-s"],
        "snmpwalk" | "snmpget" | "snmpset" | "snmpbulkwalk" | "snmptrap" => {
            style.flags = &["-A", "-X", "-c"];
        }
        "signtool" | "schtasks" => style.flags = &["/p", "/rp", "/P", "/RP"],
        "xfreerdp" | "cmdkey" | "wfreerdp" | "mstsc" => style.slashed = true,
        "rar" | "unrar" => style.archive = true,
        "db2" => style.flags = &["using", "USING"],
        "use" if before == Some("net") => style.share = true,
        "lftp" | "ncftp" => style.comma = true,
        "SETUSER" | "setuser" => style.acl = true,
        "vault" => style.vault = true,
        "-S" if before == Some("sudo") => style.input = true,
        "kinit" => {
            style.flags = &["-w"];
            style.input = true;
        }
        "<<<" => style.flags = &["<<<"],
        "put-parameter" => style.flags = &["--value"],
        "nuget" => style.flags = &["-p", "-Password"],
        _ if word.starts_with("http-basic.") => style.positional = Some(2),
        "LOGIN" if before.is_some_and(is_tag) => style.positional = Some(2),
        "IDENTIFY" | ":IDENTIFY" => style.flags = &["IDENTIFY", ":IDENTIFY"],
        "community" if before == Some("snmp-server") => style.flags = &["community"],
        "rocommunity" => style.flags = &["rocommunity"],
        "rwcommunity" => style.flags = &["rwcommunity"],
        "key"
            if before.is_some_and(|before| {
                before.ends_with("-server")
                    || before
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || byte == b'.')
            }) =>
        {
            style.flags = &["key"];
        }
        "auth-pass" | "user:password" | "upwd" | "sp_addlogin" => style.positional = Some(2),
        "register" if before.is_some_and(|before| before.ends_with("ctl")) => {
            style.positional = Some(3);
        }
        "-b" if before == Some("mosquitto_passwd") => style.positional = Some(3),
        "http" | "https" | "check_http" | "ab" | "siege" | "wrk" | "etcdctl" | "httpie"
        | "addauth" => {
            style.user = true;
        }
        "redis-cli" => style.flags = &["-a"],
        "influx" => style.flags = &["-p", "-t"],
        "smbclient" | "rpcclient" | "winexe" | "smbmap" | "wmic" => style.percent = true,
        "add_user" | "change_password" | "change_user_password" | "authenticate_user"
            if before == Some("rabbitmqctl") =>
        {
            style.positional = Some(2);
        }
        "htpasswd" | "mosquitto_passwd" => style.flags = &[],
        _ if before.is_some_and(|before| before.ends_with("htpasswd"))
            && word.starts_with('-')
            && !word.starts_with("--") =>
        {
            if word.contains('b') {
                style.positional = Some(if word.contains('n') { 2 } else { 3 });
            }
            style.input |= word.contains('i');
        }
        "smbpasswd" | "chpasswd" | "--stdin" | "--password-stdin" => style.input = true,
        "password"
            if style.admin
                || before.is_some_and(|before| before.starts_with('-')) && style.attached =>
        {
            style.positional = Some(1);
        }
        "radtest" | "wpa_passphrase" => style.positional = Some(2),
        "obscure" if before == Some("rclone") => style.positional = Some(1),
        "reset-admin-password" | "set-initial-password" => style.positional = Some(1),
        "set" if before == Some("alias") => style.positional = Some(4),
        "add" if before == Some("host") => style.positional = Some(4),
        "user" if before == Some("net") => style.positional = Some(2),
        "with" | "is" | "as" | "login:" | "Credentials:" | "credentials:" | "Login" | "login"
        | "credentials" => style.said = true,
        "ipmitool" | "mosquitto_pub" | "mosquitto_sub" | "zip" | "unzip" => {
            style.flags = &["-P"];
        }
        "cqlsh" | "rabbitmqadmin" => style.flags = &["-p"],
        "openssl" => {
            style.openssl = true;
            style.flags = &["-k", "-K", "-hmac"];
        }
        "curl" | "wget" => {
            style.user = true;
            style.flags = &["--oauth2-bearer"];
        }
        _ if command.starts_with("ldap") => style.flags = &["-w"],
        _ if word.starts_with("--from-literal") => style.literal = true,
        "secret" if before == Some("create") => style.literal = true,
        _ => {}
    }
}
