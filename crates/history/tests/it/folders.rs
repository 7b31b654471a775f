//! Folders that are foreign, taken, damaged or of another version.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use kubecrier_history::{Log, OpenError, Record, Store, Stream};
use redb::ReadableDatabase as _;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    (folder, path)
}

fn refused(path: &Path) -> String {
    let error = Store::open(path).expect_err("it is refused").to_string();
    assert!(
        error.contains("--history") && error.contains(path.to_str().unwrap()),
        "{error}"
    );
    error
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_user_of_the_server_can_read_it() {
    let (_held, path) = folder();
    for _ in 0..2 {
        let store = Store::open(&path).unwrap();
        store
            .append("dev", Stream::Events, &[Record::default()])
            .unwrap();
        drop(store);
        assert_eq!(mode(&path), 0o700);
        for file in fs::read_dir(&path).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
        // As a restored backup may have it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let file = path.join("history.redb");
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

#[test]
fn a_folder_with_something_else_in_it_is_left_alone() {
    let (_held, path) = folder();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    assert!(refused(&path).contains("`notes.txt`"));
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    assert_ne!(mode(&path), 0o700, "nothing was changed");
}

#[test]
fn a_folder_has_one_server() {
    let (_held, path) = folder();
    let first = Store::open(&path).unwrap();
    assert!(matches!(Store::open(&path), Err(OpenError::InUse { .. })));
    assert!(refused(&path).contains("in use by another server"));
    drop(first);
    Store::open(&path).unwrap();
}

#[test]
fn a_file_that_is_no_store_is_named_and_left_alone() {
    let (_held, path) = folder();
    fs::create_dir(&path).unwrap();
    let file = path.join("history.redb");
    fs::write(&file, "x".repeat(10_000)).unwrap();
    assert!(refused(&path).contains("cannot be opened"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x".repeat(10_000));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused(&path);
}

/// It has the name of a store and is a database, but not one of this program.
#[test]
fn a_database_of_another_program_is_named_and_left_alone() {
    let numbers: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("numbers");
    let names: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    for with_meta in [false, true] {
        let (_held, path) = folder();
        fs::create_dir(&path).unwrap();
        let file = path.join("history.redb");
        let db = redb::Database::create(&file).unwrap();
        let txn = db.begin_write().unwrap();
        txn.open_table(numbers).unwrap().insert("one", 1).unwrap();
        if with_meta {
            let mut names = txn.open_table(names).unwrap();
            names.insert("owner", b"another".as_slice()).unwrap();
        }
        txn.commit().unwrap();
        drop(db);
        let error = refused(&path);
        assert!(error.contains("tables of another program"), "{error}");
        let db = redb::Database::open(&file).unwrap();
        let txn = db.begin_read().unwrap();
        let tables = txn.list_tables().unwrap().count();
        assert_eq!(tables, 1 + usize::from(with_meta), "nothing was added");
    }
    // What was created and never used is no one's.
    let (_held, path) = folder();
    fs::create_dir(&path).unwrap();
    drop(redb::Database::create(path.join("history.redb")).unwrap());
    Store::open(&path).unwrap();
}

#[test]
fn another_format_is_named() {
    let (_held, path) = folder();
    drop(Store::open(&path).unwrap());
    let meta: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    let db = redb::Database::open(path.join("history.redb")).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(meta)
        .unwrap()
        .insert("format", b"2".as_slice())
        .unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = refused(&path);
    assert!(
        error.contains("has format 2") && error.contains("reads format 1"),
        "{error}"
    );
}
