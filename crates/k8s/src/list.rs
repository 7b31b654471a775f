//! Lists that know how much they leave out.

use std::fmt::Debug;

use kube::{Api, Resource, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, Operation},
    name::Name,
};

/// Objects per request: small enough to answer quickly, large enough for one.
pub(super) const PAGE: u32 = 500;

/// When the API server does not say how many remain (it does not with selectors),
/// this many names are counted at most.
const COUNT_MAX: usize = 10_000;

/// Which objects, and how many of them.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// One namespace; all if none.
    pub namespace: Option<Name>,
    /// As `kubectl -l` takes it.
    pub label_selector: Option<String>,
    /// As `kubectl --field-selector` takes it.
    pub field_selector: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// The first objects of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// What was asked for, up to the limit.
    pub items: Vec<T>,
    /// What was left out.
    pub more: More,
    /// What a reader has to know to read the list rightly.
    pub caveat: Option<String>,
}

/// How much a list left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum More {
    /// So many.
    Exactly(usize),
    /// So many or more: counting on would have cost too much.
    AtLeast(usize),
}

// === impl Page ===

impl<T> Page<T> {
    /// A list with nothing to add to it.
    pub fn new(items: Vec<T>, more: More) -> Self {
        Self {
            items,
            more,
            caveat: None,
        }
    }

    /// The same list of other things.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        let Self {
            items,
            more,
            caveat,
        } = self;
        Page {
            items: items.into_iter().map(each).collect(),
            more,
            caveat,
        }
    }
}

// === impl More ===

impl More {
    /// Nothing left out.
    pub const NONE: Self = Self::Exactly(0);

    /// Whether nothing was left out.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// With so many more left out.
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
    /// Lists up to the limit and counts the rest.
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
        let mut from: Option<String> = None;
        loop {
            let wanted = query.limit - items.len();
            let size = PAGE.min(u32::try_from(wanted).unwrap_or(PAGE));
            let params = page(&selected, size, from.take());
            let answer = match self.request(operation, api.list(&params)).await {
                Ok(answer) => answer,
                Err(error) if items.is_empty() => return Err(error),
                // What came is worth more than nothing.
                Err(error) => {
                    let mut cut = Page::new(items, More::AtLeast(1));
                    cut.caveat = Some(format!("the list ends early: {error}"));
                    return Ok(cut);
                }
            };
            items.extend(answer.items);
            let next = answer.metadata.continue_.filter(|token| !token.is_empty());
            match (next, answer.metadata.remaining_item_count) {
                (None, _) => return Ok(Page::new(items, More::NONE)),
                (Some(_), Some(rest)) if items.len() >= query.limit => {
                    let more = More::Exactly(usize::try_from(rest).unwrap_or_default());
                    return Ok(Page::new(items, more));
                }
                (Some(next), None) if items.len() >= query.limit => {
                    let more = self.count(operation, api, &selected, next).await;
                    return Ok(Page::new(items, more));
                }
                (Some(next), _) => from = Some(next),
            }
        }
    }

    /// Counts what is left, as far as that goes.
    async fn count<K>(
        &self,
        operation: &Operation<'_>,
        api: &Api<K>,
        selected: &ListParams,
        mut from: String,
    ) -> More
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let mut counted = 0;
        loop {
            let params = page(selected, 2 * PAGE, Some(from));
            let Ok(answer) = self.request(operation, api.list_metadata(&params)).await else {
                return More::AtLeast(counted + 1);
            };
            counted += answer.items.len();
            match answer.metadata.continue_.filter(|token| !token.is_empty()) {
                None => return More::Exactly(counted),
                Some(_) if counted >= COUNT_MAX => return More::AtLeast(counted + 1),
                Some(next) => from = next,
            }
        }
    }
}

pub(super) fn page(selected: &ListParams, size: u32, from: Option<String>) -> ListParams {
    ListParams {
        limit: Some(size),
        continue_token: from,
        ..selected.clone()
    }
}
