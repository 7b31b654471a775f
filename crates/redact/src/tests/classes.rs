//! One test for each way in which software says a secret, with what looks alike and is none.

use super::{clean, token};

/// Each text has the secret, and its beginning stays.
#[track_caller]
fn hidden(texts: &[&str], secret: &str) {
    for text in texts {
        assert!(text.contains(secret), "the sample lacks its secret: {text}");
        let clean = clean(text);
        assert!(!clean.contains(secret), "{clean}");
        assert_eq!(clean.get(..4), text.get(..4), "{clean}");
    }
}

#[track_caller]
fn kept(texts: &[&str]) {
    for text in texts {
        assert_eq!(clean(text), *text);
    }
}

#[test]
fn names_in_other_languages_hide_their_value() {
    hidden(
        &[
            "Пароль: swordfish7",
            "Ваш пароль: swordfish7",
            "密码：swordfish7",
            "初始密码为 swordfish7",
            "パスワードは swordfish7 です",
            "관리자 비밀번호는 swordfish7 입니다",
            "La contraseña del usuario root es swordfish7",
            "Das Passwort für den Benutzer »admin« lautet: swordfish7",
            "Mot de passe : swordfish7",
            "A senha do usuário admin é swordfish7",
            "DB_SENHA=swordfish7",
            "{\"contraseña\":\"swordfish7\"}",
            "Hasło administratora to swordfish7",
            "Κωδικός πρόσβασης: swordfish7",
            "mật khẩu: swordfish7",
        ],
        "swordfish7",
    );
    kept(&[
        "Пароль успешно изменён",
        "Пароль: обязательное поле",
        "密码长度至少8位",
        "密码：必填",
        "パスワードは8文字以上です",
        "La contraseña es incorrecta",
        "Passwort: erforderlich",
        "Senha inválida para o usuário kim99",
        "{\"msg\":\"Неверный пароль\",\"ts\":\"2026-01-01T00:00:00Z\"}",
    ]);
}

#[test]
fn sentences_say_a_password_after_their_verb() {
    hidden(
        &[
            "The password for user root is swordfish7",
            "Password of the admin account is: swordfish7",
            "Password for user »admin«: swordfish7",
            "Default login is admin:swordfish7",
            "Setting property 'db.password' to value 'swordfish7'",
        ],
        "swordfish7",
    );
    kept(&[
        "the password for account 12345 is expired",
        "password for kim expires in 14 days",
        "the token for build-1234 is invalid",
        "password reset mail sent to: kim@example.com",
        "Scaled up replica set token-refresher-5b7d9c6f4 to 1",
    ]);
}

#[test]
fn a_value_may_stand_before_its_name() {
    hidden(
        &[
            "invalid value \"swordfish7\" for flag -password",
            "Resolved value [swordfish7] for property: db.password",
            "Setting value 'swordfish7' for key 'db.password'",
            "on field 'password': rejected value [swordfish7]; codes [Size]",
            "{\"loc\":[\"body\",\"password\"],\"input\":\"swordfish7\"}",
            "{\"key\":\"db_password\",\"old\":\"swordfish7\"}",
        ],
        "swordfish7",
    );
}

#[test]
fn what_a_check_of_a_form_says_about_a_field_stays() {
    kept(&[
        "password: This field is required.",
        "password: can't be blank",
        "passwd: password updated successfully",
        r#"{"errors":{"password":["is too short (minimum is 12 characters)"]}}"#,
        r#"{"password":["This password is too common."]}"#,
        "Usage: app --token TOKEN --password PASSWORD",
        "--password=<password>",
    ]);
    // A phrase of words is none of these.
    hidden(
        &["password: correct horse battery"],
        "correct horse battery",
    );
}

#[test]
fn code_and_traces_that_name_secrets_stay() {
    kept(&[
        "#1  0x0000561182334c in decrypt_secret (key=0x7f1182330000, len=32) at src/secret.c:118",
        "verify_token (token=token@entry=0x7ffd1234, key=<optimized out>) at t.c:9",
        "password = Column(String(255), nullable=False)",
        "password varchar(255) NOT NULL,",
        "password => $this->password,",
        "password=lookup('env', 'PW')",
        "\"scopes\": [\"token\", \"secret\", \"read\"]",
        r#""token_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post"]"#,
        "serviceAccountToken expirationSeconds=3607 path=token",
        "Unpacking libsecret-1-0:amd64 (0.20.5-2) ...",
        "continueToken=eyJ2IjoxLCJzIjoiYWJjIn0",
        "nextPageCursor=eyJpZCI6MTE4MjMsImNyZWF0ZWRfYXQiOiIyMDI2LTExLTE2In0",
        "sid=S-1-5-21-1004336348-1177238915-682003330-512",
        "echo \"$DB_PASSWORD\" | base64",
    ]);
}

