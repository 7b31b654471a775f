//! Records in a stream that keeps the last message of each subject.
//!
//! A revision is the number of a message in the stream. A record that was deleted is a marker for
//! a short time, so that no reader and no conditional write takes an older one for it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_nats::{
    HeaderMap, HeaderValue, StatusCode,
    header::{NATS_MESSAGE_TTL, NATS_SUBJECT},
    jetstream::message::PublishMessage,
};
use bytes::Bytes;
use futures_util::StreamExt;
use kubecrier_history::{
    Registry, RegistryEntry as Entry, RegistryError, RegistryFuture, Revision, SetOutcome,
    check_key, check_record,
};

use crate::{
    failures::Doing,
    store::{Inner, Written},
};

/// Marks a message that says that there is no record any more, in the words of NATS' own
/// key-value stores.
const OPERATION: &str = "KV-Operation";
const DELETED: &str = "DEL";

/// How long the marker of a deleted record stays.
const MARKER_TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// Records in one answer of a list.
const PAGE_MAX: usize = 256;

/// Bytes in one answer of a list.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The records that servers share. A clone is the same.
#[derive(Clone)]
pub struct NatsRegistry {
    inner: Arc<Inner>,
}

/// Some of the records of a list.
struct Page {
    records: Vec<(String, Found)>,
    /// Number of the last one, if there may be more behind it.
    next_after: Option<u64>,
}

/// What a message of the stream says.
struct Found {
    number: u64,
    /// None is a marker.
    value: Option<Bytes>,
}

// === impl NatsRegistry ===

impl NatsRegistry {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    async fn find(&self, key: &str) -> Result<Option<Found>, RegistryError> {
        let names = &self.inner.names;
        let last = self.inner.last(&names.records, names.record(key));
        let last = self.inner.call(Doing::ReadRecords, last).await;
        let last = last.map_err(unavailable("read"))?;
        Ok(last.map(|message| Found {
            number: message.sequence,
            value: value_of(&message.headers, message.payload),
        }))
    }

    async fn write(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<Bytes>,
        time_to_live: Duration,
    ) -> Result<Written, RegistryError> {
        let mut message = PublishMessage::build()
            .header(NATS_MESSAGE_TTL, whole_seconds(time_to_live).to_string());
        if let Some(number) = expected {
            message = message.expected_last_subject_sequence(number);
        }
        message = match value {
            Some(value) => message.payload(value),
            None => message.header(OPERATION, DELETED),
        };
        let written = self.inner.publish(self.inner.names.record(key), message);
        let written = self.inner.call(Doing::WriteRecords, written).await;
        written.map_err(unavailable("written"))
    }

    /// Writes a record that must not be there.
    async fn create(
        &self,
        key: &str,
        value: Bytes,
        time_to_live: Duration,
    ) -> Result<SetOutcome, RegistryError> {
        let new = self.write(key, Some(0), Some(value.clone()), time_to_live);
        if let Written::At(number) = new.await? {
            return Ok(SetOutcome::Set(Revision::from(number)));
        }
        let expected = match self.find(key).await? {
            Some(Found { value: Some(_), .. }) => return Ok(SetOutcome::Conflict),
            Some(Found {
                number,
                value: None,
            }) => number,
            None => 0,
        };
        let over_marker = self.write(key, Some(expected), Some(value), time_to_live);
        Ok(outcome(&over_marker.await?))
    }

    /// Takes a record out of the stream, which is more work for NATS than a marker.
    async fn purge(&self, key: &str) -> Result<(), String> {
        let names = &self.inner.names;
        let stream = self.inner.jetstream.get_stream_no_info(&names.records);
        let stream = stream.await.map_err(|error| error.to_string())?;
        let purged = stream.purge().filter(names.record(key)).await;
        purged.map(drop).map_err(|error| error.to_string())
    }

