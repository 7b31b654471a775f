//! The table of rules, and the one search that finds where a secret may begin.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::{
    key_values,
    pem::{self, EndMarkers},
    rewriter::Rewriter,
    urls,
};

/// The length of a JWT header; a longer run of characters is something else.
const HEADER_MAX: usize = 1024;

/// The memory of the search, for each thread that searches.
const DFA_BYTES: usize = 8 << 20;

/// Finds one kind of secret, or the text before one.
struct Rule {
    /// The kind in the mark.
    kind: &'static str,
    extent: Extent,
    /// Bounded up to the point where a match is certain, so that a search never reads far
    /// ahead in vain. ASCII only, no capturing groups.
    pattern: &'static str,
}

/// Says which part of the text is the secret.
#[derive(Clone, Copy)]
enum Extent {
    /// None: the match is a mark.
    Nothing,
    /// The whole match.
    Match,
    /// The match after its last space, `=` or `/`.
    LastWord,
    KeyBegin,
    KeyEnd,
    LoneKeyLine,
    Jwt,
    Url,
    AuthScheme,
    KeyValue,
}

const RULES: [Rule; 14] = [
    Rule {
        kind: "",
        extent: Extent::Nothing,
        pattern: r"\[redacted[ a-z-]{0,24}\]",
    },
    Rule {
        kind: "private key",
        extent: Extent::KeyBegin,
        pattern: r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    },
    Rule {
        kind: "private key",
        extent: Extent::KeyEnd,
        pattern: r"-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    },
    Rule {
        kind: "private key",
        extent: Extent::LoneKeyLine,
        pattern: r"(?m:^)[A-Za-z0-9+/]{60}[A-Za-z0-9+/=]{0,20}\r?(?m:$)",
    },
    Rule {
        kind: "private key",
        extent: Extent::Match,
        pattern: r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    },
    Rule {
        kind: "jwt",
        extent: Extent::Jwt,
        pattern: r"\beyJ[A-Za-z0-9_-]{9}",
    },
    Rule {
        kind: "aws key",
        extent: Extent::Match,
        pattern: r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}",
    },
    Rule {
        kind: "google key",
        extent: Extent::Match,
        pattern: r"\b(?:AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,})",
    },
    Rule {
        kind: "azure key",
        extent: Extent::LastWord,
        pattern: r"[?&]sig=[A-Za-z0-9%+/=_-]{20,}|8Q~[\w.~-]{31,}",
    },
    Rule {
        kind: "token",
        extent: Extent::Match,
        pattern: concat!(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
            r"|gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[\w-]{16,}",
            r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}",
            r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|rubygems_[0-9a-f]{40,}",
            r"|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}",
            r"|sk-[\w-]{20,}|SG\.[\w-]{16,32}\.[\w-]{16,}|dckr_pat_[\w-]{20,}",
            r"|do[opr]_v1_[0-9a-f]{40,}|hv[sbr]\.[\w-]{20,}|hf_[A-Za-z0-9]{30,}",
            r"|dapi[0-9a-f]{32}|glsa_[A-Za-z0-9]{20,}\w*|glc_[A-Za-z0-9+/=]{30,}",
            r"|lin_api_[A-Za-z0-9]{30,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
            r"|dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,}",
            r"|NRAK-[A-Z0-9]{20,}|PMAK-[0-9a-f]{20,}[\w-]*)",
        ),
    },
    Rule {
        kind: "webhook",
        extent: Extent::LastWord,
        pattern: r"hooks\.slack\.com/services/[\w/-]{20,}|discord(?:app)?\.com/api/webhooks/[\w/-]{30,}",
    },
    Rule {
        kind: "password",
        extent: Extent::Url,
        pattern: r"://",
    },
    Rule {
        kind: "token",
        extent: Extent::AuthScheme,
        pattern: r"(?i:\b(?:bearer|basic)[ \t]{1,4})[A-Za-z0-9._~+/-]{8}[A-Za-z0-9._~+/=-]*",
    },
    Rule {
        kind: "secret",
        extent: Extent::KeyValue,
        pattern: key_values::PATTERN,
    },
];

/// All rules as one pattern; of two that match at the same offset the first one wins.
static ALL: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> = RULES
        .iter()
        .map(|rule| format!("(?:{})", rule.pattern))
        .collect();
    // The states of long counted repetitions need room, or the search falls back to a
    // slower engine.
    RegexBuilder::new(&format!("(?-u){}", groups.join("|")))
        .dfa_size_limit(DFA_BYTES)
        .build()
        .expect("tests compile the table")
});

/// Each rule by itself, to tell which one matched: groups in the large pattern would cost
/// more than all the rest.
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let whole = |rule: &Rule| Regex::new(&format!("(?-u)^(?:{})$", rule.pattern));
    let all: Result<Vec<_>, _> = RULES.iter().map(whole).collect();
    all.expect("tests compile the table")
});

static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(RULES[0].pattern).expect("tests compile the table"));

