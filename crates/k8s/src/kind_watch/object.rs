//! Objects of watched kinds, as they are decoded and as they are kept.

use kubecrier_k8s_api::BuiltinKind;
use kubecrier_redact::Redactor;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

use crate::allowed::ReadScope;

/// A kind whose objects are listed and watched.
pub(crate) trait ListedKind: Copy + Send + Sync + 'static {
    /// Its row in the table of kinds.
    fn resource(self) -> &'static BuiltinKind;
}

/// Names an object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// Empty for objects of the whole cluster.
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

/// An object with the fields that are needed of it. Others are skipped by the decoder and are
/// never in memory.
pub(crate) trait WatchedObject: Clone + DeserializeOwned + Send + Sync + 'static {
    /// How kinds are told from each other.
    type Kind: ListedKind;
    /// What is kept of an object.
    type Kept: Send + 'static;
    /// As much as is decoded of an object of an unexpected form.
    type Fallback: WatchedObject<Kind = Self::Kind, Kept = Self::Kept>;

    fn name(&self) -> ObjectName;

    /// The resourceVersion.
    fn version(&self) -> &str;

    /// What is kept: redacted, and without references to what must not be shown.
    fn keep(self, kind: Self::Kind, redactor: &Redactor, scope: &ReadScope) -> Self::Kept;

    /// Whether everything was decoded.
    fn is_complete(&self) -> bool {
        true
    }
}

/// An object that may have an unexpected form: then only its fallback is decoded, and the
/// other objects of its kind are not affected.
#[derive(Clone, Debug)]
pub(crate) enum Lenient<T: WatchedObject> {
    Full(T),
    Partial(T::Fallback),
}

// === impl ListedKind ===

impl ListedKind for kubecrier_topology::Kind {
    fn resource(self) -> &'static BuiltinKind {
        self.resource()
    }
}

impl ListedKind for &'static BuiltinKind {
    fn resource(self) -> &'static BuiltinKind {
        self
    }
}

// === impl Lenient ===

impl<'de, T: WatchedObject> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(from)?;
        Self::read(&object).map_err(D::Error::custom)
    }
}

impl<T: WatchedObject> Lenient<T> {
    /// Decodes an object, or as much of it as can be.
    pub(super) fn read(object: &RawValue) -> serde_json::Result<Self> {
        // As text: an object is compiled for one decoder only.
        match serde_json::from_str(object.get()) {
            Ok(full) => Ok(Self::Full(full)),
            Err(_other_form) => serde_json::from_str(object.get()).map(Self::Partial),
        }
    }
}

impl<T: WatchedObject> WatchedObject for Lenient<T> {
    type Kind = T::Kind;
    type Kept = T::Kept;
    type Fallback = T::Fallback;

    fn name(&self) -> ObjectName {
        match self {
            Self::Full(object) => object.name(),
            Self::Partial(object) => object.name(),
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Full(object) => object.version(),
            Self::Partial(object) => object.version(),
        }
    }

    fn keep(self, kind: T::Kind, redactor: &Redactor, scope: &ReadScope) -> T::Kept {
        match self {
            Self::Full(object) => object.keep(kind, redactor, scope),
            Self::Partial(object) => object.keep(kind, redactor, scope),
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}
