//! Tokens that begin with a prefix of their own.

use crate::work::examined;

/// A token by its prefix, and the characters and the length of the rest.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) prefix: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) alphabet: Alphabet,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

/// Characters of the rest of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    Hex,
    /// Capitals and digits.
    Upper,
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `_`.
    Word,
    /// Letters, digits, `_` and `-`.
    Dashed,
    /// Letters, digits, `_`, `-`, `.`.
    Dotted,
    /// Base64, with `%` for what is encoded in an address.
    Base64,
    /// A path of an address.
    Path,
}

// === impl Alphabet ===

impl Alphabet {
    pub(crate) const COUNT: usize = 8;

    /// The length of the run of these characters at the beginning of a text.
    pub(crate) fn run(self, bytes: &[u8]) -> usize {
        let inside = |byte: &&u8| {
            let more: &[u8] = match self {
                Self::Hex => return byte.is_ascii_hexdigit(),
                Self::Upper => return byte.is_ascii_uppercase() || byte.is_ascii_digit(),
                Self::Alnum => b"",
                Self::Word => b"_",
                Self::Dashed => b"_-",
                Self::Dotted => b"_-.",
                Self::Base64 => b"+/=%_-",
                Self::Path => b"_-/+%=@.",
            };
            byte.is_ascii_alphanumeric() || more.contains(byte)
        };
        let length = bytes.iter().take_while(inside).count();
        examined(length);
        length
    }
}

const ANY: usize = usize::MAX;

const fn shape(
    prefix: &'static str,
    kind: &'static str,
    alphabet: Alphabet,
    min: usize,
    max: usize,
) -> Shape {
    Shape {
        prefix,
        kind,
        alphabet,
        min,
        max,
    }
}

const fn token(prefix: &'static str, alphabet: Alphabet, min: usize) -> Shape {
    shape(prefix, "token", alphabet, min, ANY)
}

use Alphabet::{Alnum, Base64, Dashed, Dotted, Hex, Path, Upper, Word};

