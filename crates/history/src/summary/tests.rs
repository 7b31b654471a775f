use proptest::prelude::*;

use super::*;

fn summary(records: &[(String, String, String)]) -> Summary {
    let mut builder = SummaryBuilder::default();
    for (number, (namespace, name, reason)) in (0..).zip(records) {
        builder.add(&Record {
            time: number,
            version: 1,
            namespace: namespace.clone(),
            object_name: name.clone(),
            reason: reason.clone(),
            object_kind: "Pod".to_owned(),
            ..Record::default()
        });
    }
    builder.build(4096, 5)
}

proptest! {
    #[test]
    fn what_is_in_a_block_is_never_denied(
        records in prop::collection::vec(("[a-z]{1,9}", "[a-z]{1,9}", "[A-Z][a-z]{1,6}"), 1..200),
    ) {
        let read = Summary::decode(&summary(&records).encode()).unwrap();
        prop_assert_eq!(&read, &summary(&records));
        for (namespace, name, reason) in &records {
            prop_assert!(read.terms.may_have(Term::Namespace(namespace)));
            prop_assert!(read.terms.may_have(Term::Object(name)));
            prop_assert!(read.may_have_reason(reason) && read.may_have_reason(&reason[..1]));
        }
    }

    #[test]
    fn fuzz_a_summary_that_is_cut_is_none(cut in 0..1000_usize) {
        let bytes = summary(&[("shop".to_owned(), "web".to_owned(), "BackOff".to_owned())]).encode();
        prop_assert!(Summary::decode(&bytes[..cut % bytes.len()]).is_none());
    }
}

#[test]
fn few_blocks_are_opened_in_vain() {
    let records: Vec<_> = (0..500)
        .map(|n| (format!("ns-{n}"), format!("pod-{n}"), "Failed".to_owned()))
        .collect();
    let read = summary(&records);
    let wrong = (0..10_000).filter(|n| read.terms.may_have(Term::Object(&format!("other-{n}"))));
    assert!(wrong.count() < 200);
    assert!(!read.may_have_reason("Killing") && !read.may_have_reason("Failed2"));
    assert!(read.may_have_reason("Fail") && read.may_have_reason(""));
}

/// One that was written before the lowest version was kept has all the rest.
#[test]
fn an_older_summary_may_have_any_version() {
    let new = summary(&[("shop".to_owned(), "web".to_owned(), "BackOff".to_owned())]);
    let mut bytes = new.encode();
    bytes.truncate(bytes.len() - 8);
    let flags = 4 + 8 + 3 * 8 + 8;
    bytes[flags] &= !HAS_VERSION_MIN;
    let old = Summary::decode(&bytes).unwrap();
    assert_eq!((new.version_min, old.version_min), (1, 0));
    let version_min = 1;
    assert_eq!(Summary { version_min, ..old }, new);
}
