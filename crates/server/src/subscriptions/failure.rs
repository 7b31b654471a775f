//! What it means that a subscription cannot be woken: to try again, or to say that it has ended.

use kubecrier_core::{access::Viewer, subscriptions::WatchStatus};
use kubecrier_k8s::ErrorKind;

use crate::output::ToolError;

/// What is said of a subscription that cannot go on. The words of an API server are not for users:
/// they are about what the server watches for all.
pub(super) fn ended(viewer: &Viewer, error: &ToolError) -> WatchStatus {
    const ENDED: &str = "the subscription has ended, subscribe again";
    let error = match (viewer, error) {
        (Viewer::User(_), ToolError::Cluster(_)) => ENDED.to_owned(),
        _ => format!("{ENDED}: {error}"),
    };
    WatchStatus::Degraded { error }
}

/// Whether it may be otherwise in a while.
pub(super) fn is_passing(error: &ToolError) -> bool {
    match error {
        ToolError::Cluster(error) => {
            matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout)
        }
        ToolError::Unavailable(_) => true,
        ToolError::Arguments(_)
        | ToolError::NotFound(_)
        | ToolError::Limit(_)
        | ToolError::Unsupported(_)
        | ToolError::SwitchedOff(_)
        | ToolError::Bug => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;
    use kubecrier_core::{
        KubernetesUser,
        access::{AccessDecisions, AccessQuestion, AccessReviewer, ReviewError},
        metrics::AccessMetrics,
    };
    use kubecrier_k8s::ClusterError;
    use kubecrier_lifecycle::Lifecycle;

    use super::*;

    struct Unasked;

    impl AccessReviewer for Unasked {
        fn review<'a>(
            &'a self,
            _context: &'a str,
            _user: &'a KubernetesUser,
            _question: &'a AccessQuestion,
        ) -> BoxFuture<'a, Result<bool, ReviewError>> {
            Box::pin(std::future::ready(Ok(false)))
        }
    }

    #[test]
    fn a_user_is_not_told_the_words_of_an_api_server() {
        let decisions =
            AccessDecisions::new(Unasked, Lifecycle::default(), AccessMetrics::default());
        let ann = Arc::new(KubernetesUser::new("ann", ["dev"]).unwrap());
        let ann = decisions.viewer(&ann);
        let of_server =
            || ToolError::Cluster(ClusterError::invalid("watch events", "in ns `hidden`", ""));
        let own = || ToolError::Limit("too many watches".to_owned());
        for (viewer, error, shown, hidden) in [
            (&Viewer::Everything, of_server(), "hidden", "nothing"),
            (&ann, of_server(), "subscribe again", "hidden"),
            (&ann, own(), "too many watches", "nothing"),
        ] {
            let text = format!("{:?}", ended(viewer, &error));
            assert!(text.contains(shown) && !text.contains(hidden), "{text}");
        }
        let degraded = |viewer: &Viewer| {
            let error = of_server().to_string();
            format!("{:?}", WatchStatus::Degraded { error }.seen_by(viewer))
        };
        assert!(degraded(&Viewer::Everything).contains("hidden"));
        assert!(!degraded(&ann).contains("hidden"));
    }
}
