//! The workload of the history on two embedded stores: blocks that grow with each commit, their
//! summaries beside them, every commit on the disk; then all summaries, the newest first, and
//! single blocks.
//!
//! `cargo run --release -- FOLDER [COMMITS]`

use std::{fs, path::Path, time::Instant};

/// Events of a commit, and the commits after which a block is sealed.
const EVENTS: u64 = 40;
const COMMITS_PER_BLOCK: u64 = 14;

trait Engine {
    fn put(&self, key: [u8; 12], block: &[u8], summary: &[u8]);
    fn summaries_newest_first(&self) -> (usize, usize);
    fn block(&self, key: [u8; 12]) -> usize;
}

struct Redb(redb::Database);
struct Fjall {
    db: fjall::Database,
    blocks: fjall::Keyspace,
    summaries: fjall::Keyspace,
}

const BLOCKS: redb::TableDefinition<'_, [u8; 12], &[u8]> = redb::TableDefinition::new("blocks");
const SUMMARIES: redb::TableDefinition<'_, [u8; 12], &[u8]> =
    redb::TableDefinition::new("summaries");

impl Engine for Redb {
    fn put(&self, key: [u8; 12], block: &[u8], summary: &[u8]) {
        let txn = self.0.begin_write().unwrap();
        txn.open_table(BLOCKS).unwrap().insert(key, block).unwrap();
        txn.open_table(SUMMARIES).unwrap().insert(key, summary).unwrap();
        txn.commit().unwrap();
    }

    fn summaries_newest_first(&self) -> (usize, usize) {
        use redb::{ReadableDatabase, ReadableTable};
        let txn = self.0.begin_read().unwrap();
        let table = txn.open_table(SUMMARIES).unwrap();
        let all = table.iter().unwrap().rev().map(|one| one.unwrap().1.value().len());
        all.fold((0, 0), |(count, bytes), len| (count + 1, bytes + len))
    }

    fn block(&self, key: [u8; 12]) -> usize {
        use redb::ReadableDatabase;
        let txn = self.0.begin_read().unwrap();
        let table = txn.open_table(BLOCKS).unwrap();
        table.get(key).unwrap().unwrap().value().len()
    }
}

impl Engine for Fjall {
    fn put(&self, key: [u8; 12], block: &[u8], summary: &[u8]) {
        let mut batch = self.db.batch();
        batch.insert(&self.blocks, key, block);
        batch.insert(&self.summaries, key, summary);
        batch.commit().unwrap();
        self.db.persist(fjall::PersistMode::SyncData).unwrap();
    }

    fn summaries_newest_first(&self) -> (usize, usize) {
        let all = self.summaries.iter().rev().map(|one| one.value().unwrap().len());
        all.fold((0, 0), |(count, bytes), len| (count + 1, bytes + len))
    }

    fn block(&self, key: [u8; 12]) -> usize {
        self.blocks.get(key).unwrap().unwrap().len()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let commits = arguments.next().map_or(20_000, |text| text.parse().unwrap());
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).unwrap();
    let mut builder = redb::Database::builder();
    builder.set_cache_size(48 << 20);
    let redb = Redb(builder.create(folder.join("redb")).unwrap());
    measure("redb", &redb, commits);
    drop(redb);
    println!("redb: {} MiB", disk(folder.join("redb").as_path()) >> 20);
    let db = fjall::Database::builder(folder.join("fjall")).open().unwrap();
    let blocks = db.keyspace("blocks", fjall::KeyspaceCreateOptions::default).unwrap();
    let summaries = db.keyspace("summaries", fjall::KeyspaceCreateOptions::default).unwrap();
    let fjall = Fjall { db, blocks, summaries };
    measure("fjall", &fjall, commits);
    drop(fjall);
    println!("fjall: {} MiB", disk(folder.join("fjall").as_path()) >> 20);
}

fn measure(name: &str, engine: &dyn Engine, commits: u64) {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let (mut raw, mut keys) = (Vec::new(), Vec::new());
    for commit in 0..commits {
        if commit % COMMITS_PER_BLOCK == 0 {
            raw.clear();
            keys.push(key(commit));
        }
        for number in commit * EVENTS..(commit + 1) * EVENTS {
            raw.extend_from_slice(event(number).as_bytes());
        }
        let block = lz4_flex::block::compress(&raw);
        engine.put(*keys.last().unwrap(), &block, &block[..block.len().min(1500)]);
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let each = 1e3 / commits as f64;
    println!("{name}: {commits} commits, {:.2} ms each, {:.2} ms of CPU each", took * each, cpu * each);
    for _ in 0..2 {
        let began = Instant::now();
        let (count, bytes) = engine.summaries_newest_first();
        let took = began.elapsed().as_secs_f64() * 1e3;
        println!("{name}: {count} summaries, {} KiB, newest first: {took:.1} ms", bytes >> 10);
    }
    let began = Instant::now();
    let some = keys.iter().step_by((keys.len() / 200).max(1));
    let (count, bytes) = some.fold((0, 0), |(count, bytes), key| (count + 1, bytes + engine.block(*key)));
    let took = began.elapsed().as_secs_f64() * 1e3 / f64::from(count);
    println!("{name}: a block of {} KiB: {took:.3} ms", bytes / 1024 / count as usize);
}

fn key(commit: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[4..].copy_from_slice(&commit.to_be_bytes());
    key
}

fn event(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let (space, pod) = (mixed % 200, mixed % 20_000);
    format!(
        r#"{{"eventId":"{mixed:08x}-1f2e-4d3c-9b8a-{number:012x}:1","event":{{"namespace":"team-{space}","timestamp":"2026-11-18T03:{:02}:00Z","type":"Warning","reason":"BackOff","message":"Back-off restarting failed container app in pod web-{pod}_team-{space}({mixed:08x}-aaaa-bbbb)","labels":{{"app":"web-{pod}","pod-template-hash":"7d4b9c6f5"}},"involvedObject":{{"apiVersion":"v1","kind":"Pod","name":"web-{pod}","namespace":"team-{space}","uid":"{mixed:08x}-aaaa-bbbb-cccc-dddddddddddd"}},"count":1,"source":"kubelet"}}}}"#,
        number / 12_000 % 60
    )
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = text.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| disk(&entry.unwrap().path())).sum(),
        Err(_) => fs::metadata(path).unwrap().blocks() * 512,
    }
}