#[test]
fn values_are_read_in_every_quoting() {
    hidden(
        &[
            "password='it''sfish7'",
            "password='it'\\''sfish7'",
            "password='it'\"'\"'sfish7'",
            "\"a\",\"password=\"\"sfish7\"\"\",\"b\"",
            "Secret: (string) (len=6) \"sfish7x\" password='sfish7'",
            "password: (string) (len=6) \"sfish7\"",
            "'password' => string 'sfish7' (length=6)",
            "s:8:\"password\";s:6:\"sfish7\";",
            "<wsse:Password Type=\"PasswordText\"><![CDATA[sfish7]]></wsse:Password>",
            "command=ALTER+USER+app+PASSWORD+%27sfish7%27&container=x",
            "-> db.password: Str(sfish7)",
            "Password..........: sfish7",
            "PasswordMap:map[string]string{\"redis://10.0.0.1:6379\":\"sfish7\"}",
            "password=Value 'password' of type 'string', value=sfish7, transient=false",
        ],
        "sfish7",
    );
}

#[test]
fn commands_and_protocols_hide_the_password_among_their_words() {
    hidden(
        &[
            "net use Z: \\\\fs01\\share swordfish7 /user:CORP\\svc",
            " .LOGON tdprod/etl_user,swordfish7;",
            "=> A2 LOGIN \"kim@example.com\" \"swordfish7\"",
            "sentinel auth-pass mymaster swordfish7",
            "1763.1 [0 10.0.0.1:1] \"config\" \"set\" \"masterauth\" \"swordfish7\"",
            "ACL SETUSER app on >swordfish7 ~* +@all",
            "+ snmpwalk -v3 -u mon -A swordfish7 10.0.0.1",
            "+ db2 connect to SHOP user db2inst1 using swordfish7",
            "+ lftp -u deploy,swordfish7 ftp.example.com",
            "+ xfreerdp /v:host /u:admin /p:swordfish7",
            " neighbor 10.0.0.254 password swordfish7",
            "enable secret 0 swordfish7",
            "DBI::connect(\"DBI\", \"dbi:mysql:shop\", \"shop\", \"swordfish7\")",
        ],
        "swordfish7",
    );
    kept(&[
        "user kim LOGIN succeeded from 10.0.0.5:1234",
        "net use: drive Z: disconnected",
        "neighbor 10.0.0.1 password configured",
        ".LOGON failed",
    ]);
}

#[test]
fn statements_hide_the_columns_with_the_name_of_a_secret() {
    hidden(
        &[
            "INSERT INTO users (name, password) VALUES ('kim', 'swordfish7')",
            "PRAGMA key = 'swordfish7';",
            "ATTACH DATABASE 'e.db' AS e KEY 'swordfish7';",
            "SELECT pgp_sym_encrypt('data', 'swordfish7')",
        ],
        "swordfish7",
    );
    kept(&[
        "INSERT INTO oauth_access_tokens (id, user_id) VALUES ($1, $2)",
        "PRAGMA foreign_keys = ON;",
    ]);
}

#[test]
fn paths_of_addresses_hide_the_part_that_is_a_secret() {
    let secret = token("", 32);
    for path in [
        "https://chat.example.com/hooks/",
        "https://app.example.com/auth/magic/",
        "https://app.example.com/reset-password/",
        "https://events.pagerduty.com/integration/",
        "https://maker.ifttt.com/trigger/a/with/key/",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=",
        "rtmp://live.twitch.tv/app/",
        "http://influx:8086/write?u=telegraf&p=",
    ] {
        hidden(&[&format!("POST {path}{secret} failed")], &secret);
    }
    kept(&[
        "POST /hooks/deploy-7d4b9c6f5d-x2x8z 200",
        "failed calling webhook \"mutate.example.com\": Post \"https://webhook.svc:443/mutate?timeout=10s\"",
        "https://docs.example.com/hooks/use-effect-reference",
        "GET /products?p=2&sort=price",
    ]);
}

