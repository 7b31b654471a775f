//! The open faults of a cluster: its warnings about pods, one row for each fault.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Api;
use kubecrier_k8s_api::kinds::POD;

use super::{
    client::{Cluster, list_params},
    error::{ClusterError, Operation},
    events::{self, SCAN_MAX, WireEvent},
    list::{PAGE_SIZE, PageSize, page_params},
    name::Name,
    read_only::RefusedRequest,
};
use kubecrier_core::{Event, faults::Fault};

/// A fault that a cluster reports now.
#[derive(Clone, Debug)]
pub struct OpenFault {
    /// Id of the fault, the same for each of its repetitions.
    pub fault_id: String,
    /// The newest event of the fault.
    pub event: Arc<Event>,
    /// When the fault was first seen.
    pub first_seen: Timestamp,
    /// How often the fault was seen.
    pub count: i32,
}

/// The open faults of a cluster.
#[derive(Clone, Debug, Default)]
pub struct OpenFaults {
    /// Newest first.
    pub faults: Vec<OpenFault>,
    /// Whether there were more events than one list reads.
    pub cut: bool,
}

impl Cluster {
    /// The faults of a namespace, or of all, that were seen within that time.
    pub async fn faults(
        &self,
        namespace: Option<&Name>,
        since: Duration,
    ) -> Result<OpenFaults, ClusterError> {
        if self.scope().denied.denies_resource(POD.group, POD.plural) {
            let refused = RefusedRequest::Denied("Pod".to_owned());
            return Err(self.refusal("read", namespace.map(Name::as_str), &refused));
        }
        let ask = async |namespace: Option<Name>| self.faults_in(namespace.as_ref(), since).await;
        let answers = self.each_namespace(namespace, ask).await?;
        let mut open = OpenFaults {
            faults: Vec::new(),
            cut: answers.caveat.is_some(),
        };
        for one in answers.all {
            open.faults.extend(one.faults);
            open.cut |= one.cut;
        }
        open.faults.sort_by(|a, b| {
            let newest = b.event.timestamp.cmp(&a.event.timestamp);
            newest.then_with(|| a.fault_id.cmp(&b.fault_id))
        });
        Ok(open)
    }

    async fn faults_in(
        &self,
        namespace: Option<&Name>,
        since: Duration,
    ) -> Result<OpenFaults, ClusterError> {
        let operation = &Operation {
            verb: "list",
            resource: "events",
            name: None,
            namespace: namespace.map(Name::as_str),
            context: self.context(),
        };
        let api: Api<WireEvent> = match namespace {
            Some(namespace) => Api::namespaced(self.client(), namespace.as_str()),
            None => Api::all(self.client()),
        };
        let selected = list_params(None, Some("type=Warning,involvedObject.kind=Pod"));
        let oldest = Timestamp::now() - since;
        let mut faults_by_id: HashMap<String, OpenFault> = HashMap::new();
        let (mut scanned, mut continue_token) = (0, None);
        let mut cut = false;
        let mut size = PageSize::new(PAGE_SIZE);
        loop {
            let (token, api) = (continue_token.take(), &api);
            let request = |size| {
                let params = page_params(&selected, size, token.clone());
                async move { self.request(operation, api.list(&params)).await }
            };
            let list = size.request(request).await?;
            scanned += list.items.len();
            let events = list.items.into_iter();
            let events = events.filter(|event| !event.is_hidden(self.scope()));
            for event in events.map(|event| events::to_event(event, self.redactor())) {
                if event.timestamp >= oldest {
                    add(&mut faults_by_id, self.context(), event);
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                None => break,
                Some(_) if scanned >= SCAN_MAX => {
                    cut = true;
                    break;
                }
                next => continue_token = next,
            }
        }
        let faults = faults_by_id.into_values().collect();
        Ok(OpenFaults { faults, cut })
    }
}

fn add(faults_by_id: &mut HashMap<String, OpenFault>, cluster: &str, event: Event) {
    let fault_id = Fault::of_event(cluster, &event).id();
    let first_seen = event.first_seen.unwrap_or(event.timestamp);
    let count = event.count;
    let event = Arc::new(event);
    let entry = faults_by_id.entry(fault_id.clone());
    let fault = entry.or_insert_with(|| OpenFault {
        fault_id,
        event: Arc::clone(&event),
        first_seen,
        count: 0,
    });
    // Several events can report one fault: each counts.
    fault.count = fault.count.saturating_add(count);
    fault.first_seen = fault.first_seen.min(first_seen);
    if event.timestamp > fault.event.timestamp {
        fault.event = event;
    }
}
