//! The Kubernetes user of a caller, from names that come from outside of Kubernetes.

use std::sync::Arc;

use kubecrier_core::{KubernetesUser, UserError};

/// What Kubernetes keeps for users and groups of its own, such as `system:masters`.
const RESERVED_PREFIX: &str = "system:";

/// Why names make no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MappingError {
    #[error("has a user that begins with `system:`, which Kubernetes keeps for its own")]
    ReservedUser,
    #[error("has a group that begins with `system:`, which Kubernetes keeps for its own")]
    ReservedGroup,
    #[error(
        "has a user or group that is empty, too long, has control characters, or begins or ends \
         with a blank"
    )]
    Name,
    #[error("has more groups than can be sent with a request")]
    Groups,
}

/// The user of these names.
pub(super) fn mapped_user<'a>(
    name: &str,
    groups: impl IntoIterator<Item = &'a str> + Clone,
) -> Result<Arc<KubernetesUser>, MappingError> {
    let is_reserved = |name: &str| name.starts_with(RESERVED_PREFIX);
    if is_reserved(name) {
        return Err(MappingError::ReservedUser);
    }
    if groups.clone().into_iter().any(is_reserved) {
        return Err(MappingError::ReservedGroup);
    }
    match KubernetesUser::new(name, groups) {
        Ok(user) => Ok(Arc::new(user)),
        Err(UserError::Name { .. }) => Err(MappingError::Name),
        Err(UserError::Groups(_)) => Err(MappingError::Groups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_becomes_a_part_of_kubernetes() {
        let map = |name, groups: &[&'static str]| mapped_user(name, groups.iter().copied());
        let user = map("ann@example.com", &["dev", "oidc:system:masters"]).unwrap();
        assert_eq!(user.name(), "ann@example.com");
        assert_eq!(map("system:admin", &[]), Err(MappingError::ReservedUser));
        assert_eq!(map("system:", &[]), Err(MappingError::ReservedUser));
        let masters = map("ann", &["dev", "system:masters"]);
        assert_eq!(masters, Err(MappingError::ReservedGroup));
        // What would lose its blanks on the way would be another name.
        for name in ["", " system:admin", "ann ", "\u{a0}ann", "a\nb"] {
            assert_eq!(map(name, &[]), Err(MappingError::Name), "{name:?}");
        }
        assert_eq!(map("ann", &[" system:masters"]), Err(MappingError::Name));
    }
}