/// All shapes, by service.
pub(crate) const SHAPES: &[Shape] = &[
    // AWS
    shape("AKIA", "aws key", Upper, 16, 16),
    shape("ASIA", "aws key", Upper, 16, 16),
    shape("ABIA", "aws key", Upper, 16, 16),
    shape("ACCA", "aws key", Upper, 16, 16),
    shape("ABSK", "aws key", Base64, 80, ANY),
    // Google
    shape("AIza", "google key", Dashed, 35, 40),
    shape("ya29.", "google key", Dotted, 20, ANY),
    shape("GOCSPX-", "google key", Dashed, 20, ANY),
    shape("1//0", "google key", Dashed, 30, ANY),
    shape("GOOG1E", "google key", Upper, 55, 60),
    // Git and registries
    token("ghp_", Alnum, 20),
    token("gho_", Alnum, 20),
    token("ghu_", Alnum, 20),
    token("ghs_", Alnum, 20),
    token("ghr_", Alnum, 20),
    token("github_pat_", Word, 20),
    token("glpat-", Dotted, 16),
    token("gldt-", Dashed, 16),
    token("glrt-", Dotted, 16),
    token("glrtr-", Dotted, 16),
    token("glcbt-", Dashed, 16),
    token("glptt-", Dashed, 16),
    token("glft-", Dashed, 16),
    token("glimt-", Dashed, 16),
    token("glagent-", Dashed, 16),
    token("gloas-", Dashed, 16),
    token("glsoat-", Dashed, 16),
    token("glffct-", Dashed, 16),
    token("glwt-", Dashed, 16),
    token("GR1348941", Dashed, 16),
    token("ATBB", Alnum, 28),
    token("npm_", Alnum, 30),
    token("pypi-", Dashed, 30),
    token("rubygems_", Hex, 40),
    token("cio", Alnum, 32),
    token("oy2", Alnum, 43),
    token("CLOJARS_", Alnum, 40),
    token("dckr_pat_", Dashed, 20),
    token("dckr_oat_", Dashed, 20),
    token("AKCp", Alnum, 60),
    token("cmVmdGtu", Alnum, 40),
    token("squ_", Hex, 40),
    token("sqp_", Hex, 40),
    token("sqa_", Hex, 40),
    token("bkua_", Hex, 40),
    token("CCIPAT_", Word, 40),
    // Chat and mail
    token("xoxa-", Dashed, 10),
    token("xoxb-", Dashed, 10),
    token("xoxc-", Dashed, 10),
    token("xoxd-", Base64, 10),
    token("xoxe-", Dashed, 10),
    token("xoxe.", Dotted, 20),
    token("xoxo-", Dashed, 10),
    token("xoxp-", Dashed, 10),
    token("xoxr-", Dashed, 10),
    token("xoxs-", Dashed, 10),
    token("xapp-", Dashed, 20),
    shape("hooks.slack.com/services/", "webhook", Path, 20, ANY),
    shape("hooks.slack.com/workflows/", "webhook", Path, 20, ANY),
    shape("discord.com/api/webhooks/", "webhook", Path, 30, ANY),
    shape("discordapp.com/api/webhooks/", "webhook", Path, 30, ANY),
    shape("webhook.office.com/webhookb2/", "webhook", Path, 60, ANY),
    token("SG.", Dotted, 40),
    token("key-", Hex, 32),
    token("xkeysib-", Dashed, 40),
    token("xsmtpsib-", Dashed, 40),
    shape("SK", "token", Hex, 32, 32),
    // Money
    token("sk_live_", Alnum, 10),
    token("sk_test_", Alnum, 10),
    token("rk_live_", Alnum, 10),
    token("rk_test_", Alnum, 10),
    token("whsec_", Base64, 20),
    token("EAAA", Dashed, 56),
    token("sq0atp-", Dashed, 20),
    token("sq0csp-", Dashed, 40),
    token("shpat_", Hex, 32),
    token("shpca_", Hex, 32),
    token("shppa_", Hex, 32),
    token("shpss_", Hex, 32),
    token("access_token$production$", Alnum, 20),
    token("access-production-", Dashed, 36),
    token("access-sandbox-", Dashed, 36),
    // Models
    token("sk-", Dashed, 20),
    token("sk_", Hex, 40),
    token("gsk_", Alnum, 30),
    token("hf_", Alnum, 30),
    token("api_org_", Alnum, 30),
    token("r8_", Alnum, 30),
    token("pplx-", Alnum, 40),
    token("xai-", Alnum, 60),
    token("csk-", Alnum, 30),
    token("nvapi-", Dashed, 40),
    token("lsv2_", Word, 40),
    token("pcsk_", Word, 40),
    token("tvly-", Dashed, 24),
    token("fw_", Alnum, 20),
    // Clouds and operations
    token("dop_v1_", Hex, 40),
    token("doo_v1_", Hex, 40),
    token("dor_v1_", Hex, 40),
    token("hvs.", Dashed, 20),
    token("hvb.", Dashed, 20),
    token("hvr.", Dashed, 20),
    shape("s.", "token", Alnum, 24, 24),
    token("b.AAAAAQ", Dashed, 40),
    token("dapi", Hex, 32),
    token("dp.pt.", Dotted, 20),
    token("dp.st.", Dotted, 20),
    token("dp.ct.", Dotted, 20),
    token("dp.sa.", Dotted, 20),
    token("dp.scim.", Dotted, 20),
    token("dp.audit.", Dotted, 20),
    token("glsa_", Word, 20),
    token("glc_", Base64, 30),
    token("eyJrIjoi", Base64, 30),
    token("lin_api_", Alnum, 30),
    token("lin_oauth_", Alnum, 30),
    token("NRAK-", Upper, 20),
    token("NRII-", Dashed, 20),
    token("NRAA-", Alnum, 20),
    token("NRJS-", Alnum, 16),
    token("sntrys_", Base64, 30),
    token("sntryu_", Hex, 40),
    token("pdus+", Dashed, 20),
    token("PMAK-", Dashed, 40),
    token("ATATT3", Base64, 40),
    token("ATCTT3", Base64, 40),
    token("ops_", Base64, 80),
    token("tskey-", Dashed, 16),
    token("pul-", Hex, 40),
    token("sbp_", Hex, 40),
    token("sb_secret_", Dashed, 20),
    token("pscale_tkn_", Dotted, 20),
    token("pscale_pw_", Dotted, 20),
    token("pscale_oauth_", Dotted, 20),
    token("fo1_", Dashed, 30),
    token("fm1r_", Base64, 40),
    token("fm1a_", Base64, 40),
    token("fm2_", Base64, 40),
    token("HRKU-", Dashed, 36),
    token("v1.0-", Dashed, 100),
    token("cfut_", Dashed, 30),
    token("cfat_", Dashed, 30),
    token("figd_", Dashed, 30),
    token("secret_", Alnum, 40),
    token("ntn_", Alnum, 40),
    token("nfp_", Alnum, 30),
    token("rnd_", Alnum, 20),
    token("pat-na1-", Dashed, 30),
    token("pat-eu1-", Dashed, 30),
    token("CFPAT-", Dashed, 40),
    token("sl.", Dashed, 60),
    token("sk.eyJ", Dotted, 40),
    token("pnu_", Alnum, 30),
    token("LTAI", Alnum, 12),
    token("AKID", Alnum, 28),
    token("AQVN", Dashed, 35),
    token("y0_", Dashed, 50),
    token("t1.9eu", Dotted, 60),
    token("ATOA", Dashed, 60),
    token("AAAAAAAAAAAAAAAAAAAAA", Base64, 40),
    token("A3-", Dashed, 30),
    token("sha256~", Dashed, 40),
    token("ory_at_", Dotted, 30),
    token("dt0c01.", Dotted, 60),
    token("rpa_", Alnum, 30),
    token("ak_live_", Alnum, 20),
    token("infisical_", Dashed, 20),
    token("st.prod.", Dotted, 30),
    token("ory_rt_", Dotted, 30),
    token("AzFu", Base64, 40),
    // Keys
    shape("AGE-SECRET-KEY-1", "private key", Upper, 20, ANY),
    shape("AGE-PLUGIN-", "private key", Dashed, 30, ANY),
];
