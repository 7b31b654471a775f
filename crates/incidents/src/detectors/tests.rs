mod entries;
mod missing;
mod nodes;
mod plain;
mod sizes;

use std::{collections::BTreeSet, env, fs, path::Path};

use super::*;

const PAGE: &str = "../../docs/incidents.md";
const BEGIN: &str = "<!-- detectors -->\n";
const END: &str = "<!-- /detectors -->\n";

/// The table of detectors for people.
fn table() -> String {
    let mut rows =
        "| detector | finds | reads | before it opens / closes |\n|---|---|---|---|\n".to_owned();
    for Detector {
        name,
        sentence,
        kinds,
        hold: Hold { open, close },
        rank: _,
    } in DETECTORS
    {
        let kinds = kinds.join(", ");
        rows.push_str(&format!(
            "| `{name}` | {sentence} | {kinds} | {open:#} / {close:#} |\n"
        ));
    }
    rows
}

#[test]
fn the_table_for_people_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let made = format!("{before}{BEGIN}{}{END}{after}", table());
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == made,
        "make it again: UPDATE_DOCS=1 cargo test -p kubecrier-incidents the_table"
    );
}

#[test]
fn a_detector_has_one_name() {
    let names: BTreeSet<_> = DETECTORS.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), DETECTORS.len());
}
