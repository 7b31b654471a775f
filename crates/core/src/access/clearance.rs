//! What a user may read of several kinds in one scope, decided together.
//!
//! For what is derived from many objects: it is derived again from those that the user may
//! read, so that nothing in it can tell of another.

use std::{collections::BTreeSet, fmt, sync::Arc};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    gate::Gate,
    question::Action,
    right::{Answer, Right},
    viewer::UserView,
};

/// Namespaces that are asked about for one user where it may not read all of them, by the first
/// of the actions; and those of them for which the other actions are asked about as well.
const NAMESPACES_ASKED_MAX: usize = 64;
const NAMESPACES_MAX: usize = 12;

/// Something that a user may be allowed, in namespaces or in the cluster as a whole.
#[derive(Clone, Debug)]
pub struct ScopedAction {
    /// The action.
    pub action: Action,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// Where it is decided.
#[derive(Clone, Copy, Debug)]
pub enum Within<'a> {
    /// In one namespace, and for what has none.
    Namespace(&'a str),
    /// In the cluster, which has something in these namespaces.
    Cluster(&'a BTreeSet<Arc<str>>),
}

/// Where a user may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// In all namespaces, or with what has none.
    Everywhere,
    /// In these.
    In(BTreeSet<Arc<str>>),
}

/// What a user may do, for each of several actions.
#[derive(Clone)]
pub struct Clearance {
    view: Arc<UserView>,
    context: Arc<str>,
    actions: Arc<[ScopedAction]>,
    /// In the order of the actions.
    extents: Vec<Extent>,
    /// The namespace, if it was decided for one.
    namespace: Option<Arc<str>>,
    /// Whether there are more namespaces than were asked about.
    is_cut: bool,
}

/// The cluster did not answer: nothing is known, and nothing may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it cannot be found out what you may read: the cluster does not answer, or too much is asked"
)]
pub struct Undecided;

// === impl Extent ===

impl Extent {
    /// Whether a namespace is in it; an empty name is that of an object without one.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In(namespaces) => namespaces.contains(namespace),
        }
    }

    fn nowhere() -> Self {
        Self::In(BTreeSet::new())
    }

    fn is_nowhere(&self) -> bool {
        matches!(self, Self::In(namespaces) if namespaces.is_empty())
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everywhere, _) => true,
            (Self::In(_), Self::Everywhere) => false,
            (Self::In(these), Self::In(those)) => those.is_subset(these),
        }
    }
}

// === impl Clearance ===

impl Clearance {
    /// Asks for all actions; those that are remembered are not asked for again, unless they are
    /// older than `since`. Of several namespaces, the first action decides which are looked at.
    pub async fn decide(
        view: &Arc<UserView>,
        context: &str,
        actions: &Arc<[ScopedAction]>,
        within: Within<'_>,
        since: Option<Instant>,
    ) -> Result<Self, Undecided> {
        let asking = Asking {
            view,
            context,
            since,
        };
        let (extents, is_cut) = match within {
            Within::Namespace(namespace) => (asking.in_namespace(actions, namespace).await?, false),
            Within::Cluster(namespaces) => asking.in_cluster(actions, namespaces).await?,
        };
        Ok(Self {
            view: Arc::clone(view),
            context: context.into(),
            actions: Arc::clone(actions),
            extents,
            namespace: match within {
                Within::Namespace(namespace) => Some(namespace.into()),
                Within::Cluster(_) => None,
            },
            is_cut,
        })
    }

    /// Where an action is allowed, by its number.
    pub fn extent(&self, number: usize) -> Option<&Extent> {
        self.extents.get(number)
    }

    /// The namespace, if it was decided for one and not for a cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether nothing at all is allowed.
    pub fn is_nothing(&self) -> bool {
        self.extents.iter().all(Extent::is_nowhere)
    }

    /// Whether some namespaces were not looked at, because there are too many.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The actions that are not allowed in all of the scope.
    pub fn missing(&self) -> impl Iterator<Item = &Action> {
        let actions = self.actions.iter().zip(&self.extents);
        let missing = actions.filter(|(_, extent)| match &self.namespace {
            Some(namespace) => !extent.contains(namespace),
            None => **extent != Extent::Everywhere,
        });
        missing.map(|(scoped, _)| &scoped.action)
    }

    /// Whether all that the other one allows is allowed by this one as well.
    pub fn covers(&self, other: &Self) -> bool {
        self.extents.len() == other.extents.len()
            && (self.extents.iter().zip(&other.extents)).all(|(these, those)| these.covers(those))
    }

