//! An incident as an event of CloudEvents 1.0 over HTTP.

use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::notice::Notice;

/// What types of events begin with.
const TYPE: &str = "io.github.kubecrier.incident";

/// What a value of a header may not have, as the HTTP binding specifies it.
const HEADER: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// What a segment of the source has as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// How an event is put into a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentMode {
    /// Attributes and data in one JSON object.
    #[default]
    Structured,
    /// Attributes in headers, the data as the body.
    Binary,
}

/// An event as a request: its headers and its body.
pub(crate) fn cloud_event(notice: &Notice, mode: ContentMode) -> (HeaderMap, Vec<u8>) {
    let attributes = attributes(notice);
    let mut headers = HeaderMap::new();
    let (content_type, body) = match mode {
        ContentMode::Structured => {
            let mut event = json!({"datacontenttype": "application/json", "data": notice.data()});
            for (name, value) in attributes {
                event[name] = Value::String(value);
            }
            ("application/cloudevents+json; charset=utf-8", event)
        }
        ContentMode::Binary => {
            for (name, value) in attributes {
                let name = HeaderName::try_from(format!("ce-{name}"));
                let value = utf8_percent_encode(&value, HEADER).to_string();
                if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
                    headers.insert(name, value);
                }
            }
            ("application/json; charset=utf-8", notice.data())
        }
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    (headers, body.to_string().into_bytes())
}

fn attributes(notice: &Notice) -> [(&'static str, String); 6] {
    let context = utf8_percent_encode(&notice.context, SEGMENT);
    [
        ("specversion", "1.0".to_owned()),
        ("id", notice.message_id()),
        ("source", format!("/kubecrier/{context}")),
        ("type", format!("{TYPE}.{}", notice.word())),
        ("subject", notice.incident().object.to_string()),
        ("time", notice.at.to_string()),
    ]
}
