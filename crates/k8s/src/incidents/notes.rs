//! What a reader should know of a list: kinds that are missing or out of date.

use std::collections::BTreeSet;

use kubecrier_k8s_api::BuiltinKind;

use super::kinds::{blind_without, is_optional};
use crate::{
    error::ErrorKind,
    kind_watch::{KindStatus, KindStatuses},
};

/// What a note begins with whose kinds are out of date.
pub(super) const STALE: &str = "may be out of date";

/// A note for the kinds that may not be read, for those that could not be read, and for those
/// that are out of date. Each reason is said once.
pub(super) fn of_kinds(statuses: &KindStatuses<&'static BuiltinKind>) -> Vec<String> {
    let (mut forbidden, mut failed, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, status) in statuses.iter() {
        match status {
            KindStatus::Pending | KindStatus::Watching => {}
            KindStatus::Stale(reason) => stale.push((*kind, reason)),
            KindStatus::LeftOut(error, reason) => match error.kind() {
                ErrorKind::NotFound if is_optional(kind) => {}
                ErrorKind::Forbidden => forbidden.push((*kind, reason)),
                _ => failed.push((*kind, reason)),
            },
        }
    }
    let mut notes = Vec::new();
    if let Some((_, reason)) = forbidden.first() {
        let (kinds, unseen) = (plurals(&forbidden), unseen(&forbidden));
        notes.push(match forbidden.len() {
            1 => format!("left out: {reason}{unseen}"),
            _ => format!("left out, may not be read: {kinds}{unseen}"),
        });
    }
    if let Some((_, reason)) = failed.first() {
        let (kinds, unseen) = (plurals(&failed), unseen(&failed));
        notes.push(format!("left out: {kinds}: {reason}{unseen}"));
    }
    if let Some((_, reason)) = stale.first() {
        let kinds = plurals(&stale);
        notes.push(format!("{STALE}: {kinds}: {reason}"));
    }
    notes
}

fn plurals(kinds: &[(&'static BuiltinKind, &String)]) -> String {
    let plurals: Vec<_> = kinds.iter().map(|(kind, _)| kind.plural).collect();
    plurals.join(", ")
}

/// The detectors that are blind without these kinds.
fn unseen(kinds: &[(&'static BuiltinKind, &String)]) -> String {
    let blind: BTreeSet<_> = kinds
        .iter()
        .flat_map(|(kind, _)| blind_without(kind))
        .collect();
    if blind.is_empty() {
        return String::new();
    }
    let blind: Vec<_> = blind.into_iter().collect();
    format!(" (not seen without: {})", blind.join(", "))
}
