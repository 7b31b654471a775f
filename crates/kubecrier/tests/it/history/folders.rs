//! Folders that cannot be used are refused at the start, by the name of the setting.

use std::fs;

use serde_json::Value;
use testbed::User;

use super::start;
use crate::harness::{command, one_context};

fn refused(arguments: &[&str]) -> String {
    let output = command()
        .args(["--port", "0"])
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{error}");
    error
}

#[tokio::test]
async fn a_folder_has_one_server() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let http = start(&file.path, &folder, &[]).await;
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["history"]["error"], Value::Null, "{stats}");
    assert!(
        stats["history"]["diskBytes"].as_u64().unwrap() > 0,
        "{stats}"
    );
    assert_eq!(http.get("/readyz").await.text().await.unwrap(), "ok\n");
    let folder = folder.to_str().unwrap();
    let kubeconfig = file.path.to_str().unwrap();
    let error = refused(&["--kubeconfig", kubeconfig, "--history", folder]);
    assert!(
        error.contains("in use by another server") && error.contains(folder),
        "{error}"
    );
    assert!(
        http.call("namespaces_list", serde_json::json!({}))
            .await
            .ok()
            .text
            .contains("default")
    );
}

#[test]
fn what_cannot_be_a_history_is_named() {
    let held = tempfile::tempdir().unwrap();
    fs::write(held.path().join("notes.txt"), "mine").unwrap();
    let foreign = held.path().to_str().unwrap();
    let error = refused(&["--history", foreign]);
    assert!(
        error.contains("--history") && error.contains("notes.txt"),
        "{error}"
    );
    let other = held.path().join("other");
    drop(kubecrier_history::Store::open(&other).unwrap());
    let meta: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    let db = redb::Database::open(other.join("history.redb")).unwrap();
    let txn = db.begin_write().unwrap();
    let format = b"2".as_slice();
    (txn.open_table(meta).unwrap())
        .insert("format", format)
        .unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = refused(&["--history", other.to_str().unwrap()]);
    assert!(
        error.contains("has format 2") && error.contains("with --history"),
        "{error}"
    );
    let error = refused(&["--history-max-age", "3d"]);
    assert!(
        error.contains("`history-max-age` needs `history`"),
        "{error}"
    );
    let error = refused(&["--history", "/tmp/x", "--history-max-age", "5m"]);
    assert!(error.contains("from 1h to 3650d"), "{error}");
}
