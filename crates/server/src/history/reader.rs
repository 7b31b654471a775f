//! One read of a history after a cursor: the next part in the order in which it was kept, or in
//! that of versions.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    by_version::{ReadOrder, VersionPage},
    record,
    resume::{
        Backlog, BacklogItem, EVIDENCE_MILLISECONDS, LATE_MILLISECONDS, OVERLAP_MILLISECONDS,
        is_split, kept_gap, missing_since,
    },
};
use kubecrier_core::{
    LabelsOf,
    filters::{Filters, Mode},
    subscriptions::{FeedLimits, ResumePoint, WatchStatus},
};
use kubecrier_history::{History, LogError, Position, Record, ResumeFrom, Stream};
use kubecrier_k8s::Contexts;

/// Records that one call looks at; the next one goes on.
pub(super) const RECORDS_MAX: usize = 300_000;

/// What is read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) history: &'a History,
    pub(super) contexts: &'a Contexts,
    pub(super) context: &'a str,
    pub(super) filters: &'a Filters,
    pub(super) point: ResumePoint,
    pub(super) order: ReadOrder,
    pub(super) room: FeedLimits,
    pub(super) records_max: usize,
}

/// What was found so far.
struct Reader<'a> {
    reading: Reading<'a>,
    backlog: Backlog,
    /// The items, if they are in the order of versions.
    page: Option<VersionPage>,
    bytes: usize,
    looked_at: usize,
    unlabelled: u64,
}

// === impl Reading ===

impl Reading<'_> {
    /// Reads from the disk.
    pub(super) fn read(mut self) -> Result<Backlog, LogError> {
        let tail = self.history.tail(self.context, Stream::Events)?;
        if Position::from(self.point.position) > tail {
            // This history has not given it: nothing is after it, though there may be more.
            self.point.position = 0;
        }
        let Self { point, filters, .. } = self;
        let is_split = is_split(self.contexts, filters);
        let overlap = match filters.mode() {
            _ if point.position > 0 => None,
            Mode::Faults => Some(point.time - EVIDENCE_MILLISECONDS),
            Mode::Events | Mode::Incidents => is_split.then(|| point.time - OVERLAP_MILLISECONDS),
        };
        let from = ResumeFrom {
            position: Position::from(point.position),
            version: point.version,
            since: overlap,
            not_before: point.time - LATE_MILLISECONDS,
        };
        let mut reader = Reader {
            backlog: Backlog {
                position: from.position,
                is_whole: true,
                ..Backlog::default()
            },
            page: VersionPage::new(self.order, point, self.room),
            bytes: 0,
            looked_at: 0,
            unlabelled: 0,
            reading: self,
        };
        let lost = match reader.page.take() {
            Some(page) => reader.read_by_version(page, from)?,
            None => reader.read_log(from)?,
        };
        reader.tell_losses(from.position, lost)?;
        Ok(reader.backlog)
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads in the order in which it was kept. Returns how many records are lost.
    fn read_log(&mut self, from: ResumeFrom) -> Result<u64, LogError> {
        let Reading {
            history,
            context,
            room,
            records_max,
            ..
        } = self.reading;
        let on_record = |position: Position, kept: Record| {
            let is_full = self.looked_at >= records_max
                || self.backlog.items.len() >= room.entries_max
                || self.bytes >= room.bytes_max;
            if is_full {
                self.backlog.is_whole = false;
                return false;
            }
            self.take(position, &kept);
            true
        };
        history.resume(context, Stream::Events, from, on_record)
    }

    /// Fills a page in the order of versions. Returns how many records are lost.
    fn read_by_version(&mut self, page: VersionPage, from: ResumeFrom) -> Result<u64, LogError> {
        let Reading {
            history,
            context,
            point,
            records_max,
            ..
        } = self.reading;
        let mut blocks = history.resume_by_version(context, Stream::Events, from, page.order())?;
        let mut unread = None;
        self.page = Some(page);
        while let (Some(edge), Some(page)) = (blocks.edge(), &mut self.page) {
            if page.ends_before(edge) {
                break;
            }
            if self.looked_at >= records_max && page.can_end_at(edge) {
                unread = Some(edge);
                break;
            }
            for (position, kept) in blocks.read_block()? {
                self.take(position, &kept);
            }
        }
        if let Some(page) = self.page.take() {
            let (items, is_whole, next) = page.end(point, unread);
            self.backlog.items = items;
            self.backlog.is_whole = is_whole;
            self.backlog.next = Some(next);
        }
        Ok(blocks.lost())
    }

    /// Takes what a record has for this reader.
    fn take(&mut self, position: Position, kept: &Record) {
        let Reading {
            contexts,
            filters,
            point,
            ..
        } = self.reading;
        self.looked_at += 1;
        self.backlog.position = position;
        self.backlog.version = self.backlog.version.max(kept.version);
        if kept.is_gap() {
            // One that ended before the cursor was told then.
            if kept.time > point.time
                && let Some(gap) = kept_gap(kept)
            {
                self.add(position, kept, BacklogItem::Gap(gap));
            }
        } else if filters.admits(&record::head(kept))
            && (self.page.as_mut()).is_none_or(|page| page.has_room_for(kept.version))
            && let Some(event) = record::to_event(kept, contexts)
            && filters.admits(&event)
        {
            if filters.admits_labels(&event) {
                self.add(position, kept, BacklogItem::Event(Arc::new(event)));
            } else if event.labels_of != LabelsOf::Involved {
                self.unlabelled += 1;
            }
        }
    }

    fn add(&mut self, position: Position, kept: &Record, item: BacklogItem) {
        let bytes = match &item {
            BacklogItem::Event(_) => kept.value.len(),
            BacklogItem::Gap(_) => 0,
        };
        match &mut self.page {
            None => {
                self.bytes += bytes;
                self.backlog.items.push((position, item));
            }
            Some(page) => page.add(position, (kept.version, kept.time), bytes, item),
        }
    }

    /// Tells what is not kept any more, and what cannot be decided.
    fn tell_losses(&mut self, from: Position, lost: u64) -> Result<(), LogError> {
        let Reading {
            history,
            context,
            point,
            ..
        } = self.reading;
        let since = missing_since(point);
        let mut tell = |detail: String| {
            let gap = BacklogItem::Gap(WatchStatus::Gap { since, detail });
            self.backlog.items.insert(0, (from, gap));
        };
        if point.position > 0 {
            if lost > 0 {
                tell(format!(
                    "{lost} records are not kept any more (--history-max-age, --history-max-bytes)"
                ));
            }
        } else if lost > 0 {
            // What was removed may all have been before the cursor.
            let oldest = history.oldest(context, Stream::Events)?;
            if oldest.is_none_or(|oldest| oldest > point.time) {
                let oldest = oldest.and_then(|oldest| Timestamp::from_millisecond(oldest).ok());
                let until = oldest.unwrap_or_else(Timestamp::now);
                tell(format!(
                    "what happened from {since} to {until} is not kept any more (--history-max-age, \
                     --history-max-bytes)"
                ));
            }
        }
        if self.unlabelled > 0 {
            let count = self.unlabelled;
            tell(format!(
                "{count} events were left out because the labels of their objects were not kept; \
                 events_list with since has them"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
