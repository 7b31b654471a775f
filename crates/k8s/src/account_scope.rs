//! A service account is known in one cluster, the one that has reviewed its token: an account of
//! the same name in another cluster is somebody else, with rights of its own.

use kubecrier_core::KubernetesUser;

use super::{
    contexts::Contexts,
    error::{ClusterError, ErrorKind},
};

/// Only Kubernetes gives such names; what comes from elsewhere with them is refused.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

// === impl Contexts ===

impl Contexts {
    /// Refuses a service account in another context than that of calls that name none, which
    /// reviews tokens.
    pub(super) fn check_account(
        &self,
        user: &KubernetesUser,
        context: &str,
    ) -> Result<(), ClusterError> {
        if !user.name().starts_with(ACCOUNT_PREFIX) {
            return Ok(());
        }
        let own = self.resolve(None)?;
        if own == context {
            return Ok(());
        }
        Err(ClusterError::new(
            ErrorKind::Forbidden,
            format!("cannot act as `{}` in context `{context}`", user.name()),
            format!("it is a service account of another cluster, that of context `{own}`"),
            Some("call without `context`".to_owned()),
        ))
    }
}
