//! The words of a name, and the lists that they are compared with.

use super::NAME_MAX;

/// Words of a name that are read.
const WORDS_MAX: usize = 12;

/// Words before `key` that make it a secret, whatever it looks like.
#[rustfmt::skip]
pub(super) const KEYS: &[&str] = &[
    "access", "account", "activation", "aes", "api", "apis", "app", "auth", "cipher", "crypt",
    "decryption", "encryption", "enrollment", "hmac", "join", "jwt", "licence", "license", "master",
    "preshared", "private", "psk", "recovery", "rpc", "rsa", "sas", "sdk", "secret", "setup", "shared",
    "signing", "ssh", "storage", "unseal",
];

/// Words before `key` that make it a secret if it looks like one.
#[rustfmt::skip]
pub(super) const KEYS_OF_VENDORS: &[&str] = &[
    "admin", "agent", "algolia", "anthropic", "application", "aws", "azure", "base", "bot", "box",
    "cert", "certificate", "client", "cloudflare", "cluster", "config", "consumer", "cookie",
    "crypto", "csrf", "database", "datadog", "db", "dd", "dek", "deploy", "device", "django", "dsa",
    "ecdsa", "enc", "encrypt", "erlang", "fernet", "field", "flask", "function",
    "functions", "gcp", "github", "gitlab", "google", "gossip", "grafana", "hash", "hashing",
    "host", "ingest", "ingestion", "instrumentation", "integration", "internal", "jose",
    "jwe", "jws", "kek", "kms", "laravel", "mailgun", "maps", "nacl", "newrelic", "node", "oauth",
    "openai", "pagerduty", "passphrase", "paypal", "peer", "pepper", "provisioning", "rails",
    "read", "registration", "root", "routing", "seal", "sealing", "security", "sendgrid", "sentry",
    "serf", "server", "service", "session", "sign", "slack", "sodium", "stripe", "subscription",
    "system", "telegram", "tink", "tls", "twilio", "user", "vapid", "vault", "webhook", "wg",
    "wireguard", "write", "zone",
];

/// Words before `key` with which it is public, or the key of an entry.
#[rustfmt::skip]
pub(super) const KEYS_OF_ENTRIES: &[&str] = &[
    "anon", "cache", "dedup", "event", "foreign", "group", "idempotency", "index", "lock", "lookup",
    "map", "message", "metric", "object", "partition", "primary", "pub", "public", "publishable",
    "range", "registry", "row", "s3", "shard", "site", "sort", "translation", "verify", "websocket",
];

/// Words before `token` with which it says where a list goes on.
pub(super) const CURSORS: &[&str] = &[
    "continuation",
    "continue",
    "cursor",
    "next",
    "page",
    "paging",
    "resume",
    "start",
];

/// Words that end with `pass` and have nothing to do with passwords.
#[rustfmt::skip]
pub(super) const NOT_PASS: &[&str] = &[
    "bypass", "compass", "encompass", "multipass", "overpass", "surpass", "trespass", "underpass",
];

/// Words before `secret` with which it is the name of a Secret as often as a secret.
#[rustfmt::skip]
pub(super) const OBJECTS: &[&str] = &[
    "admin", "auth", "backup", "ca", "cert", "certificate", "config", "credential", "credentials",
    "db", "existing", "external", "from", "generic", "image", "ingress", "kubernetes", "namespace",
    "object", "parent", "passwd", "password", "pull", "ref", "registry", "repository", "s3", "source", "ssl", "target",
    "tls", "v1",
];

/// Words after the word for a secret that do not change its meaning.
#[rustfmt::skip]
pub(super) const CARRIERS: &[&str] = &[
    "arg", "array", "b64", "backup", "base", "base64", "clear", "cleartext", "content", "contents",
    "current", "data", "default", "dev", "dict", "enc", "encoded", "encrypted", "env", "hash", "hashed",
    "header", "initial", "key", "list", "live", "main", "map", "new", "now", "old", "param", "plain", "plaintext",
    "prev", "previous", "primary", "prod", "production", "raw", "secondary", "staging", "str",
    "string", "test", "text", "val", "value",
];

