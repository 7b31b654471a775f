use proptest::prelude::*;

use super::*;

fn key(id: &str) -> Key {
    Key {
        cluster: "dev".to_owned(),
        id: id.to_owned(),
    }
}

fn open<'a>(ids: &'a [&'a str], is_complete: bool) -> OpenList<'a> {
    OpenList {
        cluster: "dev",
        ids,
        is_complete,
    }
}

fn news(told: &mut Told, ids: &[&str], is_complete: bool) -> Vec<String> {
    let news = told.on_open(&[open(ids, is_complete)]).unwrap();
    let mut news: Vec<_> = news.into_iter().map(|key| key.id).collect();
    news.sort_unstable();
    news
}

fn step(told: &mut Told, id: &str, transition: &str) -> Telling {
    told.on_transition(&key(id), transition).unwrap()
}

#[test]
fn an_incident_is_told_once_until_it_is_over() {
    let mut told = Told::default();
    assert_eq!(news(&mut told, &["i-old"], true), [""; 0]);
    assert_eq!(step(&mut told, "i-new", "opened"), Telling::Tell);
    assert_eq!(step(&mut told, "i-new", "changed"), Telling::Update);
    assert_eq!(step(&mut told, "i-new", "opened"), Telling::Update);
    assert_eq!(step(&mut told, "i-new", "resolved"), Telling::Over);
    assert_eq!(step(&mut told, "i-new", "opened"), Telling::Tell);
    // What was open before is told if it changes, and its end only to who knew of it.
    assert_eq!(step(&mut told, "i-old", "changed"), Telling::Tell);
    assert_eq!(step(&mut told, "i-old", "resolved"), Telling::Over);
    assert_eq!(step(&mut told, "i-else", "resolved"), Telling::Nothing);
    // The same id in another cluster is another incident.
    let elsewhere = Key {
        cluster: "prod".to_owned(),
        id: "i-new".to_owned(),
    };
    let opened = told.on_transition(&elsewhere, "opened").unwrap();
    assert_eq!(opened, Telling::Tell);
}

#[test]
fn what_was_opened_while_nobody_listened_is_news_of_a_complete_list_only() {
    let mut told = Told::default();
    assert_eq!(news(&mut told, &["i-1"], true), [""; 0]);
    assert_eq!(news(&mut told, &["i-1", "i-2"], true), ["i-2"]);
    assert_eq!(news(&mut told, &["i-1", "i-2"], true), [""; 0]);
    assert_eq!(news(&mut told, &["i-1", "i-3"], false), [""; 0]);
    // It was resolved and came back in between.
    assert_eq!(news(&mut told, &["i-1"], true), [""; 0]);
    assert_eq!(news(&mut told, &["i-1", "i-2"], true), ["i-2"]);
}

#[test]
fn the_next_process_goes_on_where_the_last_one_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("told");
    let mut first = Told::from_file(&path).unwrap();
    assert!(
        !path.exists(),
        "an empty file would say that nothing is open"
    );
    assert_eq!(news(&mut first, &["i-1"], true), [""; 0]);
    assert_eq!(step(&mut first, "i-2", "opened"), Telling::Tell);
    drop(first);
    let mut second = Told::from_file(&path).unwrap();
    assert_eq!(news(&mut second, &["i-1", "i-2", "i-3"], true), ["i-3"]);
    assert_eq!(step(&mut second, "i-1", "changed"), Telling::Tell);
    assert_eq!(step(&mut second, "i-2", "changed"), Telling::Update);
    let nowhere = dir.path().join("nowhere/told");
    let refused = Told::from_file(&nowhere).unwrap_err().to_string();
    assert!(refused.contains("nowhere/told"), "{refused}");
    assert!(refused.contains("hint: --told"), "{refused}");
}

proptest! {
    /// Between two ends of an incident there is at most one beginning, whatever comes.
    #[test]
    fn never_twice(steps in prop::collection::vec((0..3_u8, 0..4_u8), 0..60)) {
        let mut told = Told::default();
        let mut open = [false; 3];
        for (incident, transition) in steps {
            let id = format!("i-{incident}");
            let word = ["opened", "changed", "changed", "resolved"][usize::from(transition)];
            let is_open = &mut open[usize::from(incident)];
            match told.on_transition(&key(&id), word).unwrap() {
                Telling::Tell => {
                    prop_assert!(!*is_open);
                    *is_open = true;
                }
                Telling::Update => prop_assert!(*is_open),
                Telling::Over => {
                    prop_assert!(*is_open && word == "resolved");
                    *is_open = false;
                }
                Telling::Nothing => prop_assert!(!*is_open && word == "resolved"),
            }
        }
    }

    #[test]
    fn a_line_of_the_file_is_read_as_it_was_written(id in "i-[0-9a-f]{10}", cluster in "[^\n]{1,40}") {
        let key = Key { cluster, id };
        for (_, known) in WORDS {
            let written = line((&key, &known));
            prop_assert_eq!(parse(written.trim_end_matches('\n')), Some((key.clone(), known)));
        }
    }

    #[test]
    fn fuzz_the_file(text in ".{0,200}") {
        let _any: Vec<_> = text.lines().filter_map(parse).collect();
    }
}
