//! Where a secret may begin: one table, one search.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::{
    edits::Edits,
    pairs,
    pem::{self, Ends},
    urls,
};

/// No header of a JWT is longer; a longer run is something else.
const HEADER_MAX: usize = 1024;

/// What the search may keep in memory, for each thread that searches.
const DFA_BYTES: usize = 8 << 20;

/// One kind of secret, or a place where one may begin.
struct Rule {
    /// What the mark says.
    kind: &'static str,
    reach: Reach,
    /// Bounded before it is sure of a match, so that a search never looks far ahead
    /// in vain. Plain ASCII, no capturing groups.
    pattern: &'static str,
}

/// How much of the text is the secret.
#[derive(Clone, Copy)]
enum Reach {
    /// A mark of ours: nothing.
    Nothing,
    /// What the pattern matched.
    Match,
    /// What the pattern matched after its last space, `=` or `/`.
    LastWord,
    KeyBegin,
    KeyEnd,
    LoneKeyLine,
    Jwt,
    Address,
    Scheme,
    Pair,
}

const RULES: [Rule; 14] = [
    Rule {
        kind: "",
        reach: Reach::Nothing,
        pattern: r"\[redacted[ a-z-]{0,24}\]",
    },
    Rule {
        kind: "private key",
        reach: Reach::KeyBegin,
        pattern: r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    },
    Rule {
        kind: "private key",
        reach: Reach::KeyEnd,
        pattern: r"-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    },
    Rule {
        kind: "private key",
        reach: Reach::LoneKeyLine,
        pattern: r"(?m:^)[A-Za-z0-9+/]{60}[A-Za-z0-9+/=]{0,20}\r?(?m:$)",
    },
    Rule {
        kind: "private key",
        reach: Reach::Match,
        pattern: r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    },
    Rule {
        kind: "jwt",
        reach: Reach::Jwt,
        pattern: r"\beyJ[A-Za-z0-9_-]{9}",
    },
    Rule {
        kind: "aws key",
        reach: Reach::Match,
        pattern: r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}",
    },
    Rule {
        kind: "google key",
        reach: Reach::Match,
        pattern: r"\b(?:AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,})",
    },
    Rule {
        kind: "azure key",
        reach: Reach::LastWord,
        pattern: r"[?&]sig=[A-Za-z0-9%+/=_-]{20,}|8Q~[\w.~-]{31,}",
    },
    Rule {
        kind: "token",
        reach: Reach::Match,
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
        reach: Reach::LastWord,
        pattern: r"hooks\.slack\.com/services/[\w/-]{20,}|discord(?:app)?\.com/api/webhooks/[\w/-]{30,}",
    },
    Rule {
        kind: "password",
        reach: Reach::Address,
        pattern: r"://",
    },
    Rule {
        kind: "token",
        reach: Reach::Scheme,
        pattern: r"(?i:\b(?:bearer|basic)[ \t]{1,4})[A-Za-z0-9._~+/-]{8}[A-Za-z0-9._~+/=-]*",
    },
    Rule {
        kind: "secret",
        reach: Reach::Pair,
        pattern: pairs::PATTERN,
    },
];

/// All rules in one; of two that begin at the same place the first one wins.
static ALL: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> = RULES
        .iter()
        .map(|rule| format!("(?:{})", rule.pattern))
        .collect();
    // Room for the states of long counted runs, or the search would fall back to a
    // slower one.
    RegexBuilder::new(&format!("(?-u){}", groups.join("|")))
        .dfa_size_limit(DFA_BYTES)
        .build()
        .expect("tests compile the table")
});

/// Each rule by itself, to tell which one it was: groups in the large pattern would
/// cost more than all the rest.
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let whole = |rule: &Rule| Regex::new(&format!("(?-u)^(?:{})$", rule.pattern));
    let all: Result<Vec<_>, _> = RULES.iter().map(whole).collect();
    all.expect("tests compile the table")
});

static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(RULES[0].pattern).expect("tests compile the table"));

static KEY_BORDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-----(BEGIN|END)[A-Z0-9 ]{0,40}PRIVATE KEY").expect("tests compile it")
});

