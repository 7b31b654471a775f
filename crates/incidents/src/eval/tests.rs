use std::path::Path;

use super::{Case, Form, Scores, faults_list, load, notifications};

fn cases(folder: &str) -> Vec<Case> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases")
        .join(folder);
    let cases = load(&cases).unwrap();
    assert!(cases.len() >= 60, "{folder} has {} cases", cases.len());
    cases
}

fn scores(cases: &[Case], form: Form) -> Scores {
    let score = |case: &Case| {
        let case = case.in_form(form).unwrap();
        faults_list(&case).score(&case)
    };
    Scores(cases.iter().map(score).collect())
}

#[test]
fn the_true_object_is_named_first_with_its_cause() {
    let cases = cases("faults");
    for form in [Form::Live, Form::Replayed, Form::Orphaned, Form::Unshifted] {
        let scores = scores(&cases, form);
        assert_eq!(scores.below_bars(), [""; 0], "{form:?}: {scores}");
    }
}

#[test]
fn nobody_is_accused_in_a_healthy_cluster() {
    let cases = cases("healthy");
    for form in [Form::Live, Form::Replayed, Form::Orphaned, Form::Unshifted] {
        for score in scores(&cases, form).0 {
            let accused = &score.accused;
            assert!(accused.is_empty(), "{form:?} {}: {accused:?}", score.case);
        }
    }
}

#[test]
fn a_subscriber_is_told_of_each_incident_once() {
    for case in cases("faults").iter().step_by(8) {
        let told = notifications(case);
        assert!(told.is_calm(), "{}: {told:?}", case.name);
        assert!(
            told.opened > 0 || case.truth.object.is_empty(),
            "{}",
            case.name
        );
    }
}
