//! The rights that a message needs when it is sent.

use std::sync::Arc;

use futures_util::{FutureExt, future::join_all};
use mcp_notify::Admission;

use super::right::{Answer, Right, Verdict};

/// Admits a message while its receiver has all these rights.
#[derive(Debug)]
pub struct Gate(Box<[Arc<Right>]>);

// === impl Gate ===

impl Gate {
    /// A gate of these rights.
    pub fn new(rights: impl IntoIterator<Item = Arc<Right>>) -> Self {
        Self(rights.into_iter().collect())
    }

    /// The rights.
    pub fn rights(&self) -> &[Arc<Right>] {
        &self.0
    }
}

impl mcp_notify::Gate for Gate {
    fn admit(&self) -> Admission {
        let mut asking = Vec::new();
        for right in &self.0 {
            match right.check() {
                Verdict::Allowed => {}
                Verdict::Denied => return Admission::Shut,
                Verdict::Pending(answer) => asking.push(answer),
            }
        }
        if asking.is_empty() {
            return Admission::Open;
        }
        let answered = join_all(asking)
            .map(|answers: Vec<Answer>| answers.into_iter().all(Answer::is_allowed));
        Admission::Pending(answered.boxed())
    }
}
