//! A user of Kubernetes, as authorizers of the API server see it.

use std::sync::{Arc, LazyLock};

use thiserror::Error;

/// The group that the API server gives every user with credentials. It does not add the group
/// to a user that is impersonated, so it stands among the groups from the start.
const AUTHENTICATED: &str = "system:authenticated";

/// The same for all users: there are many.
static EVERYBODY: LazyLock<Arc<str>> = LazyLock::new(|| AUTHENTICATED.into());

/// Longest name of a user or group. The API server has no limit; headers have one.
const NAME_BYTES_MAX: usize = 1024;

/// Most groups of one user: each is a header of every request on its behalf.
const GROUPS_MAX: usize = 256;

/// A user of Kubernetes with its groups. Equal users have equal rights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KubernetesUser {
    name: Arc<str>,
    /// Sorted, each once.
    groups: Arc<[Arc<str>]>,
}

/// Why there is no such user.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UserError {
    /// The name of the user or of a group is empty, too long, has control characters, or begins
    /// or ends with a blank, which a header loses.
    #[error(
        "{what} has to have 1 to {NAME_BYTES_MAX} bytes without control characters or blanks at its \
         ends"
    )]
    Name {
        /// Which name.
        what: &'static str,
    },
    /// Too many groups.
    #[error("the user has {0} groups, and at most {GROUPS_MAX} can be sent with a request")]
    Groups(usize),
}

// === impl KubernetesUser ===

impl KubernetesUser {
    /// A user with these groups and that of every authenticated user.
    pub fn new(
        name: &str,
        groups: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, UserError> {
        let valid = |what, text: &str| {
            let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
            let is_whole = text.trim() == text;
            if fits && is_whole && !text.chars().any(char::is_control) {
                return Ok(Arc::from(text));
            }
            Err(UserError::Name { what })
        };
        let name = valid("the name of a user", name)?;
        let mut sorted: Vec<Arc<str>> = vec![Arc::clone(&EVERYBODY)];
        for group in groups {
            sorted.push(valid("the name of a group", group.as_ref())?);
        }
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() > GROUPS_MAX {
            return Err(UserError::Groups(sorted.len()));
        }
        Ok(Self {
            name,
            groups: sorted.into(),
        })
    }

    /// Name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Groups of the user, sorted.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted_and_everybody_is_authenticated() {
        let user = KubernetesUser::new("ann", ["ops", "dev", "ops"]).unwrap();
        let groups: Vec<&str> = user.groups().iter().map(AsRef::as_ref).collect();
        assert_eq!(groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(user, KubernetesUser::new("ann", ["dev", "ops"]).unwrap());
        assert_ne!(user, KubernetesUser::new("ann", ["dev"]).unwrap());
    }

    #[test]
    fn names_that_no_header_can_carry_are_refused() {
        let none: [&str; 0] = [];
        for name in ["", "a\nb", "a\0", " a", "a ", &"x".repeat(2000)] {
            assert!(KubernetesUser::new(name, none).is_err(), "{name:?}");
            assert!(KubernetesUser::new("ann", [name]).is_err(), "{name:?}");
        }
        let many: Vec<String> = (0..10_000).map(|n| format!("g{n}")).collect();
        let error = KubernetesUser::new("ann", many).unwrap_err();
        assert_eq!(error, UserError::Groups(10_001));
    }
}
