//! The tasks that a listen asks for. rmcp's type of the filter has no such field, so they are
//! read from the text of the message, and handed on beside it.

use http::request::Parts;
use rmcp::model::Extensions;
use serde::Deserialize;

/// More than one client can have.
const TASKS_MAX: usize = 64;

/// The ids of tasks in the filter of `subscriptions/listen`. An extension of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskIds(Vec<String>);

#[derive(Deserialize)]
struct ListenHead {
    params: ListenParams,
}

#[derive(Deserialize)]
struct ListenParams {
    notifications: ListenFilter,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListenFilter {
    #[serde(default)]
    task_ids: Vec<String>,
}

impl TaskIds {
    /// The ids in a listen; none if it is not as it should be.
    pub(crate) fn read(text: &[u8]) -> Self {
        let head = serde_json::from_slice::<ListenHead>(text);
        let mut ids = head.map_or(Vec::new(), |head| head.params.notifications.task_ids);
        ids.truncate(TASKS_MAX);
        Self(ids)
    }

    /// Those of a request: the transport has put them there.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let parts = extensions.get::<Parts>();
        let ids = parts.map_or_else(|| extensions.get(), |parts| parts.extensions.get());
        ids.cloned().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tasks_are_read_from_the_filter_and_bounded() {
        let listen = |filter: &str| {
            format!(
                r#"{{"id":1,"method":"subscriptions/listen","params":{{"notifications":{filter}}}}}"#
            )
        };
        let read = |filter: &str| TaskIds::read(listen(filter).as_bytes()).0;
        assert_eq!(
            read(r#"{"taskIds":["a","b"],"toolsListChanged":true}"#),
            ["a", "b"]
        );
        assert!(read("{}").is_empty() && read(r#"{"taskIds":"a"}"#).is_empty());
        let many = vec![r#""x""#; 1000].join(",");
        assert_eq!(read(&format!(r#"{{"taskIds":[{many}]}}"#)).len(), TASKS_MAX);
    }

    proptest! {
        #[test]
        fn fuzz_listens(text in ".{0,200}") {
            prop_assert!(TaskIds::read(text.as_bytes()).0.len() <= TASKS_MAX);
        }
    }
}