/// Marks everything that the table finds.
pub(super) fn redact(edits: &mut Edits<'_>) {
    let text = edits.text();
    let mut ends = Ends::default();
    let mut no_jwt_before = 0;
    let mut from = 0;
    while let Some(hit) = ALL.find_at(text, from) {
        let rule = EACH.iter().position(|one| one.is_match(hit.as_str()));
        let Some(rule) = rule.map(|nth| &RULES[nth]) else {
            return;
        };
        let (start, end) = (hit.start(), hit.end());
        let secret = match rule.reach {
            Reach::Nothing => None,
            Reach::Match => Some(start..end),
            Reach::LastWord => {
                let cut = hit.as_str().rfind(['=', '/', ' ']).map_or(0, |at| at + 1);
                // A value may itself end with `=`.
                let sig = hit.as_str().find("sig=").map(|at| at + 4);
                Some(start + sig.unwrap_or(cut)..end)
            }
            Reach::KeyBegin => Some(ends.key(text, start..end)),
            Reach::KeyEnd => {
                let begin = pem::before_end(text, edits.settled(), start);
                (begin < start).then_some(begin..end)
            }
            Reach::LoneKeyLine => pem::is_lone_line(hit.as_str()).then_some(start..end),
            Reach::Jwt => jwt(text, start, &mut no_jwt_before).map(|end| start..end),
            Reach::Address => urls::secret(text, end),
            Reach::Scheme => pairs::after_scheme(hit.as_str()).map(|at| start + at..end),
            Reach::Pair => pairs::value(text, start..end),
        };
        let kind = match rule.reach {
            Reach::Pair => pairs::kind(hit.as_str()),
            _ => rule.kind,
        };
        from = match secret {
            Some(range) if edits.redact(range.clone(), kind) => range.end,
            // Nothing here; the next one may begin inside.
            _ => match rule.reach {
                Reach::Jwt | Reach::LoneKeyLine | Reach::Scheme => next_char(text, start),
                _ => end,
            },
        };
    }
}

/// Marks what a pattern of the operator finds, outside of marks.
pub(super) fn redact_added(pattern: &Regex, edits: &mut Edits<'_>) {
    let text = edits.text();
    let mut marks = MARK.find_iter(text).peekable();
    let mut from = 0;
    while let Some(found) = pattern.captures_at(text, from) {
        let whole = found.get(0).map_or(from..from, |whole| whole.range());
        let range = found.get(1).map_or(whole.clone(), |group| group.range());
        while marks.next_if(|mark| mark.end() <= range.start).is_some() {}
        match marks.peek().map(regex::Match::range) {
            // What was found before stands; what is left of it is looked at again.
            Some(mark) if mark.start < range.end => {
                edits.redact(range.start..mark.start.max(range.start), "custom");
                from = mark.end;
            }
            _ => {
                edits.redact(range, "custom");
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

/// Whether a private key begins and whether one ends in this text.
pub(super) fn key_borders(text: &str) -> (bool, bool) {
    if !text.contains("PRIVATE KEY") {
        return (false, false);
    }
    let last = KEY_BORDER.captures_iter(text).last();
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

/// Where a JWT ends that begins here: three pieces, or fewer when it was cut off.
fn jwt(text: &str, start: usize, none_before: &mut usize) -> Option<usize> {
    // {"alg": and {"typ": are how their headers begin.
    let sure = ["eyJhbGciOi", "eyJ0eXAiOi"];
    let sure = sure.iter().any(|sure| text[start..].starts_with(sure));
    if start < *none_before && !sure {
        return None;
    }
    let piece = |from: usize, max: usize| {
        let bytes = &text.as_bytes()[from..];
        let inside = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        from + bytes.iter().take(max).take_while(inside).count()
    };
    let header = piece(start, HEADER_MAX);
    if !text[header..].starts_with('.') {
        // One look at a long run is enough, for all that begin in it.
        *none_before = start + (header - start).div_ceil(2);
        return sure.then_some(header);
    }
    let payload = piece(header + 1, usize::MAX);
    if payload < header + 5 {
        return None;
    }
    Some(if text[payload..].starts_with('.') {
        piece(payload + 1, usize::MAX)
    } else {
        payload
    })
}
