//! An incident in one line that agents take whole: those that are told by lines cut them.

use super::line::one_line;
use crate::notification::{Incident, Notification};

/// The longest line, in bytes. Claude Code cuts what a monitor prints at 500 characters.
const BRIEF_MAX: usize = 499;

/// What is kept of a name that is longer than any sensible one.
const NAME_MAX: usize = 100;

/// How bad, what and why, which one, and how to get more.
pub(crate) fn brief(
    notification: &Notification,
    incident: &Incident,
    name_context: bool,
) -> String {
    let word = match (incident.transition.as_str(), incident.severity.as_str()) {
        ("resolved", _) => "resolved".to_owned(),
        (_, "critical") => "CRITICAL".to_owned(),
        (_, severity) => one_line(severity),
    };
    let id = cut(&one_line(&incident.id), NAME_MAX);
    let context = if name_context {
        format!(
            ", context {}",
            cut(&one_line(&notification.cluster), NAME_MAX)
        )
    } else {
        String::new()
    };
    let more = format!(" [{id}] More: faults_get with faultId {id}{context}");
    let word = cut(&word, NAME_MAX);
    let room = BRIEF_MAX.saturating_sub(word.len() + 1 + more.len());
    format!("{word} {}{more}", cut(&one_line(&incident.headline), room))
}

/// At most that many bytes of a text, with an ellipsis if it is cut.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let end = (0..=room).rev().find(|&end| text.is_char_boundary(end));
    format!("{}…", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(incident: serde_json::Value, name_context: bool) -> String {
        let data = json!({"cluster": "dev", "incident": incident});
        let notification = Notification::parse(&data).unwrap();
        let incident = notification.incident.as_ref().unwrap();
        brief(&notification, incident, name_context)
    }

    #[test]
    fn the_essentials_come_first() {
        let mut incident = json!({"id": "i-3f9ac52e1d", "transition": "opened",
            "severity": "critical", "headline": "shop/deployment/payment: all 3 pods crash"});
        assert_eq!(
            shown(incident.clone(), false),
            "CRITICAL shop/deployment/payment: all 3 pods crash [i-3f9ac52e1d] \
             More: faults_get with faultId i-3f9ac52e1d"
        );
        incident["transition"] = json!("resolved");
        assert_eq!(
            shown(incident, true),
            "resolved shop/deployment/payment: all 3 pods crash [i-3f9ac52e1d] \
             More: faults_get with faultId i-3f9ac52e1d, context dev"
        );
    }

    proptest! {
        #[test]
        fn it_is_one_line_under_500_bytes_and_never_without_the_id(
            headline in "\\PC{0,600}|[\\n\\x1b a]{0,600}",
            severity in ".{0,300}",
        ) {
            let line = shown(json!({"id": "i-0123456789", "transition": "opened",
                "severity": severity, "headline": headline}), true);
            prop_assert!(line.len() < 500, "{}", line.len());
            let is_one_line = !line.contains(['\n', '\u{1b}']);
            prop_assert!(is_one_line);
            prop_assert!(line.ends_with("faultId i-0123456789, context dev"));
        }
    }
}
