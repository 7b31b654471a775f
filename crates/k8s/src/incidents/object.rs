//! Objects as detectors read them: decoded, and redacted before anything else is done.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use kubecrier_incidents::{State, objects::Meta};
use kubecrier_k8s_api::BuiltinKind;
use kubecrier_redact::Redactor;
use serde::Deserialize;

use super::kinds::{StoredObject, WatchedKind};
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
pub(super) enum KeptObject {
    Read(Box<dyn ReadObject>),
    /// No detector can make anything of it.
    Skipped(ObjectName),
}

/// An object of any kind that has a place in the state.
pub(super) trait ReadObject: Send {
    fn name(&self) -> ObjectName;

    /// Adds or replaces it; answers whether anything is another.
    fn apply(self: Box<Self>, state: &mut State, kind: &'static BuiltinKind) -> bool;
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

// === impl ReadObject ===

impl<T: StoredObject> ReadObject for T {
    fn name(&self) -> ObjectName {
        name(self.meta())
    }

    fn apply(self: Box<Self>, state: &mut State, kind: &'static BuiltinKind) -> bool {
        StoredObject::apply(*self, state, kind)
    }
}

// === impl Watched ===

impl<T: StoredObject> WatchedObject for Watched<T> {
    type Kind = &'static WatchedKind;
    type Kept = KeptObject;
    type Fallback = NotUnderstood<T>;

    fn name(&self) -> ObjectName {
        name(self.0.meta())
    }

    fn version(&self) -> &str {
        &self.0.meta().resource_version
    }

    fn keep(
        self,
        _kind: &'static WatchedKind,
        redactor: &Redactor,
        scope: &ReadScope,
    ) -> KeptObject {
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
        KeptObject::Read(Box::new(object))
    }
}

// === impl NotUnderstood ===

impl<T: StoredObject> WatchedObject for NotUnderstood<T> {
    type Kind = &'static WatchedKind;
    type Kept = KeptObject;
    type Fallback = Self;

    fn name(&self) -> ObjectName {
        name(&self.metadata)
    }

    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn keep(
        self,
        _kind: &'static WatchedKind,
        _redactor: &Redactor,
        _scope: &ReadScope,
    ) -> KeptObject {
        KeptObject::Skipped(name(&self.metadata))
    }

    fn is_complete(&self) -> bool {
        false
    }
}
