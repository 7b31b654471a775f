//! How the objects of one kind are decoded. It is the only part of a watch that is compiled
//! for every kind: everything that waits is compiled once for all kinds whose objects are kept
//! as the same type.

use kube::core::Status;
use kubecrier_redact::Redactor;
use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;

use super::{
    object::{Lenient, ObjectName, WatchedObject},
    watch_line::WatchLine,
};
use crate::allowed::ReadScope;

/// Decodes the objects of one kind, of which a `P` is kept.
pub(crate) struct Decoder<K, P> {
    strict: StrictFns<K, P>,
    lenient: ObjectFn<K, P>,
}

/// One way to decode.
pub(super) enum Decoding<K, P> {
    /// A page or a line at once.
    Strict(StrictFns<K, P>),
    /// Each object by itself, for kinds that have objects of an unexpected form. That is slower;
    /// pages and lines around the objects are compiled once for all kinds.
    Lenient(ObjectFn<K, P>),
}

pub(super) struct StrictFns<K, P> {
    page: PageFn<K, P>,
    event: EventFn<K, P>,
}

type PageFn<K, P> = for<'a> fn(&[u8], Keep<'a, K>) -> serde_json::Result<DecodedPage<'a, P>>;

type EventFn<K, P> = fn(&str, Keep<'_, K>) -> serde_json::Result<DecodedEvent<P>>;

type ObjectFn<K, P> =
    for<'a> fn(&RawValue, Keep<'a, K>) -> serde_json::Result<Box<dyn Found<P> + Send + 'a>>;

/// An object that was decoded by itself.
pub(super) trait Found<P> {
    fn name(&self) -> ObjectName;

    fn version(&self) -> &str;

    fn kept(self: Box<Self>) -> DecodedObject<P>;
}

/// What is found, and what decides about it.
struct FoundObject<'a, T: WatchedObject>(Lenient<T>, Keep<'a, T::Kind>);

/// What decides what is kept of an object.
#[derive(Clone, Copy)]
pub(super) struct Keep<'a, K> {
    pub(super) kind: K,
    pub(super) redactor: &'a Redactor,
    pub(super) scope: &'a ReadScope,
}

/// A page of a list.
pub(super) struct DecodedPage<'a, P> {
    pub(super) metadata: ListMeta,
    /// What is kept is made by the iterator: that takes longer than to decode the page.
    pub(super) objects: Box<dyn Iterator<Item = DecodedObject<P>> + Send + 'a>,
}

/// What is kept of an object.
pub(super) struct DecodedObject<P> {
    pub(super) kept: P,
    /// Its name, if not everything was understood.
    pub(super) partial: Option<ObjectName>,
}

