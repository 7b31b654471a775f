//! Requests for all namespaces of a server that is confined to some: one per namespace, and
//! the answers together. Without `--allowed-namespaces` it is one request for all.

use futures_util::{StreamExt, stream};

use super::{
    allowed::name_selector,
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
    kinds::ApiKind,
    list::{ListQuery, Page, Remaining},
    name::Name,
    read_only::RefusedRequest,
};

/// Namespaces that are asked at the same time.
const CONCURRENCY: usize = 8;

/// Namespaces that one answer can come from.
const NAMESPACES_MAX: usize = 200;

/// Namespaces whose names are read to find those that match a pattern.
const LISTED_MAX: u32 = 5000;

/// Answers of several namespaces, and those that did not answer.
pub(super) struct Answers<T> {
    pub(super) all: Vec<T>,
    /// Namespaces that are missing, and why.
    pub(super) caveat: Option<String>,
}

impl Cluster {
    /// The namespaces that are asked when a request names none; `None` is all at once.
    ///
    /// # Errors
    /// The operator does not allow the named namespace, or the names cannot be read.
    pub(super) async fn namespaces_to_ask(
        &self,
        named: Option<&Name>,
    ) -> Result<Option<Vec<Name>>, ClusterError> {
        let allowed = &self.scope().namespaces;
        if let Some(name) = named {
            let checked = self.scope().check_namespace(name.as_str());
            checked.map_err(|refused| self.refusal("read", Some(name.as_str()), &refused))?;
            return Ok(Some(vec![name.clone()]));
        }
        if !allowed.is_restricted() {
            return Ok(None);
        }
        let names = match allowed.literal() {
            Some(names) => names.into_iter().map(str::to_owned).collect(),
            None => self.first_namespace_names(LISTED_MAX).await?.0,
        };
        if names.len() > NAMESPACES_MAX {
            return Err(ClusterError::invalid(
                format!("cannot read all namespaces of context `{}`", self.context()),
                format!("{} are allowed, which is too many at once", names.len()),
                "name one of them; namespaces_list shows them",
            ));
        }
        let names = names.iter().map(|name| Name::label("namespace", name));
        names.collect::<Result<_, _>>().map(Some)
    }

    /// Asks the named namespace, or each that may be read, or all at once.
    pub(super) async fn each_namespace<T, F>(
        &self,
        named: Option<&Name>,
        ask: impl Fn(Option<Name>) -> F,
    ) -> Result<Answers<T>, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let namespaces = match self.namespaces_to_ask(named).await? {
            Some(names) => names.into_iter().map(Some).collect(),
            None => vec![None],
        };
        gather(
            namespaces,
            |name: &Option<Name>| name.as_ref().map(ToString::to_string).unwrap_or_default(),
            ask,
        )
        .await
    }

    /// A list query as one query for each namespace that may be read. Of kinds without a
    /// namespace, Namespaces are listed one by one, and others are refused.
    pub(super) async fn each_query<T, F>(
        &self,
        kind: &ApiKind,
        query: &ListQuery,
        ask: impl Fn(ListQuery) -> F,
    ) -> Result<Answers<T>, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let restricted = self.scope().namespaces.is_restricted();
        let queries = if kind.namespaced {
            match self.namespaces_to_ask(query.namespace.as_ref()).await? {
                Some(names) => names.into_iter().map(|name| query.within(name)).collect(),
                None => vec![query.clone()],
            }
        } else if !restricted {
            vec![query.clone()]
        } else if kind.is_namespace() {
            self.namespace_queries(query).await?
        } else {
            let refused = RefusedRequest::ClusterWide(kind.full_name());
            return Err(self.refusal("list", None, &refused));
        };
        let label = |query: &ListQuery| {
            let name = query.namespace.as_ref().map(ToString::to_string);
            name.unwrap_or_else(|| query.field_selector.clone().unwrap_or_default())
        };
        gather(queries, label, ask).await
    }

    /// A query for each Namespace that may be read.
    pub(super) async fn namespace_queries(
        &self,
        query: &ListQuery,
    ) -> Result<Vec<ListQuery>, ClusterError> {
        let Some(names) = self.namespaces_to_ask(None).await? else {
            return Ok(vec![query.clone()]);
        };
        let own = query.field_selector.as_deref();
        let one = |name: Name| ListQuery {
            namespace: None,
            field_selector: Some(name_selector(name.as_str(), own)),
            ..query.clone()
        };
        Ok(names.into_iter().map(one).collect())
    }

    /// The error of a request that is not made.
    pub(super) fn refusal(
        &self,
        verb: &'static str,
        namespace: Option<&str>,
        refused: &RefusedRequest,
    ) -> ClusterError {
        let operation = Operation {
            verb,
            resource: "objects",
            name: None,
            namespace,
            context: self.context(),
        };
        ClusterError::refused(&operation, refused)
    }
}

