//! Every state that controllers and the scheduler write, driven on the real ones, and what is
//! said about it.

use std::{env, fs};

use crate::stage::{Stage, shared};

#[test]
fn every_state_is_reached() {
    let Some(stage) = shared() else { return };
    assert_eq!(stage.unfinished(), [""; 0]);
}

#[test]
fn the_true_object_is_named_with_its_cause_and_nobody_else() {
    let Some(stage) = shared() else { return };
    let judged =
        stage
            .scenes()
            .iter()
            .filter_map(|scene| match (scene.judge(stage), &*scene.known_miss) {
                (Ok(()), "") => None,
                (Ok(()), known) => Some(format!("{} is no miss any more: {known}", scene.name)),
                (Err(wrong), "") => {
                    record(stage, &scene.name);
                    Some(wrong)
                }
                (Err(_), _known) => None,
            });
    let wrong: Vec<_> = judged.collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Writes the objects of a scene where somebody wants to read them.
fn record(stage: &Stage, scene: &str) {
    let Some(folder) = env::var_os("SCENES_TO") else {
        return;
    };
    let objects: Vec<_> = stage.objects(scene).collect();
    let path = std::path::Path::new(&folder).join(format!("{scene}.json"));
    fs::write(path, serde_json::to_string_pretty(&objects).unwrap()).unwrap();
}
