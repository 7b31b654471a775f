//! The body of a POST, and what a message in it names.

use kubecrier_server::fuzzing::{check_body, decode, normal_uri};
use serde_json::Value;

/// Checks the body of a POST, and compares with what the SDK reads in it.
///
/// # Panics
///
/// If something does not hold.
pub fn bodies(input: &[u8]) {
    let parsed = serde_json::from_slice::<Value>(input);
    let decoded = decode(input);
    match check_body(input) {
        Ok(checked) => {
            // A value takes at least one byte.
            assert!(checked.values <= input.len(), "{checked:?}");
            // A number may be too large for the full parser and yet be JSON.
            if let Ok(parsed) = &parsed {
                assert!(parsed.is_object(), "only an object is a message");
                assert!(!checked.begins_session || parsed["method"] == "initialize");
            }
            // Otherwise something could begin that no limit has counted.
            if let Some(message) = &decoded {
                assert!(
                    checked.begins_session || !message.is_initialize,
                    "{message:?}"
                );
                assert!(checked.is_counted || !message.is_request, "{message:?}");
            }
        }
        Err(answer) => {
            assert!(!parsed.is_ok_and(|parsed| parsed.is_object()), "{answer}");
            assert!(!answer.is_empty() && answer.len() < 300, "{answer}");
        }
    }
    if let Some(message) = decoded {
        let again = decode(message.text.as_bytes()).expect("a written message can be read");
        // Not the same text: a large number may be written as its neighbour.
        assert_eq!(again.is_request, message.is_request, "{message:?}");
        assert_eq!(again.uri, message.uri);
        if let Some(uri) = &message.uri {
            address(uri);
        }
    }
    if let Ok(text) = std::str::from_utf8(input) {
        address(text);
    }
}

fn address(uri: &str) {
    match normal_uri(uri) {
        Ok(normal) => assert_eq!(normal_uri(&normal), Ok(normal.clone()), "{uri}"),
        Err(error) => {
            // A part of the URI may be quoted, with escapes.
            let most = 8 * uri.len() + 1000;
            assert!(!error.contains(char::is_control), "{error:?}");
            assert!(!error.is_empty() && error.len() <= most, "{error}");
        }
    }
}
