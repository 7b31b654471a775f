//! The requests that a question leads to, made plainly: sent, received and not looked at.

use anyhow::{Context, Result, ensure};
use kube::Client;

use super::{Asked, LOGGED, NAMESPACE, Question};

/// The API server itself, asked as the server asks it.
#[derive(Clone)]
pub(super) struct Plain {
    client: Client,
}

// === impl Plain ===

impl Plain {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    async fn get(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        let answer = self.client.request_text(request).await;
        answer.with_context(|| format!("GET {path}"))
    }

    /// All pages of a list.
    async fn all(&self, path: &str) -> Result<(usize, String)> {
        let first = self.get(path).await?;
        let (mut bytes, mut last) = (first.len(), first);
        while let Some(token) = continue_token(&last).map(str::to_owned) {
            last = self.get(&format!("{path}&continue={token}")).await?;
            bytes += last.len();
        }
        Ok((bytes, last))
    }
}

impl Asked for Plain {
    type Connection = ();

    async fn connect(&self) -> Result<()> {
        Ok(())
    }

    async fn ask(&self, (): &mut (), question: Question) -> Result<usize> {
        let space = format!("/api/v1/namespaces/{NAMESPACE}");
        let (bytes, last) = match question {
            Question::NamespacesList => {
                let answer = self.get("/api/v1/namespaces?limit=200").await?;
                (answer.len(), answer)
            }
            Question::PodsList => {
                let answer = self.get(&format!("{space}/pods?limit=100")).await?;
                (answer.len(), answer)
            }
            Question::PodsLog => {
                let pod = self.get(&format!("{space}/pods/{LOGGED}")).await?;
                let log = format!("{space}/pods/{LOGGED}/log?container=app&tailLines=101");
                let log = self.get(&log).await?;
                (pod.len() + log.len(), log)
            }
            Question::EventsList => self.all(&format!("{space}/events?limit=500")).await?,
        };
        let expected = question.expected();
        ensure!(
            last.contains(expected),
            "{question:?}: not what it should be"
        );
        Ok(bytes)
    }
}

/// The token of the next page, from the metadata at the beginning of a list.
fn continue_token(list: &str) -> Option<&str> {
    let head = list.get(..list.len().min(2048))?;
    let (_, rest) = head.split_once("\"continue\":\"")?;
    let (token, _) = rest.split_once('"')?;
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_while_it_has_a_token() {
        let list = r#"{"kind":"EventList","metadata":{"resourceVersion":"7","continue":"abc=","remainingItemCount":3},"items":[]}"#;
        assert_eq!(continue_token(list), Some("abc="));
        assert_eq!(continue_token(r#"{"metadata":{"continue":""}}"#), None);
        assert_eq!(continue_token(r#"{"metadata":{}}"#), None);
    }
}
