//! Records in memory, of one process.

use std::{collections::BTreeMap, future::ready};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::{
    Entry, Registry, RegistryError, RegistryFuture, Revision, SetOutcome, check_key, check_record,
};

/// A registry that ends with its process.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    // A lock for one operation on the map.
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    by_key: BTreeMap<String, (Entry, Instant)>,
    revisions: u64,
}

// === impl Records ===

impl Records {
    fn get(&self, key: &str) -> Option<Entry> {
        let (entry, until) = self.by_key.get(key)?;
        (*until > Instant::now()).then(|| entry.clone())
    }

    fn put(&mut self, key: &str, value: Bytes, time_to_live: Duration) -> Revision {
        let now = Instant::now();
        self.by_key.retain(|_, (_, until)| *until > now);
        self.revisions += 1;
        let revision = Revision::from(self.revisions);
        let entry = Entry { value, revision };
        self.by_key
            .insert(key.to_owned(), (entry, now + time_to_live));
        revision
    }
}

impl Registry for MemoryRegistry {
    fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<Entry>> {
        let found = check_key(key).map(|()| self.records.lock().get(key));
        Box::pin(ready(found))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, Revision> {
        let checked = check_record(key, &value);
        let put = checked.map(|()| self.records.lock().put(key, value, time_to_live));
        Box::pin(ready(put))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Bytes,
        time_to_live: Duration,
    ) -> RegistryFuture<'a, SetOutcome> {
        let set = || -> Result<SetOutcome, RegistryError> {
            check_record(key, &value)?;
            let mut records = self.records.lock();
            if records.get(key).map(|entry| entry.revision) != expected {
                return Ok(SetOutcome::Conflict);
            }
            Ok(SetOutcome::Set(records.put(key, value, time_to_live)))
        };
        Box::pin(ready(set()))
    }

    fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
        let deleted = check_key(key).map(|()| {
            self.records.lock().by_key.remove(key);
        });
        Box::pin(ready(deleted))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, Entry)>> {
        let records = self.records.lock();
        let now = Instant::now();
        let of_prefix = records.by_key.range(prefix.to_owned()..);
        let of_prefix = of_prefix.take_while(|(key, _)| key.starts_with(prefix));
        let alive = of_prefix.filter(|(_, (_, until))| *until > now);
        let found = alive.map(|(key, (entry, _))| (key.clone(), entry.clone()));
        Box::pin(ready(Ok(found.collect())))
    }
}
