//! The algorithms of signatures: asymmetric ones only, so that what verifies cannot sign.

use std::{fmt, str::FromStr};

use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, VerificationAlgorithm,
};

/// An algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "names of RFC 7518")]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// No algorithm that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no asymmetric algorithm is called so")]
pub struct UnknownAlgorithm;

/// How a public key of an algorithm is given to `ring`.
pub(crate) enum Verification {
    Rsa(&'static signature::RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

// === impl Algorithm ===

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 9] = [
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::EdDSA,
    ];

    /// Those that are accepted unless others are chosen.
    pub const DEFAULT: [Self; 5] = [
        Self::RS256,
        Self::PS256,
        Self::ES256,
        Self::ES384,
        Self::EdDSA,
    ];

    /// The name in the header of a token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::EdDSA => "EdDSA",
        }
    }

    pub(crate) const fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::RS256 => jsonwebtoken::Algorithm::RS256,
            Self::RS384 => jsonwebtoken::Algorithm::RS384,
            Self::RS512 => jsonwebtoken::Algorithm::RS512,
            Self::PS256 => jsonwebtoken::Algorithm::PS256,
            Self::PS384 => jsonwebtoken::Algorithm::PS384,
            Self::PS512 => jsonwebtoken::Algorithm::PS512,
            Self::ES256 => jsonwebtoken::Algorithm::ES256,
            Self::ES384 => jsonwebtoken::Algorithm::ES384,
            Self::EdDSA => jsonwebtoken::Algorithm::EdDSA,
        }
    }

    /// `ring` refuses RSA keys of fewer than 2048 bits.
    pub(crate) fn verification(self) -> Verification {
        match self {
            Self::RS256 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::RS384 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::RS512 => Verification::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::PS256 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Self::PS384 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Self::PS512 => Verification::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Self::ES256 => Verification::Other(&ECDSA_P256_SHA256_FIXED),
            Self::ES384 => Verification::Other(&ECDSA_P384_SHA384_FIXED),
            Self::EdDSA => Verification::Other(&ED25519),
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let named = Self::ALL.into_iter().find(|one| one.as_str() == text);
        named.ok_or(UnknownAlgorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
