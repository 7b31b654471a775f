use std::path::Path;

use super::{Case, Form, Scores, faults_list, load, notifications};

const FAULTS: (&str, usize) = ("faults", 60);
const HEALTHY: (&str, usize) = ("healthy", 60);

/// By an author who had seen neither the detectors nor the first cases.
const SECOND_FAULTS: (&str, usize) = ("second/faults", 60);
const SECOND_HEALTHY: (&str, usize) = ("second/healthy", 30);

/// The cases of a folder, of which there are at least so many.
fn cases((folder, least): (&str, usize)) -> Vec<Case> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases")
        .join(folder);
    let cases = load(&cases).unwrap();
    assert!(cases.len() >= least, "{folder} has {} cases", cases.len());
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
    for set in [FAULTS, SECOND_FAULTS] {
        let cases = cases(set);
        for form in [Form::Live, Form::Replayed, Form::Orphaned, Form::Unshifted] {
            let scores = scores(&cases, form);
            assert_eq!(scores.below_bars(), [""; 0], "{set:?} {form:?}: {scores}");
        }
    }
}

#[test]
fn nobody_is_accused_in_a_healthy_cluster() {
    for set in [HEALTHY, SECOND_HEALTHY] {
        let cases = cases(set);
        for form in [Form::Live, Form::Replayed, Form::Orphaned, Form::Unshifted] {
            for score in scores(&cases, form).0 {
                let accused = &score.accused;
                assert!(accused.is_empty(), "{form:?} {}: {accused:?}", score.case);
            }
        }
    }
}

#[test]
fn a_subscriber_is_told_of_each_incident_once() {
    for case in cases(FAULTS).iter().step_by(8) {
        let told = notifications(case);
        assert!(told.is_calm(), "{}: {told:?}", case.name);
        assert!(
            told.opened > 0 || case.truth.object.is_empty(),
            "{}",
            case.name
        );
    }
}