    async fn page(&self, filter: &str, after: u64) -> Result<Page, String> {
        let client = &self.inner.client;
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|error| error.to_string())?;
        let asked = serde_json::json!({
            "seq": after + 1,
            "next_by_subj": filter,
            "batch": PAGE_MAX,
            "max_bytes": PAGE_BYTES_MAX,
        });
        let subject = format!("$JS.API.DIRECT.GET.{}", self.inner.names.records);
        let sent = client.publish_with_reply(subject, inbox, asked.to_string().into());
        sent.await.map_err(|error| error.to_string())?;
        let mut page = Page {
            records: Vec::new(),
            next_after: None,
        };
        let mut last = after;
        while let Some(answer) = answers.next().await {
            let headers = answer.headers.unwrap_or_default();
            match answer.status {
                None | Some(StatusCode::OK) => {}
                Some(StatusCode::NOT_FOUND) => return Ok(page),
                // The end of this answer.
                Some(status) if status.as_u16() == 204 => {
                    let more = number(&headers, "Nats-Num-Pending").unwrap_or_default();
                    page.next_after = (more > 0 && last > after).then_some(last);
                    return Ok(page);
                }
                Some(status) => {
                    let said = answer.description.unwrap_or_default();
                    return Err(format!("NATS says {status} {said}"));
                }
            }
            let subject = headers.get_last(NATS_SUBJECT).map(HeaderValue::as_str);
            let key = subject.and_then(|subject| {
                let prefix = self.inner.names.record("");
                subject.strip_prefix(&prefix).map(str::to_owned)
            });
            let (Some(key), Some(number)) = (key, number(&headers, "Nats-Sequence")) else {
                return Err("an answer of NATS has no subject or no sequence".to_owned());
            };
            last = number;
            let value = value_of(&headers, answer.payload);
            page.records.push((key, Found { number, value }));
        }
        Err("the answer broke off".to_owned())
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<(String, Entry)>, RegistryError> {
        let Some(filter) = filter(prefix) else {
            return Ok(Vec::new());
        };
        let filter = self.inner.names.record(&filter);
        let mut found = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.page(&filter, after);
            let page = self.inner.call(Doing::ReadRecords, page).await;
            let page = page.map_err(unavailable("read"))?;
            // What is written meanwhile comes again, behind: the later one holds.
            found.extend(page.records);
            match page.next_after {
                Some(last) => after = last,
                None => break,
            }
        }
        let of_prefix = found.into_iter().filter(|(key, _)| key.starts_with(prefix));
        let entries = of_prefix.filter_map(|(key, found)| {
            let revision = Revision::from(found.number);
            let value = found.value?;
            Some((key, Entry { value, revision }))
        });
        Ok(entries.collect())
    }
}

impl Registry for NatsRegistry {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<Entry>> {
        Box::pin(async move {
            check_key(key)?;
            let found = self.find(key).await?;
            Ok(found.and_then(|found| {
                let revision = Revision::from(found.number);
                let value = found.value?;
                Some(Entry { value, revision })
            }))
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        Box::pin(async move {
            check_record(key, &value)?;
            match self.write(key, None, Some(value), time_to_live).await? {
                Written::At(number) => Ok(Revision::from(number)),
                Written::Conflict => Err(unavailable("written")(
                    "NATS refuses a write that expects nothing".to_owned(),
                )),
            }
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        Box::pin(async move {
            check_record(key, &value)?;
            let Some(revision) = expected else {
                return self.create(key, value, time_to_live).await;
            };
            let expected = Some(revision.to_number());
            let written = self.write(key, expected, Some(value), time_to_live);
            Ok(outcome(&written.await?))
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        Box::pin(async move {
            check_key(key)?;
            let marked = self.write(key, None, None, MARKER_TIME_TO_LIVE);
            let Err(error) = marked.await else {
                return Ok(());
            };
            // A server that is full takes no marker either, and it needs the room.
            match self.inner.call_once(self.purge(key)).await {
                Ok(()) => Ok(()),
                Err(_) => Err(error),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, Entry)>> {
        Box::pin(self.list_all(prefix))
    }

    fn reconnects(&self) -> u64 {
        self.inner.link.watch().borrow().reconnects
    }

    fn is_failing(&self) -> bool {
        self.inner.link.has_failed(Doing::WriteRecords)
    }
}

impl fmt::Debug for NatsRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsRegistry")
            .field("url", &self.inner.url)
            .field("fleet", &self.inner.names.fleet)
            .finish_non_exhaustive()
    }
}

fn outcome(written: &Written) -> SetOutcome {
    match written {
        Written::At(number) => SetOutcome::Set(Revision::from(*number)),
        Written::Conflict => SetOutcome::Conflict,
    }
}

fn unavailable(doing: &'static str) -> impl Fn(String) -> RegistryError {
    move |why| RegistryError::Unavailable { doing, why }
}

fn value_of(headers: &HeaderMap, payload: Bytes) -> Option<Bytes> {
    let is_marker = headers
        .get(OPERATION)
        .is_some_and(|operation| operation.as_str() == DELETED);
    (!is_marker).then_some(payload)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get_last(name)?.as_str().parse().ok()
}

/// NATS takes whole seconds, from one on. A record is rather there for longer than for less.
fn whole_seconds(time: Duration) -> u64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    seconds.max(1)
}

/// The subjects that can have keys with a prefix: its whole parts, and anything behind them. None
/// if no key has it.
fn filter(prefix: &str) -> Option<String> {
    let whole = match prefix.rsplit_once('.') {
        Some((whole, _)) => {
            check_key(whole).ok()?;
            Some(whole)
        }
        None => None,
    };
    Some(whole.map_or_else(|| ">".to_owned(), |whole| format!("{whole}.>")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_becomes_the_subjects_that_can_have_it() {
        for (prefix, expected) in [
            ("", Some(">")),
            ("sess", Some(">")),
            ("session.", Some("session.>")),
            ("session.a", Some("session.>")),
            ("a.b.c", Some("a.b.>")),
            (".", None),
            ("a b.", None),
            ("*.", None),
        ] {
            assert_eq!(filter(prefix).as_deref(), expected, "{prefix}");
        }
    }

    #[test]
    fn a_time_to_live_is_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