#[test]
fn tables_hide_the_cell_under_or_beside_a_name() {
    hidden(
        &[
            "password             swordfish7",
            " user  | password\n-------+-----------\n kim   | swordfish7",
            "| user | password |\n+------+------+\n| kim  | swordfish7 |",
            "NAME   USER   PASSWORD\npg     app    swordfish7",
            "username,password\nkim,swordfish7",
        ],
        "swordfish7",
    );
    kept(&[
        "db-password         Opaque        1      12d",
        "token               Active",
        "password            required",
        "     Column      | Type\n-----------------+------\n password_hash   | text",
    ]);
}

#[test]
fn the_next_line_may_have_what_a_line_asks_for_or_prints() {
    let secret = token("", 24);
    for before in [
        "Enter password for user admin:\n",
        "$ echo \"$DEPLOY_PASS\"\n",
        "+ printenv API_TOKEN\n",
        "$ openssl rand -hex 32\n",
        "Copy the following enrollment token (valid for 30 minutes):\n  ",
        "  -e POSTGRES_PASSWORD=\\\n",
        "    'crypt' => [\n        'key' => ",
        "[jwt]\nkey = ",
        "token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.\n",
    ] {
        hidden(&[&format!("{before}{secret}")], &secret);
    }
    kept(&[
        "Enter passphrase for key '/srv/.ssh/id_rsa':\n10:00:01",
        "$ echo \"$DEPLOY_PASS\" | docker login --password-stdin\nLogin Succeeded",
        "- name: JWT_SECRET_FILE\n  value: /run/secrets/jwt",
    ]);
}

#[test]
fn a_secret_that_a_line_has_named_is_hidden_where_the_next_ones_repeat_it() {
    let secret = token("", 24);
    hidden(
        &[
            &format!("DB_PASSWORD={secret}\nconnecting as joe with {secret} to pg"),
            &format!("+ TOKEN={secret}\n+ '[' -n {secret} ']'\n+ ./deploy {secret}"),
            &format!("{{\"msg\":\"token={secret}\\nsent {secret}\"}}"),
        ],
        &secret,
    );
    kept(&["status=ready\nready", "token_type=bearer\nbearer of news"]);
    // A word is not looked for, since it is found everywhere.
    assert!(clean("password=postgres\nstarting postgres").ends_with("starting postgres"));
}

#[test]
fn values_of_digits_or_of_letters_are_hidden_after_a_name_that_asks_for_them() {
    hidden(
        &[
            "Admin password generated: 7357666130",
            "    password 7357666130",
            "neighbor 10.0.0.254 password 7357666130",
            "pass: '7357666130'",
            "wifi_psk: \"7357666130\"",
            "Your verification code is 7357666130",
        ],
        "7357666130",
    );
    let letters = "NysgtIfAzxZtrzqo";
    hidden(
        &[
            "use NysgtIfAzxZtrzqo as the password",
            "New root password (save it): NysgtIfAzxZtrzqo",
            "Database__Password    False    NysgtIfAzxZtrzqo",
        ],
        letters,
    );
    kept(&[
        "password changed: 1763276400",
        "pass: 12",
        "status code: 404000",
        "the token was rejected: TokenExpiredError",
        "the password was rejected: JsonWebTokenError",
        "token_use: access",
    ]);
}

#[test]
fn what_asks_in_base64_is_answered_in_the_next_line() {
    let secret = "aHVudGVyMi1zd29yZA==";
    hidden(
        &[
            "S: 334 UGFzc3dvcmQ6\nC: aHVudGVyMi1zd29yZA==",
            "C: a1 AUTHENTICATE PLAIN\nS: +\nC: aHVudGVyMi1zd29yZA==",
        ],
        secret,
    );
    kept(&["S: 250-AUTH PLAIN LOGIN\nC: hello"]);
}

#[test]
fn lines_that_cut_a_jwt_are_hidden_to_its_end() {
    let part = "aB3dE5gH7jK9-N1pQ2rS4_U6vW8xY0zA";
    let lines = format!("Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6\n{part}\n  {part}.{part}\n{part}");
    let shown = clean(&format!("{lines}\nrequest done in 12 ms\nnext-line"));
    assert!(!shown.contains("9-N1"), "{shown}");
    assert!(
        shown.ends_with("\nrequest done in 12 ms\nnext-line"),
        "{shown}"
    );
    let wide = format!("eyJhbGciOiJIUzI1NiJ9\n{}", "ä".repeat(100));
    assert!(
        clean(&wide).ends_with("ää"),
        "a line of other letters is none of it"
    );
    kept(&[
        "cursor=eyJpZCI6MTE4fQ\nrequest-id-7f9c2d1a0b3e",
        "continue: eyJ2IjoxfQ\nhandled 118 rows",
    ]);
}

