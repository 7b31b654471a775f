//! The session of the current request, as a task-local.

use crate::session::Session;

tokio::task_local! {
    static CURRENT: Session;
}

/// Runs a handler as a request of this session: [`current_session`] returns the session
/// in the handler and in all that it awaits.
///
/// A task that the handler spawns does not inherit the session; call this again there.
/// Cancel-safe as far as `handler` is.
pub async fn with_session<F: Future>(session: Session, handler: F) -> F::Output {
    CURRENT.scope(session, handler).await
}

/// The session of the current request; `None` outside of a request.
pub fn current_session() -> Option<Session> {
    CURRENT.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_current_session_is_known_inside_a_request_and_nowhere_else() {
        assert!(current_session().is_none());
        let (a, b) = (Session::new("a"), Session::new("b"));
        with_session(a.clone(), async {
            assert!(current_session().unwrap().same(&a));
            tokio::task::yield_now().await;
            with_session(b.clone(), async {
                assert!(current_session().unwrap().same(&b));
            })
            .await;
            assert!(current_session().unwrap().same(&a));
        })
        .await;
        assert!(current_session().is_none());
    }

    #[tokio::test]
    async fn a_spawned_task_is_outside_the_request() {
        let mut tasks = tokio::task::JoinSet::new();
        with_session(Session::new("a"), async {
            tasks.spawn(async { current_session().is_none() });
        })
        .await;
        assert!(tasks.join_next().await.unwrap().unwrap());
    }
}
