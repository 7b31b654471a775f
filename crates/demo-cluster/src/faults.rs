//! What a test wants to go wrong, and what was asked so far.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    request::{Asked, Coordinates, Target},
    resource,
};

/// Which requests are meant; what is not named may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    verb: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// How a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// 401: the credentials are not known.
    Unauthorized,
    /// 403: as if a role were missing.
    Forbidden,
    /// 410: the resourceVersion asked for is gone.
    Gone,
    /// 429: the server asks to be left alone for so many seconds.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// 503: the server is shutting down.
    Unavailable,
    /// Any other status, with a body that says little.
    Status(u16),
    /// No connection comes about.
    Refused,
    /// The connection ends before an answer.
    Reset,
    /// Nothing ever comes.
    Silence,
    /// The answer is right, and late.
    Delay(Duration),
}

/// One request, as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `get`, `list`, `watch`, ...
    pub verb: &'static str,
    /// `pods`, `pods/log`, `deployments.apps`; the path where there is no resource.
    pub resource: String,
    /// None is all namespaces.
    pub namespace: Option<String>,
    /// None is all objects.
    pub name: Option<String>,
    /// Its parameters, decoded.
    pub query: Vec<(String, String)>,
}

/// Scripted faults and the memory of requests.
#[derive(Debug, Default)]
pub(crate) struct Script {
    faults: Vec<(Matching, u32, Fault)>,
    seen: VecDeque<Seen>,
    counts: BTreeMap<(&'static str, String), u64>,
}

/// Of more requests than these only the newest are kept word for word.
const SEEN_MAX: usize = 1024;

/// More kinds of requests than that are counted as one.
const COUNTS_MAX: usize = 512;

// === impl Matching ===

impl Matching {
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

    pub(crate) fn covers(
        &self,
        verb: &str,
        resource: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> bool {
        let fits = |wanted: &Option<String>, given: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| given == Some(wanted))
        };
        fits(&self.verb, Some(verb))
            && fits(&self.resource, Some(resource))
            && fits(&self.namespace, namespace)
            && fits(&self.name, name)
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) fn of(asked: &Asked) -> Self {
        let (resource, namespace, name) = match &asked.target {
            Target::Path => (asked.path.clone(), None, None),
            Target::Object(at) => (resource_of(at), at.namespace.clone(), at.name.clone()),
        };
        Self {
            verb: asked.verb,
            resource,
            namespace,
            name,
            query: asked.query.pairs().to_vec(),
        }
    }

    /// A parameter of the request.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, value) = self.query.iter().find(|(key, _)| key == name)?;
        Some(value)
    }
}

/// The resource as scripts name it.
fn resource_of(at: &Coordinates) -> String {
    resource::qualified(&at.group, &at.full_resource())
}

// === impl Script ===

impl Script {
    pub(crate) fn fail(&mut self, matching: Matching, times: u32, fault: Fault) {
        self.faults.push((matching, times, fault));
    }

    pub(crate) fn heal(&mut self) {
        self.faults.clear();
    }

    /// Remembers a request, and says what goes wrong with it.
    pub(crate) fn meet(&mut self, seen: Seen) -> Option<Fault> {
        let mut key = (seen.verb, seen.resource.clone());
        if self.counts.len() >= COUNTS_MAX && !self.counts.contains_key(&key) {
            key = ("", "others".to_owned());
        }
        *self.counts.entry(key).or_default() += 1;
        let fault = self.take(&seen);
        self.seen.push_back(seen);
        if self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
        fault
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.iter().cloned().collect()
    }

    pub(crate) fn count(&self, verb: &str, resource: &str) -> u64 {
        let wanted = |(key, _): &(&(&str, String), &u64)| key.0 == verb && key.1 == resource;
        self.counts
            .iter()
            .filter(wanted)
            .map(|(_, count)| count)
            .sum()
    }

    /// The first scripted fault that fits, used once.
    fn take(&mut self, seen: &Seen) -> Option<Fault> {
        let fits = |(matching, _, _): &(Matching, u32, Fault)| {
            matching.covers(
                seen.verb,
                &seen.resource,
                seen.namespace.as_deref(),
                seen.name.as_deref(),
            )
        };
        let index = self.faults.iter().position(fits)?;
        let (_, left, fault) = &mut self.faults[index];
        let fault = fault.clone();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.faults.remove(index);
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(verb: &'static str, resource: &str) -> Seen {
        Seen {
            verb,
            resource: resource.to_owned(),
            namespace: Some("shop".to_owned()),
            name: None,
            query: Vec::new(),
        }
    }

    #[test]
    fn a_fault_is_for_those_it_fits_and_for_so_many_times() {
        let mut script = Script::default();
        script.fail(
            Matching::any().verb("watch").resource("events"),
            2,
            Fault::Gone,
        );
        assert_eq!(script.meet(seen("list", "events")), None);
        assert_eq!(script.meet(seen("watch", "events")), Some(Fault::Gone));
        assert_eq!(script.meet(seen("watch", "pods")), None);
        assert_eq!(script.meet(seen("watch", "events")), Some(Fault::Gone));
        assert_eq!(script.meet(seen("watch", "events")), None);
        assert_eq!(script.count("watch", "events"), 3);
        assert_eq!(script.count("list", "events"), 1);
    }

    #[test]
    fn the_memory_of_requests_is_bounded() {
        let mut script = Script::default();
        for index in 0..2 * SEEN_MAX {
            script.meet(seen("get", &format!("r{index}")));
        }
        assert_eq!(script.seen().len(), SEEN_MAX);
        assert!(script.counts.len() <= COUNTS_MAX + 1);
    }
}