/// A line of a watch.
pub(super) enum DecodedEvent<P> {
    /// With its resourceVersion.
    Applied(DecodedObject<P>, String),
    Deleted(ObjectName, String),
    Bookmark(String),
    Error(Box<Status>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct ListResponse<T> {
    metadata: ListMeta,
    #[serde(default)]
    items: Option<Vec<T>>,
}

// === impl Decoder ===

impl<K, P> Decoder<K, P> {
    /// Decodes objects as `T`.
    pub(crate) const fn of<T: WatchedObject<Kind = K, Kept = P>>() -> Self {
        Self {
            strict: StrictFns {
                page: page::<T>,
                event: event::<T>,
            },
            lenient: object::<T>,
        }
    }

    pub(super) const fn decoding(&self, lenient: bool) -> Decoding<K, P> {
        if lenient {
            Decoding::Lenient(self.lenient)
        } else {
            Decoding::Strict(self.strict)
        }
    }
}

// By hand: a derived one would ask the same of what is decoded.
impl<K, P> Clone for Decoder<K, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, P> Copy for Decoder<K, P> {}

// === impl Decoding ===

impl<K: Copy + Send, P> Decoding<K, P> {
    /// Decodes a page of a list.
    pub(super) fn page<'a>(
        &self,
        bytes: &[u8],
        keep: Keep<'a, K>,
    ) -> serde_json::Result<DecodedPage<'a, P>>
    where
        P: 'a,
    {
        let object = match self {
            Self::Strict(fns) => return (fns.page)(bytes, keep),
            Self::Lenient(object) => object,
        };
        let response: ListResponse<Box<RawValue>> = serde_json::from_slice(bytes)?;
        let objects = response.items.into_iter().flatten();
        let objects: Vec<_> = objects
            .map(|text| object(&text, keep))
            .collect::<serde_json::Result<_>>()?;
        Ok(DecodedPage {
            metadata: response.metadata,
            objects: Box::new(objects.into_iter().map(Found::kept)),
        })
    }

    /// Decodes a line of a watch.
    pub(super) fn event(
        &self,
        line: &str,
        keep: Keep<'_, K>,
    ) -> serde_json::Result<DecodedEvent<P>> {
        let object = match self {
            Self::Strict(fns) => return (fns.event)(line, keep),
            Self::Lenient(object) => object,
        };
        Ok(
            match serde_json::from_str::<WatchLine<Box<RawValue>>>(line)? {
                WatchLine::Applied(text) => {
                    let found = object(&text, keep)?;
                    let version = found.version().to_owned();
                    DecodedEvent::Applied(found.kept(), version)
                }
                WatchLine::Deleted(text) => {
                    let found = object(&text, keep)?;
                    DecodedEvent::Deleted(found.name(), found.version().to_owned())
                }
                WatchLine::Bookmark(mark) => DecodedEvent::Bookmark(mark.metadata.resource_version),
                WatchLine::Error(status) => DecodedEvent::Error(status),
            },
        )
    }
}

// === impl StrictFns ===

impl<K, P> Clone for StrictFns<K, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, P> Copy for StrictFns<K, P> {}

// === impl FoundObject ===

impl<T: WatchedObject> Found<T::Kept> for FoundObject<'_, T> {
    fn name(&self) -> ObjectName {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    fn kept(self: Box<Self>) -> DecodedObject<T::Kept> {
        let Self(object, keep) = *self;
        kept(object, keep)
    }
}

/// The version of a list, whatever it is a list of.
pub(super) fn version(bytes: &[u8]) -> serde_json::Result<String> {
    #[derive(Deserialize)]
    struct OnlyMeta {
        metadata: ListMeta,
    }
    let list: OnlyMeta = serde_json::from_slice(bytes)?;
    Ok(list.metadata.resource_version)
}

fn page<'a, T: WatchedObject>(
    bytes: &[u8],
    keep: Keep<'a, T::Kind>,
) -> serde_json::Result<DecodedPage<'a, T::Kept>> {
    // A text, as a line of a watch is: objects are compiled for one decoder only.
    let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
    let response: ListResponse<T> = serde_json::from_str(text)?;
    let objects = response.items.into_iter().flatten();
    Ok(DecodedPage {
        metadata: response.metadata,
        objects: Box::new(objects.map(move |object| kept(object, keep))),
    })
}

fn event<T: WatchedObject>(
    line: &str,
    keep: Keep<'_, T::Kind>,
) -> serde_json::Result<DecodedEvent<T::Kept>> {
    Ok(match serde_json::from_str::<WatchLine<T>>(line)? {
        WatchLine::Applied(object) => {
            let version = object.version().to_owned();
            DecodedEvent::Applied(kept(object, keep), version)
        }
        WatchLine::Deleted(object) => {
            DecodedEvent::Deleted(object.name(), object.version().to_owned())
        }
        WatchLine::Bookmark(mark) => DecodedEvent::Bookmark(mark.metadata.resource_version),
        WatchLine::Error(status) => DecodedEvent::Error(status),
    })
}

fn kept<T: WatchedObject>(object: T, keep: Keep<'_, T::Kind>) -> DecodedObject<T::Kept> {
    let partial = (!object.is_complete()).then(|| object.name());
    DecodedObject {
        kept: object.keep(keep.kind, keep.redactor, keep.scope),
        partial,
    }
}

fn object<'a, T: WatchedObject>(
    text: &RawValue,
    keep: Keep<'a, T::Kind>,
) -> serde_json::Result<Box<dyn Found<T::Kept> + Send + 'a>> {
    Ok(Box::new(FoundObject(Lenient::<T>::read(text)?, keep)))
}
