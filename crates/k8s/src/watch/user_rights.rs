//! What the user of a subscriber may see, asked when it joins.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::with_rule;
use crate::error::{ClusterError, ErrorKind};
use kubecrier_core::{
    access::{Action, Answer, UserView, Viewer},
    filters::Filters,
};

/// Namespaces that are asked about at once; of more, the events tell.
const ASKED_MAX: usize = 20;

/// Whether a subscriber sees all that the filters ask for. A warning names what it does not
/// see; if that is everything, it is an error.
pub(super) async fn sees_all(
    viewer: &Viewer,
    context: &str,
    filters: &Filters,
    warnings: &mut Vec<String>,
) -> Result<bool, ClusterError> {
    let Viewer::User(view) = viewer else {
        return Ok(true);
    };
    let Some(names) = filters.exact_namespaces() else {
        let whole = answer(view, context, "").await?;
        if !whole {
            warnings.push(
                "you may not list events in the whole cluster: those of namespaces are told in which \
                 you may"
                    .to_owned(),
            );
        }
        return Ok(whole);
    };
    let asked = names.iter().take(ASKED_MAX);
    let answers = join_all(asked.clone().map(|name| answer(view, context, name))).await;
    let mut refused = Vec::new();
    for (name, is_allowed) in asked.zip(answers) {
        if !is_allowed? {
            refused.push(*name);
        }
    }
    if refused.is_empty() {
        return Ok(true);
    }
    let list = refused.join("`, `");
    if refused.len() == names.len() {
        let user = view.user().name();
        return Err(with_rule(ClusterError::new(
            ErrorKind::Forbidden,
            format!("cannot watch events of context `{context}`"),
            format!("user `{user}` may not list events in `{list}`"),
            None,
        )));
    }
    warnings.push(format!(
        "you may not list events in `{list}`: they are not told before you may; the other namespaces are \
         watched"
    ));
    Ok(false)
}

async fn answer(view: &Arc<UserView>, context: &str, name: &str) -> Result<bool, ClusterError> {
    let right = view.right(context, Action::LIST_EVENTS, name);
    match right.decide_since(Instant::now()).await {
        Answer::Allowed => Ok(true),
        Answer::Denied => Ok(false),
        Answer::Unknown => Err(ClusterError::new(
            ErrorKind::Other,
            format!("cannot watch events of context `{context}`"),
            "the cluster does not say what you may read",
            Some(
                "try again; the server needs the right to create subjectaccessreviews in the group \
                 authorization.k8s.io"
                    .to_owned(),
            ),
        )),
    }
}
