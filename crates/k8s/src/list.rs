//! Lists that count what they leave out.

use std::{fmt::Debug, future::Future};

use kube::{Api, Resource, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, ErrorKind, Operation},
    name::Name,
};

/// Objects per request: small enough for a quick response, large enough for most lists.
pub(super) const PAGE_SIZE: u32 = 500;

/// The size of the pages of one list. It shrinks where pages are too large to be read: objects
/// of a megabyte each are read a few at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSize(u32);

/// Objects that are counted at most where the API server sends no `remainingItemCount`: it
/// sends none for lists with selectors.
const COUNT_MAX: usize = 10_000;

/// Which objects to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Namespace; all if none.
    pub namespace: Option<Name>,
    /// As `kubectl -l` takes it.
    pub label_selector: Option<String>,
    /// As `kubectl --field-selector` takes it.
    pub field_selector: Option<String>,
    /// Maximum number of objects.
    pub limit: usize,
}

/// The first objects of a list, and how many are left out.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// Objects up to the limit.
    pub items: Vec<T>,
    /// Number of objects that are left out.
    pub more: Remaining,
    /// Warning about a list that may mislead, such as one that ended early.
    pub caveat: Option<String>,
}

/// Number of objects that a list left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Remaining {
    /// This number.
    Exactly(usize),
    /// At least this number: counting all would have cost too much.
    AtLeast(usize),
}

// === impl PageSize ===

impl PageSize {
    /// Pages of this size at first.
    pub(super) fn new(size: u32) -> Self {
        Self(size)
    }

    /// The objects of a page, at most.
    pub(super) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Requests a page, with fewer objects for as long as the response is too large.
    pub(super) async fn request<T, F>(
        &mut self,
        request: impl Fn(u32) -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        loop {
            match request(self.0).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && self.0 > 1 => {
                    self.0 = (self.0 / 8).max(1);
                }
                answer => return answer,
            }
        }
    }
}

// === impl Page ===

impl<T> Page<T> {
    /// A page without a caveat.
    pub fn new(items: Vec<T>, more: Remaining) -> Self {
        Self {
            items,
            more,
            caveat: None,
        }
    }

    /// The page with each item converted.
    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        let Self {
            items,
            more,
            caveat,
        } = self;
        Page {
            items: items.into_iter().map(convert).collect(),
            more,
            caveat,
        }
    }
}

// === impl Remaining ===

impl Remaining {
    /// Nothing left out.
    pub const NONE: Self = Self::Exactly(0);

    /// Whether nothing was left out.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The number that is known.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }

    /// The sum with `count` more objects.
    #[must_use]
    pub fn plus(self, count: usize) -> Self {
        match self {
            Self::Exactly(n) => Self::Exactly(n + count),
            Self::AtLeast(n) => Self::AtLeast(n + count),
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Lists up to the limit and counts the objects beyond it.
    pub(super) async fn list<K>(
        &self,
        operation: &Operation<'_>,
        api: &Api<K>,
        query: &ListQuery,
    ) -> Result<Page<K>, ClusterError>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let selected = list_params(
            query.label_selector.as_deref(),
            query.field_selector.as_deref(),
        );
        let mut items: Vec<K> = Vec::new();
        let mut continue_token: Option<String> = None;
        let mut size = PageSize::new(PAGE_SIZE);
        loop {
            let missing = query.limit - items.len();
            let missing = u32::try_from(missing).unwrap_or(PAGE_SIZE);
            let (selected, token) = (&selected, continue_token.take());
            let request = |size: u32| {
                let params = page_params(selected, size.min(missing), token.clone());
                async move { self.request(operation, api.list(&params)).await }
            };
            let list = match size.request(request).await {
                Ok(list) => list,
                Err(error) if items.is_empty() => return Err(error),
                // A partial list is better than none.
                Err(error) => {
                    let mut partial = Page::new(items, Remaining::AtLeast(1));
                    partial.caveat = Some(format!("the list ends early: {error}"));
                    return Ok(partial);
                }
            };
            items.extend(list.items);
            let next = list.metadata.continue_.filter(|token| !token.is_empty());
            match (next, list.metadata.remaining_item_count) {
                (None, _) => return Ok(Page::new(items, Remaining::NONE)),
                (Some(_), Some(remaining_count)) if items.len() >= query.limit => {
                    let more =
                        Remaining::Exactly(usize::try_from(remaining_count).unwrap_or_default());
                    return Ok(Page::new(items, more));
                }
                (Some(next), None) if items.len() >= query.limit => {
                    let more = self.count(operation, api, selected, next).await;
                    return Ok(Page::new(items, more));
                }
                (Some(next), _) => continue_token = Some(next),
            }
        }
    }

    /// Counts the objects that are left, up to [`COUNT_MAX`].
    async fn count<K>(
        &self,
        operation: &Operation<'_>,
        api: &Api<K>,
        selected: &ListParams,
        mut continue_token: String,
    ) -> Remaining
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let mut counted = 0;
        loop {
            let params = page_params(selected, 2 * PAGE_SIZE, Some(continue_token));
            let Ok(list) = self.request(operation, api.list_metadata(&params)).await else {
                return Remaining::AtLeast(counted + 1);
            };
            counted += list.items.len();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                None => return Remaining::Exactly(counted),
                Some(_) if counted >= COUNT_MAX => return Remaining::AtLeast(counted + 1),
                Some(next) => continue_token = next,
            }
        }
    }
}

pub(super) fn page_params(
    selected: &ListParams,
    size: u32,
    continue_token: Option<String>,
) -> ListParams {
    ListParams {
        limit: Some(size),
        continue_token,
        ..selected.clone()
    }
}
