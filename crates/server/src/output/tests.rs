use proptest::prelude::*;

use super::*;

const WORDS: Listing<String> = Listing {
    header: &["WORD"],
    cells: |word| vec![Cell::text(word)],
    composed: &[],
    plural: "words",
    narrow: "ask for less",
};

fn page(count: usize, more: Remaining) -> Page<String> {
    Page::new((0..count).map(|n| format!("word-{n}")).collect(), more)
}

#[test]
fn a_cut_list_says_how_much_is_missing() {
    let text = |output: Output| output.text;
    assert_eq!(
        text(WORDS.show(&Redactor::default(), page(0, Remaining::NONE), 100)),
        "no words found\n"
    );
    assert_eq!(
        text(WORDS.show(&Redactor::default(), page(1, Remaining::NONE), 100)),
        "WORD\nword-0\n"
    );
    let cut = text(WORDS.show(&Redactor::default(), page(1, Remaining::Exactly(3)), 100));
    assert_eq!(cut, "WORD\nword-0\n... 3 more; ask for less\n");
    let unsure = text(WORDS.show(&Redactor::default(), page(1, Remaining::AtLeast(3)), 100));
    assert!(unsure.ends_with("... at least 3 more; ask for less\n"));
}

#[test]
fn a_document_without_end_is_cut_at_a_line() {
    let page = Page::new(
        vec!["a: 1\n".repeat(1000), "b: 2\n".to_owned()],
        Remaining::NONE,
    );
    let output = show_documents(&Redactor::default(), "things", "ask for less", page, 400);
    assert!(
        output
            .text
            .contains("a: 1\n# ... 4800 more bytes of this object\n"),
        "{}",
        output.text
    );
    assert!(
        output.text.ends_with("... 1 more; ask for less\n"),
        "{}",
        output.text
    );
    assert_eq!(
        (&output.data["truncated"], &output.data["more"]["exactly"]),
        (&json!(true), &json!(1))
    );
    let page = Page::new(
        vec!["a: 1\n".to_owned(), "b: 2\n".to_owned()],
        Remaining::NONE,
    );
    assert_eq!(
        show_documents(&Redactor::default(), "things", "", page, 400).text,
        "a: 1\n---\nb: 2\n"
    );
    let none = show_documents(
        &Redactor::default(),
        "things",
        "",
        Page::new(Vec::new(), Remaining::NONE),
        400,
    );
    assert_eq!(none.text, "no things found\n");
}

proptest! {
    #[test]
    fn rows_shown_and_rows_missing_make_the_list(
        count in 0..200_usize, rest in 0..50_usize, bytes_max in 50..5000_usize,
    ) {
        let output = WORDS.show(&Redactor::default(), page(count, Remaining::Exactly(rest)), bytes_max);
        let shown = output.data["words"].as_array().unwrap().len();
        let missing = output.data["more"]["exactly"].as_u64().unwrap();
        prop_assert_eq!(shown as u64 + missing, (count + rest) as u64);
        let json = serde_json::to_string(&output.data["words"]).unwrap();
        prop_assert!(shown <= 1 || json.len() + output.text.len() <= bytes_max + 60);
        prop_assert_eq!(shown > 0, count > 0);
    }
}