    /// Whether both allow the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.extents == other.extents && self.is_cut == other.is_cut
    }

    /// Admits what was derived from these namespaces and from what has none, while all that was
    /// allowed then is allowed.
    pub fn gate(&self, namespaces: &BTreeSet<Arc<str>>) -> Gate {
        Gate::new(self.rights(namespaces))
    }

    fn rights(&self, namespaces: &BTreeSet<Arc<str>>) -> Vec<Arc<Right>> {
        let right = |action: &Action, namespace: &str| {
            (self.view).right(&self.context, action.clone(), namespace)
        };
        let mut rights = Vec::new();
        for (scoped, extent) in self.actions.iter().zip(&self.extents) {
            match extent {
                Extent::Everywhere => rights.push(right(&scoped.action, "")),
                Extent::In(allowed) => {
                    let used = allowed.intersection(namespaces);
                    rights.extend(used.map(|namespace| right(&scoped.action, namespace)));
                }
            }
        }
        rights
    }
}

impl fmt::Debug for Clearance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_map();
        for (scoped, extent) in self.actions.iter().zip(&self.extents) {
            shown.entry(&scoped.action.to_string(), extent);
        }
        shown.finish()
    }
}

/// One decision.
#[derive(Clone, Copy)]
struct Asking<'a> {
    view: &'a Arc<UserView>,
    context: &'a str,
    since: Option<Instant>,
}

// === impl Asking ===

impl Asking<'_> {
    async fn is_allowed(&self, action: &Action, namespace: &str) -> Result<bool, Undecided> {
        let right = (self.view).right(self.context, action.clone(), namespace);
        let answer = match self.since {
            Some(since) => right.decide_since(since).await,
            None => right.decide().await,
        };
        match answer {
            Answer::Allowed => Ok(true),
            Answer::Denied => Ok(false),
            Answer::Unknown => Err(Undecided),
        }
    }

    async fn in_namespace(
        &self,
        actions: &[ScopedAction],
        namespace: &str,
    ) -> Result<Vec<Extent>, Undecided> {
        let asked = actions.iter().map(async |scoped| {
            let within = if scoped.namespaced { namespace } else { "" };
            Ok(
                match (
                    self.is_allowed(&scoped.action, within).await?,
                    scoped.namespaced,
                ) {
                    (true, true) => Extent::In([namespace.into()].into()),
                    (true, false) => Extent::Everywhere,
                    (false, _) => Extent::nowhere(),
                },
            )
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn in_cluster(
        &self,
        actions: &[ScopedAction],
        namespaces: &BTreeSet<Arc<str>>,
    ) -> Result<(Vec<Extent>, bool), Undecided> {
        let wide = actions.iter().map(|one| self.is_allowed(&one.action, ""));
        let wide: Vec<bool> = join_all(wide).await.into_iter().collect::<Result<_, _>>()?;
        let extents = wide.into_iter().map(|is_allowed| {
            if is_allowed {
                Extent::Everywhere
            } else {
                Extent::nowhere()
            }
        });
        let mut extents: Vec<_> = extents.collect();
        let is_partial =
            |(scoped, extent): (&ScopedAction, &Extent)| scoped.namespaced && extent.is_nowhere();
        if !actions.iter().zip(&extents).any(is_partial) {
            return Ok((extents, false));
        }
        let (own, is_cut) = self.own_namespaces(actions, &extents, namespaces).await?;
        for (scoped, extent) in actions.iter().zip(&mut extents) {
            if is_partial((scoped, extent)) {
                *extent = Extent::In(self.allowed_in(&scoped.action, &own).await?);
            }
        }
        Ok((extents, is_cut))
    }

    /// The namespaces that are looked at, and whether there are more.
    async fn own_namespaces(
        &self,
        actions: &[ScopedAction],
        extents: &[Extent],
        namespaces: &BTreeSet<Arc<str>>,
    ) -> Result<(BTreeSet<Arc<str>>, bool), Undecided> {
        let named = namespaces.iter().filter(|name| !name.is_empty());
        let mut is_cut = named.clone().count() > NAMESPACES_ASKED_MAX;
        let mut own: BTreeSet<_> = named.take(NAMESPACES_ASKED_MAX).cloned().collect();
        if let (Some(first), Some(extent)) = (actions.first(), extents.first())
            && extent.is_nowhere()
        {
            own = self.allowed_in(&first.action, &own).await?;
        }
        while own.len() > NAMESPACES_MAX {
            own.pop_last();
            is_cut = true;
        }
        Ok((own, is_cut))
    }

    async fn allowed_in(
        &self,
        action: &Action,
        namespaces: &BTreeSet<Arc<str>>,
    ) -> Result<BTreeSet<Arc<str>>, Undecided> {
        let asked = namespaces.iter().map(async |namespace| {
            let is_allowed = self.is_allowed(action, namespace).await?;
            Ok(is_allowed.then(|| Arc::clone(namespace)))
        });
        let answers: Result<Vec<_>, Undecided> = join_all(asked).await.into_iter().collect();
        Ok(answers?.into_iter().flatten().collect())
    }
}
