//! An authorizer whose rules a test changes.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::BoxFuture;
use kubecrier_core::{
    KubernetesUser,
    access::{AccessDecisions, AccessQuestion, AccessReviewer, ReviewError, Viewer},
    metrics::Metrics,
};
use kubecrier_lifecycle::Lifecycle;
use parking_lot::Mutex;
use tokio::time::{Duration, sleep};

/// Users and what they may do, as questions are printed.
#[derive(Clone, Default)]
pub(crate) struct Grants {
    granted: Arc<Mutex<BTreeSet<(String, String)>>>,
    decisions: Arc<Mutex<Option<AccessDecisions>>>,
}

impl Grants {
    /// Grants or withdraws something, such as ``list pods in `shop` ``.
    pub(crate) fn set(&self, user: &str, question: &str, is_granted: bool) {
        let key = (user.to_owned(), question.to_owned());
        let mut granted = self.granted.lock();
        if is_granted {
            granted.insert(key);
        } else {
            granted.remove(&key);
        }
    }

    /// The eyes of a user.
    pub(crate) fn viewer(&self, name: &str) -> Viewer {
        let user = Arc::new(KubernetesUser::new(name, ["dev"]).unwrap());
        let make = || {
            let metrics = Metrics::new().access();
            AccessDecisions::new(self.clone(), Lifecycle::default(), metrics)
        };
        let mut decisions = self.decisions.lock();
        decisions.get_or_insert_with(make).viewer(&user)
    }
}

impl AccessReviewer for Grants {
    fn review<'a>(
        &'a self,
        _context: &'a str,
        user: &'a KubernetesUser,
        question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async move {
            let key = (user.name().to_owned(), question.to_string());
            let is_granted = self.granted.lock().contains(&key);
            sleep(Duration::from_millis(2)).await;
            Ok(is_granted)
        })
    }
}