static KEY_MARKER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-----(BEGIN|END)[A-Z0-9 ]{0,40}PRIVATE KEY").expect("tests compile it")
});

/// Redacts everything that the table finds.
pub(super) fn redact(rewriter: &mut Rewriter<'_>) {
    let text = rewriter.text();
    let mut end_markers = EndMarkers::default();
    let mut no_jwt_until = 0;
    let mut from = 0;
    while let Some(hit) = ALL.find_at(text, from) {
        let rule = EACH.iter().position(|one| one.is_match(hit.as_str()));
        let Some(rule) = rule.map(|nth| &RULES[nth]) else {
            return;
        };
        let (start, end) = (hit.start(), hit.end());
        let secret = match rule.extent {
            Extent::Nothing => None,
            Extent::Match => Some(start..end),
            Extent::LastWord => {
                let cut = hit.as_str().rfind(['=', '/', ' ']).map_or(0, |at| at + 1);
                // A value may itself end with `=`.
                let sig = hit.as_str().find("sig=").map(|at| at + 4);
                Some(start + sig.unwrap_or(cut)..end)
            }
            Extent::KeyBegin => Some(end_markers.key(text, start..end)),
            Extent::KeyEnd => {
                let begin = pem::before_end(text, rewriter.written(), start);
                (begin < start).then_some(begin..end)
            }
            Extent::LoneKeyLine => pem::is_lone_line(hit.as_str()).then_some(start..end),
            Extent::Jwt => jwt(text, start, &mut no_jwt_until).map(|end| start..end),
            Extent::Url => urls::secret(text, end),
            Extent::AuthScheme => key_values::after_scheme(hit.as_str()).map(|at| start + at..end),
            Extent::KeyValue => key_values::value(text, start..end),
        };
        let kind = match rule.extent {
            Extent::KeyValue => key_values::kind(hit.as_str()),
            _ => rule.kind,
        };
        from = match secret {
            Some(range) if rewriter.redact(range.clone(), kind) => range.end,
            // Not a secret; the next one may begin inside the match.
            _ => match rule.extent {
                Extent::Jwt | Extent::LoneKeyLine | Extent::AuthScheme => next_char(text, start),
                _ => end,
            },
        };
    }
}

/// Redacts what a pattern of the operator finds outside of marks.
pub(super) fn redact_custom(pattern: &Regex, rewriter: &mut Rewriter<'_>) {
    let text = rewriter.text();
    let mut marks = MARK.find_iter(text).peekable();
    let mut from = 0;
    while let Some(found) = pattern.captures_at(text, from) {
        let whole = found.get(0).map_or(from..from, |whole| whole.range());
        let range = found.get(1).map_or(whole.clone(), |group| group.range());
        while marks.next_if(|mark| mark.end() <= range.start).is_some() {}
        match marks.peek().map(regex::Match::range) {
            // An earlier mark stays; the search goes on after it.
            Some(mark) if mark.start < range.end => {
                rewriter.redact(range.start..mark.start.max(range.start), "custom");
                from = mark.end;
            }
            _ => {
                rewriter.redact(range, "custom");
                from = whole.end.max(from);
                if whole.is_empty() {
                    from = next_char(text, from);
                }
            }
        }
        if from > text.len() {
            return;
        }
    }
}

/// Whether the last marker of a private key in a text begins one, and whether it ends one.
pub(super) fn key_markers(text: &str) -> (bool, bool) {
    if !text.contains("PRIVATE KEY") {
        return (false, false);
    }
    let last = KEY_MARKER.captures_iter(text).last();
    let last = last.and_then(|found| Some(found.get(1)?.as_str() == "BEGIN"));
    (last == Some(true), last == Some(false))
}

fn next_char(text: &str, at: usize) -> usize {
    let width = text[at.min(text.len())..]
        .chars()
        .next()
        .map_or(1, char::len_utf8);
    at + width
}

/// The end of the JWT that begins at `start`: three parts, or fewer if it was cut off.
fn jwt(text: &str, start: usize, none_until: &mut usize) -> Option<usize> {
    // Headers begin with {"alg": or {"typ":.
    let sure = ["eyJhbGciOi", "eyJ0eXAiOi"];
    let sure = sure.iter().any(|sure| text[start..].starts_with(sure));
    if start < *none_until && !sure {
        return None;
    }
    let part = |from: usize, max: usize| {
        let bytes = &text.as_bytes()[from..];
        let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        from + bytes.iter().take(max).take_while(inside).count()
    };
    let header = part(start, HEADER_MAX);
    if !text[header..].starts_with('.') {
        // A long run is searched once for all the candidates that begin in it.
        *none_until = start + (header - start).div_ceil(2);
        return sure.then_some(header);
    }
    let payload = part(header + 1, usize::MAX);
    if payload < header + 5 {
        return None;
    }
    Some(if text[payload..].starts_with('.') {
        part(payload + 1, usize::MAX)
    } else {
        payload
    })
}
