//! Fault injection, and a record of the requests so far.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kubecrier_k8s_api::names::group_resource;

use crate::request::{RequestInfo, RequestTarget, ResourcePath};

/// A set of requests; a part that is not given matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMatcher {
    verb: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// How an injected fault makes a request fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// 401: the credentials are invalid.
    Unauthorized,
    /// 403: as if a role were missing.
    Forbidden,
    /// 410: the resourceVersion of the request has expired.
    Gone,
    /// 429, with `Retry-After` in seconds.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// 503: the server is shutting down.
    Unavailable,
    /// Any other status code.
    Status(u16),
    /// The connection is refused.
    Refused,
    /// The connection is reset before a response.
    Reset,
    /// There is never a response.
    Silence,
    /// The right response, after a delay.
    Delay(Duration),
}

/// A request that the cluster has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// `get`, `list`, `watch`, ...
    pub verb: &'static str,
    /// `pods`, `pods/log`, `deployments.apps`; the path of a request without a resource.
    pub resource: String,
    /// `None` is all namespaces.
    pub namespace: Option<String>,
    /// `None` is all objects.
    pub name: Option<String>,
    /// The decoded parameters.
    pub query: Vec<(String, String)>,
}

/// The faults to inject, and the requests so far.
#[derive(Debug, Default)]
pub(crate) struct FaultInjector {
    faults: Vec<(RequestMatcher, u32, Fault)>,
    recorded: VecDeque<RecordedRequest>,
    counts: BTreeMap<(&'static str, String), u64>,
}

/// The requests that are recorded; older ones are only counted.
const RECORDED_MAX: usize = 1024;

/// The pairs of verb and resource that are counted apart; further ones are counted as one.
const COUNTS_MAX: usize = 512;

// === impl RequestMatcher ===

impl RequestMatcher {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only this verb: `get`, `list`, `watch`, ...
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Only this resource: `pods`, `pods/log`, `deployments.apps`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only about this object.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(crate) fn matches(
        &self,
        verb: &str,
        resource: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> bool {
        let same = |expected: &Option<String>, given: Option<&str>| {
            expected
                .as_deref()
                .is_none_or(|expected| given == Some(expected))
        };
        same(&self.verb, Some(verb))
            && same(&self.resource, Some(resource))
            && same(&self.namespace, namespace)
            && same(&self.name, name)
    }
}

// === impl RecordedRequest ===

impl RecordedRequest {
    pub(crate) fn of(request: &RequestInfo) -> Self {
        let (resource, namespace, name) = match &request.target {
            RequestTarget::NonResource => (request.path.clone(), None, None),
            RequestTarget::Resource(at) => (resource_of(at), at.namespace.clone(), at.name.clone()),
        };
        Self {
            verb: request.verb,
            resource,
            namespace,
            name,
            query: request.query.pairs().to_vec(),
        }
    }

    /// A parameter of the request.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self.query.iter().find(|(key, _)| key == name)?;
        Some(value)
    }
}

/// The resource as a [`RequestMatcher`] names it.
fn resource_of(at: &ResourcePath) -> String {
    group_resource(&at.group, &at.full_resource())
}

// === impl FaultInjector ===

impl FaultInjector {
    pub(crate) fn inject(&mut self, matcher: RequestMatcher, times: u32, fault: Fault) {
        self.faults.push((matcher, times, fault));
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    /// Records a request, and answers the fault to inject into it.
    pub(crate) fn on_request(&mut self, request: RecordedRequest) -> Option<Fault> {
        let mut key = (request.verb, request.resource.clone());
        if self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&key) {
            key = ("", "others".to_owned());
        }
        *self.counts.entry(key).or_default() += 1;
        let fault = self.take(&request);
        self.recorded.push_back(request);
        if self.recorded.len() > RECORDED_MAX {
            self.recorded.pop_front();
        }
        fault
    }

    pub(crate) fn recorded(&self) -> Vec<RecordedRequest> {
        self.recorded.iter().cloned().collect()
    }

    pub(crate) fn count(&self, verb: &str, resource: &str) -> u64 {
        let same = |(key, _): &(&(&str, String), &u64)| key.0 == verb && key.1 == resource;
        self.counts
            .iter()
            .filter(same)
            .map(|(_, count)| count)
            .sum()
    }

    /// The first fault whose matcher fits, used up once.
    fn take(&mut self, request: &RecordedRequest) -> Option<Fault> {
        let fits = |(matcher, _, _): &(RequestMatcher, u32, Fault)| {
            matcher.matches(
                request.verb,
                &request.resource,
                request.namespace.as_deref(),
                request.name.as_deref(),
            )
        };
        let index = self.faults.iter().position(fits)?;
        let (_, remaining, fault) = &mut self.faults[index];
        let fault = fault.clone();
        *remaining = remaining.saturating_sub(1);
        if *remaining == 0 {
            self.faults.remove(index);
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &'static str, resource: &str) -> RecordedRequest {
        RecordedRequest {
            verb,
            resource: resource.to_owned(),
            namespace: Some("shop".to_owned()),
            name: None,
            query: Vec::new(),
        }
    }

    #[test]
    fn a_fault_meets_matching_requests_as_often_as_it_was_injected() {
        let mut injector = FaultInjector::default();
        injector.inject(
            RequestMatcher::any().verb("watch").resource("events"),
            2,
            Fault::Gone,
        );
        assert_eq!(injector.on_request(request("list", "events")), None);
        assert_eq!(
            injector.on_request(request("watch", "events")),
            Some(Fault::Gone)
        );
        assert_eq!(injector.on_request(request("watch", "pods")), None);
        assert_eq!(
            injector.on_request(request("watch", "events")),
            Some(Fault::Gone)
        );
        assert_eq!(injector.on_request(request("watch", "events")), None);
        assert_eq!(injector.count("watch", "events"), 3);
        assert_eq!(injector.count("list", "events"), 1);
    }

    #[test]
    fn the_record_of_requests_is_bounded() {
        let mut injector = FaultInjector::default();
        for index in 0..2 * RECORDED_MAX {
            injector.on_request(request("get", &format!("r{index}")));
        }
        assert_eq!(injector.recorded().len(), RECORDED_MAX);
        assert!(injector.counts.len() <= COUNTS_MAX + 1);
    }
}
