//! Objects as detectors read them: decoded, and redacted before anything else is done.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use kubecrier_incidents::objects::Meta;
use kubecrier_k8s_api::BuiltinKind;
use kubecrier_redact::Redactor;
use serde::Deserialize;

use super::kinds::StoredObject;
use crate::{
    allowed::{ObjectRef, ReadScope},
    identity,
    kind_watch::{ObjectName, WatchedObject},
};

/// The length of one text that is kept of an object.
const TEXT_BYTES_MAX: usize = 4096;

/// An object of a kind that detectors read.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Watched<T>(T);

/// An object of an unexpected form.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NotUnderstood<T> {
    #[serde(default)]
    metadata: Meta,
    #[serde(skip)]
    object: PhantomData<fn() -> T>,
}

/// What is kept of an object.
#[derive(Debug)]
pub(super) enum KeptObject<T> {
    Read(T),
    /// No detector can make anything of it.
    Skipped(ObjectName),
}

fn name(meta: &Meta) -> ObjectName {
    ObjectName {
        namespace: (&*meta.namespace).into(),
        name: (&*meta.name).into(),
    }
}

/// Drops owners that must not be shown. An owner may be called what no object can be.
fn clean_owners(meta: &mut Meta, redactor: &Redactor, scope: &ReadScope) {
    let namespace = Arc::clone(&meta.namespace);
    if scope.hides_some() {
        meta.owner_references.retain(|owner| {
            !scope.hides(ObjectRef {
                api_version: "",
                kind: &owner.kind,
                namespace: &namespace,
                name: &owner.name,
            })
        });
    }
    for owner in &mut meta.owner_references {
        if let Cow::Owned(clean) = identity::name(redactor, &owner.name) {
            owner.name = clean.into();
        }
        if let Cow::Owned(clean) = identity::word(redactor, &owner.kind) {
            owner.kind = clean.into();
        }
    }
}

// === impl Watched ===

impl<T: StoredObject> WatchedObject for Watched<T> {
    type Kind = &'static BuiltinKind;
    type Kept = KeptObject<T>;
    type Fallback = NotUnderstood<T>;

    fn name(&self) -> ObjectName {
        name(self.0.meta())
    }

    fn version(&self) -> &str {
        &self.0.meta().resource_version
    }

    fn keep(
        self,
        _kind: &'static BuiltinKind,
        redactor: &Redactor,
        scope: &ReadScope,
    ) -> KeptObject<T> {
        let Self(mut object) = self;
        if !object.is_needed() {
            return KeptObject::Skipped(name(object.meta()));
        }
        let meta = object.meta_mut();
        // Two objects that differ in nothing else are the same for detectors.
        meta.resource_version = Box::default();
        clean_owners(meta, redactor, scope);
        if scope.hides_logs {
            object.hide_logs();
        }
        for image in object.images() {
            if let Cow::Owned(clean) = identity::image(redactor, image) {
                *image = clean.into();
            }
        }
        for text in object.free_texts() {
            if let Cow::Owned(clean) = identity::bounded(redactor, text, TEXT_BYTES_MAX) {
                *text = clean.into();
            }
        }
        KeptObject::Read(object)
    }
}

// === impl NotUnderstood ===

impl<T: StoredObject> WatchedObject for NotUnderstood<T> {
    type Kind = &'static BuiltinKind;
    type Kept = KeptObject<T>;
    type Fallback = Self;

    fn name(&self) -> ObjectName {
        name(&self.metadata)
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(
        self,
        _kind: &'static BuiltinKind,
        _redactor: &Redactor,
        _scope: &ReadScope,
    ) -> KeptObject<T> {
        KeptObject::Skipped(name(&self.metadata))
    }

    fn is_complete(&self) -> bool {
        false
    }
}
