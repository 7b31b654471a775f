use super::*;

fn class(name: &str) -> Option<Class> {
    classify(name).map(|name| name.class)
}

#[test]
fn words_decide_what_a_name_stands_for() {
    for (names, expected) in [
        (
            "password PASSWORD dbPassword DB_PASSWORD spring.datasource.password userPwd requirepass \
             bindpw masterauth rootpw pgpassword passphrase --db-pass PASS smtpPass MYSQL_ROOT_PASSWORD \
             password1 passwordHash password_old oldPassword wpa_passphrase",
            Some(Class::Password),
        ),
        (
            "token access_token authToken GITHUB_TOKEN csrfmiddlewaretoken client_secret clientSecret \
             apiKey API_KEY apikey x-api-key AWS_SECRET_ACCESS_KEY secretAccessKey accountKey secret_id \
             SecretID client-key-data_secret APP_KEY SECRET_KEY_BASE privateKey signing-key jwtSecret \
             TOKEN_GITHUB bearer licenseKey oauth2token",
            Some(Class::Secret),
        ),
        (
            "secret tlsSecret existingSecret imagePullSecret",
            Some(Class::Object),
        ),
        (
            "auth tokens credentials X-Amz-Signature sig STRIPE_KEY client-key-data github_pat",
            Some(Class::Weak),
        ),
        ("authorization Proxy-Authorization", Some(Class::Header)),
        ("cookie Set-Cookie", Some(Class::Cookie)),
        (
            "sessionid session_id sid connect.sid JSESSIONID",
            Some(Class::Session),
        ),
        (
            "author authority passed passing compass token_count tokenExpirationSeconds secretName \
             secretKeyRef password_file tokenPath key keys cache_key monkey user name tokenizer \
             secretary passwordless password_length PasswordAuthentication tokenreviews basic \
             keyspace publicKey public_key primary_key access_key_id insider",
            None,
        ),
    ] {
        for name in names.split_whitespace() {
            assert_eq!(class(name), expected, "{name}");
        }
    }
}

#[test]
fn the_lists_of_words_are_sorted() {
    for list in [
        NOT_PASS,
        OBJECTS,
        KEYS_OF_VENDORS,
        CARRIERS,
        DESCRIPTIVE,
        EXTENSIONS,
    ] {
        assert!(list.is_sorted(), "{list:?}");
    }
}