#[test]
fn commands_that_take_a_passphrase_hide_it() {
    hidden(
        &[
            "ssh-keygen -t ed25519 -N swordfish7 -f id",
            "check_http -a admin:swordfish7 -H web",
            "rootpw --plaintext swordfish7",
            "npx cypress run --record --key swordfish7",
            " : EAP \"swordfish7\"",
        ],
        "swordfish7",
    );
    kept(&[
        "ssh-keygen -t ed25519 -N '' -f /etc/ssh/host_key",
        "ssh-keygen -R git.example.com",
        "check_http -H web -p 8080",
    ]);
}

#[test]
fn objects_and_stores_of_other_languages_hide_their_members() {
    let secret = token("", 40);
    for text in [
        format!("[\"password\":protected]=>\n  string(40) \"{secret}\""),
        format!("[\"token\":\"App\\Config\":private]=>\n  string(40) \"{secret}\""),
        format!(
            "{{\"type\":\"random_password\",\"values\":{{\"length\":40,\"result\":\"{secret}\"}}}}"
        ),
        format!("body: SAMLResponse={secret}&RelayState=x"),
        format!("{{\"grant_type\":\"authorization_code\",\"code\":\"{secret}\"}}"),
        format!("<AdministratorPassword><Value>{secret}</Value></AdministratorPassword>"),
        format!("scan -Dsonar.login={secret} -X"),
    ] {
        hidden(&[&text], &secret);
    }
    hidden(
        &["keys: \"3+ rfc4106(gcm(aes)) 0123456789abcdef0123456789abcdef01234567 128\""],
        "0123456789abcdef0123456789abcdef01234567",
    );
    hidden(
        &["psk_identity=dev1 psk_key=0123456789abcdef0123456789abcdef"],
        "0123456789abcdef0123456789abcdef",
    );
    kept(&[
        "[\"password\":protected]=> NULL",
        "SAML assertion is expired",
        "{\"code\":\"ERR_HTTP2_STREAM_ERROR\",\"errno\":-111}",
        "{\"code\":\"P2002\",\"meta\":{\"target\":[\"email\"]}}",
    ]);
}

#[test]
fn a_port_with_settings_after_it_is_no_password() {
    hidden(
        &["jdbc:sqlserver://mssql:1433;user=sa;password=R9x@Ie5.Db1;encrypt=true"],
        "Ie5.Db1",
    );
    assert!(
        clean("jdbc:sqlserver://mssql:1433;user=sa;password=R9x@Ie5")
            .contains("mssql:1433;user=sa")
    );
    hidden(&["sqlserver://sa:1433x@mssql:1433?database=shop"], "1433x");
}

#[test]
fn digests_titles_and_addresses_of_secrets_stay() {
    let digest = "0123456789abcdef".repeat(4);
    kept(&[
        &format!("checksum/secret: {digest}"),
        "fix(password): trim input",
        "feat(token)!: rotate weekly",
        "error: unexpected token: 'else'",
        "ERR AUTH <password> called without any password configured for the default user",
        "level=info msg=\"authentication mode\" auth=basic tls=true",
        "auth=bearer client=10.0.0.5 path=/api",
        "password: vault:secret/data/db#password",
        "password: op://vault/db/password",
        "password hash algorithm: argon2id",
    ]);
    hidden(&["test(password='swordfish7')"], "swordfish7");
    hidden(&["auth=basic c3dvcmRmaXNoNzp4eA=="], "c3dvcmRmaXNoNzp4eA==");
    hidden(&["password: vault!swordfish7"], "swordfish7");
}

/// The quotes are those behind the last word of the name, wherever its first word ends.
#[test]
fn a_name_of_several_words_is_closed_behind_the_last() {
    for letter in ["m", "מ", "日", "🔑"] {
        let shown = clean(&format!("[\"password {letter}\"]=swordfish-77"));
        assert!(!shown.contains("swordfish-77"), "{shown}");
        clean(&format!("PASSWORD {letter}HVdu]\\\\=WSa"));
    }
}