/// Asks a few at a time, in order. What fails is named, unless everything does.
pub(super) async fn gather<Q, T, F>(
    questions: Vec<Q>,
    label: impl Fn(&Q) -> String,
    ask: impl Fn(Q) -> F,
) -> Result<Answers<T>, ClusterError>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    let asked = questions.into_iter().map(|question| {
        let label = label(&question);
        let answer = ask(question);
        async move { (label, answer.await) }
    });
    let answers: Vec<_> = stream::iter(asked).buffered(CONCURRENCY).collect().await;
    let (mut all, mut missing, mut failure) = (Vec::new(), Vec::new(), None);
    for (label, answer) in answers {
        match answer {
            Ok(answer) => all.push(answer),
            // The caller renews the credentials and asks again.
            Err(error) if error.kind() == ErrorKind::Unauthorized => return Err(error),
            Err(error) => {
                missing.push(format!("{label} ({})", error.kind().as_str()));
                failure = Some(error);
            }
        }
    }
    match failure {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(Answers {
            all,
            caveat: (!missing.is_empty()).then(|| format!("not read: {}", missing.join(", "))),
        }),
    }
}

// === impl ListQuery ===

impl ListQuery {
    /// The same query for one namespace.
    fn within(&self, namespace: Name) -> Self {
        Self {
            namespace: Some(namespace),
            ..self.clone()
        }
    }
}

// === impl Answers ===

impl<T> Answers<Page<T>> {
    /// One page with the first rows of all.
    pub(super) fn into_page(self, limit: usize) -> Page<T> {
        let mut caveats: Vec<_> = self.caveat.into_iter().collect();
        let (mut items, mut more) = (Vec::new(), Remaining::NONE);
        for page in self.all {
            items.extend(page.items);
            caveats.extend(page.caveat);
            more = match (more, page.more) {
                (Remaining::Exactly(a), Remaining::Exactly(b)) => Remaining::Exactly(a + b),
                (a, Remaining::Exactly(b)) => a.plus(b),
                (a, Remaining::AtLeast(b)) => Remaining::AtLeast(a.count() + b),
            };
        }
        let excess = items.len().saturating_sub(limit);
        items.truncate(limit);
        Page {
            items,
            more: more.plus(excess),
            caveat: (!caveats.is_empty()).then(|| caveats.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: ErrorKind) -> ClusterError {
        ClusterError::new(kind, "cannot list", "no", None)
    }

    #[tokio::test]
    async fn what_does_not_answer_is_named_unless_nothing_does() {
        let ask = async |answer: &Result<u32, ErrorKind>| answer.map_err(failed);
        let label = |answer: &&Result<u32, ErrorKind>| format!("{answer:?}");
        let some = [Ok(1), Err(ErrorKind::Forbidden), Ok(2)];
        let answers = gather(some.iter().collect(), label, ask).await.unwrap();
        assert_eq!(answers.all, [1, 2]);
        assert_eq!(
            answers.caveat.unwrap(),
            "not read: Err(Forbidden) (forbidden)"
        );
        for kind in [ErrorKind::Forbidden, ErrorKind::Unauthorized] {
            let others = if kind == ErrorKind::Forbidden {
                Err(kind)
            } else {
                Ok(1)
            };
            let all = [others, Err(kind)];
            let answers = gather(all.iter().collect(), label, ask).await;
            assert_eq!(answers.err().map(|error| error.kind()), Some(kind));
        }
    }

    #[test]
    fn pages_become_one_and_what_is_left_out_is_counted() {
        let page = |items: &[u8], more| Page::new(items.to_vec(), more);
        let answers = |all| Answers { all, caveat: None };
        let both = answers(vec![
            page(&[1, 2], Remaining::Exactly(3)),
            page(&[3, 4], Remaining::NONE),
        ]);
        let both = both.into_page(3);
        assert_eq!(
            (both.items, both.more),
            (vec![1, 2, 3], Remaining::Exactly(4))
        );
        let vague = answers(vec![
            page(&[1], Remaining::AtLeast(2)),
            page(&[2], Remaining::Exactly(1)),
        ]);
        assert_eq!(vague.into_page(9).more, Remaining::AtLeast(3));
    }
}
