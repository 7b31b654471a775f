//! todo
use crate::sink::SendError;
pub(crate) fn known(_: &(dyn std::error::Error + 'static)) -> Option<SendError> {
    None
}
