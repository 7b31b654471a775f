//! Detectors that are off, and other holds.

use super::*;

#[test]
fn detectors_are_switched_off_and_held_by_name() {
    let flags = [
        "--incidents.disable",
        "quota,budget",
        "--incidents.hold",
        "not-ready=5m/1m",
    ];
    let chosen = load(&flags, &[]).unwrap().incidents.options;
    assert!(chosen.is_disabled("quota") && chosen.is_disabled("budget"));
    assert!(!chosen.is_disabled("not-ready"));
    assert_eq!(chosen.hold("not-ready").open.as_secs(), 300);
    assert_eq!(chosen.hold("not-ready").close.as_secs(), 60);
    for (flag, value) in [
        ("--incidents.disable", "quotas"),
        ("--incidents.hold", "not-ready"),
        ("--incidents.hold", "not-ready=soon"),
        ("--incidents.hold", "none=5m"),
    ] {
        let error = refused(&[flag, value], &[]);
        assert!(
            error.contains(&flag[2..]) && error.contains("must be"),
            "{error}"
        );
    }
}

#[test]
fn detectors_are_chosen_by_keys_and_a_flag_counts_more() {
    let keys = "incidents_disable = [\"quota\", \"budget\"]\n\
                incidents_hold = [\"not-ready=5m/1m\", \"job=0\"]\n";
    let (_dir, path) = file(keys);
    let chosen = load(&["--config", &path], &[]).unwrap().incidents.options;
    assert!(chosen.is_disabled("quota") && chosen.is_disabled("budget"));
    assert!(!chosen.is_disabled("not-ready"));
    assert_eq!(chosen.hold("not-ready").open.as_secs(), 300);
    assert_eq!(chosen.hold("not-ready").close.as_secs(), 60);
    assert_eq!(chosen.hold("job").open.as_secs(), 0);
    let flag = ["--config", &path, "--incidents.disable", "node"];
    let chosen = load(&flag, &[]).unwrap().incidents.options;
    assert!(chosen.is_disabled("node") && !chosen.is_disabled("quota"));
    for key in [
        "incidents_disable = [\"quotas\"]",
        "incidents_hold = [\"quotas=5m\"]",
    ] {
        let (_dir, path) = file(key);
        let error = refused(&["--config", &path], &[]);
        assert!(error.contains("no detector `quotas`"), "{error}");
        for known in ["quota", "crash-loop", "node"] {
            assert!(error.contains(known), "{error}");
        }
    }
}
