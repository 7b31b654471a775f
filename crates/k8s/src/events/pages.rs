//! The pages of a list of events, each asked for while the one before it is read.

use http::Request;
use kube::{Resource, api::ListParams};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::{
    SCAN_MAX,
    page::{self, EventHead},
    wire::WireEvent,
};
use crate::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    list::{PAGE_SIZE, PageSize, page_params},
    name::Name,
    raw::{self, undecodable},
};

/// Lists events page by page.
pub(super) struct EventPages<'a> {
    cluster: &'a Cluster,
    path: String,
    selected: ListParams,
    size: PageSize,
    next: NextPage,
    /// The next page, where it has been asked for. Dropping it cancels the request.
    ahead: JoinSet<kube::Result<Vec<u8>>>,
    scanned: usize,
}

/// Which page comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextPage {
    First,
    After(String),
    None,
}

impl<'a> EventPages<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        namespace: Option<&Name>,
        selected: ListParams,
    ) -> Self {
        Self {
            cluster,
            path: WireEvent::url_path(&(), namespace.map(Name::as_str)),
            selected,
            size: PageSize::new(PAGE_SIZE),
            next: NextPage::First,
            ahead: JoinSet::new(),
            scanned: 0,
        }
    }

    /// Whether there is a page that was not read.
    pub(super) fn has_more(&self) -> bool {
        self.next != NextPage::None
    }

    /// The text of the next page; `None` after the last one.
    pub(super) async fn next(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Option<Vec<u8>>, ClusterError> {
        let token = match &self.next {
            NextPage::First => None,
            NextPage::After(token) => Some(token.clone()),
            NextPage::None => return Ok(None),
        };
        let cluster = self.cluster;
        if !self.ahead.is_empty() {
            let asked = async {
                match self.ahead.join_next().await {
                    Some(Ok(answer)) => answer,
                    Some(Err(error)) => Err(kube::Error::Service(error.into())),
                    None => Ok(Vec::new()),
                }
            };
            match cluster.request(operation, asked).await {
                // It is asked for again, in smaller pages.
                Err(error) if error.kind() == ErrorKind::TooLarge => {}
                answer => return answer.map(Some),
            }
        }
        let (path, selected) = (&self.path, &self.selected);
        let ask = |size: u32| {
            let request = request(path, selected, size, token.clone());
            async move {
                let answer = async { raw::body(cluster.client(), request?).await };
                cluster.request(operation, answer).await
            }
        };
        self.size.request(ask).await.map(Some)
    }

    /// Reads a page, and asks for the next one as soon as it is known that there is one.
    /// Returns the resourceVersion of the list if it is a number.
    pub(super) fn read<'p>(
        &mut self,
        operation: &Operation<'_>,
        page: &'p [u8],
        mut on_event: impl FnMut(EventHead<'p>, &'p RawValue) -> serde_json::Result<()>,
    ) -> Result<Option<u64>, ClusterError> {
        let Self {
            cluster,
            path,
            selected,
            size,
            ahead,
            scanned,
            ..
        } = self;
        let is_last = *scanned + size.get() >= SCAN_MAX;
        let on_meta = |meta: &page::PageMeta| {
            let token = meta.next().filter(|_| !is_last);
            let size = u32::try_from(size.get()).unwrap_or(PAGE_SIZE);
            let next = token.map(|token| request(path, selected, size, Some(token.to_owned())));
            // One that cannot be made is an error when it is due.
            if let Some(Ok(next)) = next {
                ahead.spawn(raw::body(cluster.client(), next));
            }
        };
        let meta = page::read(page, on_meta, |head, text| {
            *scanned += 1;
            on_event(head, text)
        });
        let meta = meta.map_err(|error| undecodable(operation, &error))?;
        self.next = match meta.next() {
            Some(token) => NextPage::After(token.to_owned()),
            None => NextPage::None,
        };
        Ok(meta.resource_version.and_then(|text| text.parse().ok()))
    }
}

fn request(
    path: &str,
    selected: &ListParams,
    size: u32,
    token: Option<String>,
) -> kube::Result<Request<Vec<u8>>> {
    let params = page_params(selected, size, token);
    let request = kube::core::Request::new(path).list(&params);
    request.map_err(kube::Error::BuildRequest)
}
