//! The checks of a body for the fuzz targets.

use super::MessageKind;
use crate::jsonrpc::{self, Checked, Shape};

/// What is decided about a body that is one message.
#[derive(Debug)]
pub struct CheckedBody {
    /// Whether it begins a session.
    pub begins_session: bool,
    /// Whether it counts as work.
    pub is_counted: bool,
    /// The number of its values.
    pub values: usize,
}

/// Checks a body as a request is checked.
///
/// # Errors
///
/// The answer to a body that is refused.
pub fn check_body(body: &[u8]) -> Result<CheckedBody, String> {
    let Checked { values, shape } = jsonrpc::check(body).map_err(|refusal| refusal.message)?;
    if shape == Shape::Batch {
        // Its messages are checked one by one.
        return Err("a batch is no message".to_owned());
    }
    let kind = MessageKind::of(body);
    Ok(CheckedBody {
        begins_session: kind == MessageKind::Initialize,
        is_counted: kind != MessageKind::Reply,
        values,
    })
}
