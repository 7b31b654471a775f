use std::path::Path;

use super::{Scores, faults_list, load};

fn scores(folder: &str) -> Scores {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases")
        .join(folder);
    let cases = load(&cases).unwrap();
    assert!(cases.len() >= 60, "{folder} has {} cases", cases.len());
    Scores(
        cases
            .iter()
            .map(|case| faults_list(case).score(case))
            .collect(),
    )
}

#[test]
fn the_true_object_is_named_first_with_its_cause() {
    let scores = scores("faults");
    assert_eq!(scores.below_bars(), [""; 0], "{scores}");
}

#[test]
fn nobody_is_accused_in_a_healthy_cluster() {
    for score in scores("healthy").0 {
        assert!(
            score.accused.is_empty(),
            "{}: {:?}",
            score.case,
            score.accused
        );
    }
}
