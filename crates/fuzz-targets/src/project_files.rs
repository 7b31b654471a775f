//! The files of a project folder: meta files and the registration.

use kubecrier_project::fuzzing::read_file;

/// Reads a file of a project in every format.
///
/// # Panics
///
/// If something does not hold.
pub fn project_files(input: &[u8]) {
    let read = read_file(input);
    for definition in &read.definitions {
        assert!(definition.is_object(), "{definition}");
        let name = definition["name"].as_str().expect("every item has a name");
        assert!(
            !name.is_empty() && !name.contains(char::is_control),
            "{name:?}"
        );
    }
    for reason in &read.rejections {
        // A text of the file may be quoted, with escapes.
        let most = 8 * input.len() + 1000;
        assert!(!reason.is_empty() && reason.len() <= most, "{reason}");
    }
    for value in read.variables.unwrap_or_default().into_values() {
        // It may become a part of a path, and of a provider's environment.
        let leads_upwards = value.split('/').any(|segment| segment == "..");
        assert!(!value.is_empty() && !leads_upwards, "{value:?}");
        assert!(!value.contains(['\0', '\\']), "{value:?}");
    }
}