/// Words after the word for a secret that say something about it instead.
#[rustfmt::skip]
pub(super) const DESCRIPTIVE: &[&str] = &[
    "access", "accessor", "age", "alg", "algorithm", "algorithms", "allowed", "any", "arn", "at",
    "attempt", "attempts", "aud", "audience", "audiences", "authentication", "authenticator",
    "authn", "authz", "available", "backend", "backends", "binding", "bucket", "budget", "by",
    "bytes", "ca", "cache", "cached", "cert", "certificate", "change", "changed", "chars", "check",
    "checked", "checksum", "claim", "claims", "class", "cleanup", "client", "column", "columns",
    "command", "complexity", "config", "configmap", "configured", "controller", "count", "counter",
    "created", "date", "deleted", "description", "dir", "directory", "disabled", "domain", "driver",
    "duration", "enabled", "encoder", "encryption", "endpoint", "endpoints", "engine", "error",
    "errors", "event", "events", "exception", "exists", "exp", "expiration", "expire", "expired",
    "expires", "expiry", "failed", "failure", "failures", "field", "fields", "file", "filename",
    "files", "filter", "filters", "fingerprint", "flow", "form", "format", "formats", "found",
    "generated", "generation", "generator", "grace", "group", "groups", "handler", "handlers",
    "hasher", "hashing", "helper", "hint", "history", "hits", "hook", "hooks", "host", "id", "ids",
    "in", "index", "informer", "interceptor", "interval", "is", "iss", "issued", "issuer", "items",
    "keys", "kid", "kind", "label", "labels", "last", "left", "len", "length", "lengths", "level",
    "lifetime", "limit", "limits", "link", "lister", "location", "lookup", "manager", "managers",
    "mandatory", "max", "method", "methods", "middleware", "min", "missing", "mode", "modes",
    "module", "mount", "mounted", "mounts", "name", "names", "namespace", "needed", "not", "of",
    "on", "only", "operator", "optional", "options", "origin", "path", "paths", "per", "percent",
    "plugin", "plugins", "policy", "port", "prefix", "present", "prompt", "provider", "providers",
    "quota", "rate", "ratio", "reader", "ref", "reference", "refresh", "refreshed", "refs", "regex",
    "remaining", "renewed", "request", "requests", "required", "requirements", "reset", "resets",
    "resource", "result", "reuse", "review", "revision", "revoked", "role", "roles", "rotated",
    "rotation", "rule", "rules", "schema", "scheme", "scope", "scopes", "score", "seconds",
    "selector", "service", "set", "settings", "shape", "size", "source", "sources", "state",
    "status", "stdin", "store", "stores", "strategies", "strategy", "strength", "sub", "success",
    "suffix", "support", "supported", "table", "tables", "template", "templates", "timeout",
    "total", "ttl", "type", "types", "unit", "until", "update", "updated", "uri", "uris", "url",
    "urls", "usage", "use", "used", "user", "username", "uses", "valid", "validated", "validation",
    "validator", "validity", "verification", "verified", "verify", "version", "versions", "volume",
    "warning", "webhook", "webhooks", "window",
];

/// The last words of names of files.
#[rustfmt::skip]
pub(super) const EXTENSIONS: &[&str] = &[
    "c", "cc", "conf", "cpp", "crt", "cs", "ex", "go", "h", "html", "jar", "java", "js", "json",
    "jsx", "kt", "lock", "log", "md", "pem", "php", "py", "rb", "rs", "scala", "sh", "sql", "swift",
    "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml",
];

/// Whether a sorted list has a word.
pub(super) fn has(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}

/// A name in lower case and where its words begin and end, without an allocation.
#[derive(Debug)]
pub(super) struct Words {
    lower: [u8; NAME_MAX * 2],
    ranges: [(u8, u8); WORDS_MAX],
    count: usize,
}

// === impl Words ===

impl Words {
    /// Splits at punctuation and spaces, at capitals (`dbPassword`, `APIKey`), and after
    /// digits (`oauth2token`).
    pub(super) fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        // The end of a name says what it is.
        let bytes = &bytes[bytes.len().saturating_sub(NAME_MAX * 2)..];
        let mut words = Self {
            lower: [0; NAME_MAX * 2],
            ranges: [(0, 0); WORDS_MAX],
            count: 0,
        };
        let mut start = 0;
        for (at, byte) in bytes.iter().enumerate() {
            words.lower[at] = if byte.is_ascii() {
                byte.to_ascii_lowercase()
            } else {
                b'?'
            };
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let next_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            let border = before.is_some_and(|before| {
                byte.is_ascii_uppercase()
                    && (before.is_ascii_lowercase() || before.is_ascii_uppercase() && next_lower)
                    || before.is_ascii_digit() && byte.is_ascii_alphabetic()
            });
            if !byte.is_ascii_alphanumeric() {
                words.push(start, at);
                start = at + 1;
            } else if border {
                words.push(start, at);
                start = at;
            }
        }
        words.push(start, bytes.len());
        words
    }

    /// The words, the last ones if there are too many, and their number.
    pub(super) fn all(&self) -> ([&str; WORDS_MAX], usize) {
        let mut all = [""; WORDS_MAX];
        for (word, (start, end)) in all.iter_mut().zip(&self.ranges[..self.count]) {
            let bytes = &self.lower[usize::from(*start)..usize::from(*end)];
            *word = std::str::from_utf8(bytes).unwrap_or_default();
        }
        (all, self.count)
    }

    fn push(&mut self, start: usize, end: usize) {
        let (Ok(start), Ok(end)) = (u8::try_from(start), u8::try_from(end)) else {
            return;
        };
        if start >= end {
            return;
        }
        if self.count == WORDS_MAX {
            self.ranges.rotate_left(1);
            self.count -= 1;
        }
        self.ranges[self.count] = (start, end);
        self.count += 1;
    }
}
