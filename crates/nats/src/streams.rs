//! The two streams: what they keep, and whose they are.

use std::{collections::HashMap, time::Duration};

use async_nats::jetstream::{
    self, Context, ErrorCode,
    context::{CreateStreamErrorKind, GetStreamErrorKind, RequestError, RequestErrorKind},
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};
use jiff::Timestamp;

use crate::{ConnectError, NatsConfig, error::innermost};

/// The meaning of subjects, headers and messages. Another number whenever it changes.
pub(crate) const FORMAT: u32 = 1;

const FORMAT_KEY: &str = "kubecrier-format";

/// Names of streams and subjects of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) fleet: String,
    pub(crate) records: String,
    pub(crate) log: String,
}

// === impl Names ===

impl Names {
    pub(crate) fn new(fleet: &str) -> Self {
        Self {
            fleet: fleet.to_owned(),
            records: format!("{fleet}-records"),
            log: format!("{fleet}-log"),
        }
    }

    /// The subject of a record, or with a wildcard those of several.
    pub(crate) fn record(&self, key: &str) -> String {
        format!("{}.records.{key}", self.fleet)
    }

    pub(crate) fn topic(&self, topic: &str) -> String {
        format!("{}.log.{topic}", self.fleet)
    }
}

/// Makes both streams, or adapts those that are there. Whether several servers of NATS keep them.
pub(crate) async fn ensure(
    jetstream: &Context,
    config: &NatsConfig,
    names: &Names,
    url: &str,
) -> Result<bool, ConnectError> {
    let mut has_replicas = false;
    for wanted in [records(config, names), log(config, names)] {
        has_replicas |= ensure_one(jetstream, wanted, url).await? > 1;
    }
    Ok(has_replicas)
}

/// Makes a stream, or adapts it; how many servers of NATS keep it.
async fn ensure_one(jetstream: &Context, wanted: Config, url: &str) -> Result<usize, ConnectError> {
    let name = wanted.name.clone();
    let refused = |what: &str, why: String| ConnectError::Refused {
        url: url.to_owned(),
        what: format!("{what} the stream `{name}`"),
        why,
    };
    let found = match jetstream.get_stream(&name).await {
        Ok(stream) => stream.cached_info().config.clone(),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(said)
                if said.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                // Two servers that start together make the same one.
                return create(jetstream, wanted, url).await;
            }
            GetStreamErrorKind::JetStream(said) => {
                return Err(of_jetstream(&said, &name, url, "show"));
            }
            GetStreamErrorKind::Request if is_no_responders(&error) => {
                return Err(ConnectError::JetStreamOff {
                    url: url.to_owned(),
                });
            }
            GetStreamErrorKind::Request
            | GetStreamErrorKind::EmptyName
            | GetStreamErrorKind::InvalidStreamName => {
                return Err(refused("show", innermost(&error)));
            }
        },
    };
    check_owner(&found, &wanted, url)?;
    let wanted = adapted(&found, &wanted);
    if found == wanted {
        return Ok(found.num_replicas);
    }
    tracing::info!(stream = name, "adapting a stream of the shared store");
    match jetstream.update_stream(&wanted).await {
        Ok(_) => Ok(wanted.num_replicas),
        Err(error) => match error.kind() {
            CreateStreamErrorKind::JetStream(said) => {
                Err(of_jetstream(&said, &name, url, "change"))
            }
            _ => Err(refused("change", innermost(&error))),
        },
    }
}

async fn create(jetstream: &Context, wanted: Config, url: &str) -> Result<usize, ConnectError> {
    let name = wanted.name.clone();
    let Err(error) = jetstream.create_stream(wanted.clone()).await else {
        return Ok(wanted.num_replicas);
    };
    match error.kind() {
        CreateStreamErrorKind::JetStream(said)
            if said.error_code() == ErrorCode::STREAM_NAME_EXIST =>
        {
            // Another server was faster, and began to count at another number.
            let found = jetstream.get_stream(&name).await;
            let found = found.map_err(|error| ConnectError::Refused {
                url: url.to_owned(),
                what: format!("show the stream `{name}`"),
                why: innermost(&error),
            })?;
            let found = &found.cached_info().config;
            check_owner(found, &wanted, url)?;
            Ok(found.num_replicas)
        }
        CreateStreamErrorKind::JetStream(said) => Err(of_jetstream(&said, &name, url, "make")),
        _ => Err(ConnectError::Refused {
            url: url.to_owned(),
            what: format!("make the stream `{name}`"),
            why: innermost(&error),
        }),
    }
}

fn records(config: &NatsConfig, names: &Names) -> Config {
    Config {
        name: names.records.clone(),
        description: Some("kubecrier: records that servers share".to_owned()),
        subjects: vec![names.record(">")],
        max_messages_per_subject: 1,
        max_messages: -1,
        max_bytes: -1,
        // A record that is in its time is never removed to make room for another.
        discard: DiscardPolicy::New,
        allow_message_ttl: true,
        ..common(config)
    }
}

fn log(config: &NatsConfig, names: &Names) -> Config {
    Config {
        name: names.log.clone(),
        description: Some("kubecrier: events that servers share".to_owned()),
        subjects: vec![names.topic(">")],
        max_messages_per_subject: -1,
        max_messages: -1,
        max_bytes: i64::try_from(config.log_max_bytes).unwrap_or(i64::MAX),
        max_age: config.log_max_age,
        discard: DiscardPolicy::Old,
        ..common(config)
    }
}

fn common(config: &NatsConfig) -> Config {
    Config {
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        num_replicas: config.replicas,
        allow_direct: true,
        // A stream that is made again, because its server had lost it, uses no number twice:
        // revisions and cursors of before mean nothing in it.
        first_sequence: u64::try_from(Timestamp::now().as_microsecond()).ok(),
        metadata: HashMap::from([(FORMAT_KEY.to_owned(), FORMAT.to_string())]),
        ..Config::default()
    }
}

/// Whether a stream was made by this program, in this format.
fn check_owner(found: &Config, wanted: &Config, url: &str) -> Result<(), ConnectError> {
    let foreign = |why: &str| ConnectError::Foreign {
        url: url.to_owned(),
        stream: wanted.name.clone(),
        why: why.to_owned(),
    };
    let format = (found.metadata.get(FORMAT_KEY))
        .ok_or_else(|| foreign(&format!("its metadata has no `{FORMAT_KEY}`")))?;
    if *format != FORMAT.to_string() {
        return Err(ConnectError::Format {
            url: url.to_owned(),
            stream: wanted.name.clone(),
            found: format.chars().take(20).collect(),
            ours: FORMAT,
        });
    }
    if found.storage != wanted.storage || found.retention != wanted.retention {
        return Err(foreign("it is kept in another way"));
    }
    if found.subjects != wanted.subjects {
        return Err(foreign("it has other subjects"));
    }
    Ok(())
}

/// A stream that was found, with what is needed of it. What an operator has given it beyond that
/// stays: more replicas, more room, a longer time, a place.
fn adapted(found: &Config, wanted: &Config) -> Config {
    // No limit is the largest one.
    let has_no_limit = found.max_bytes <= 0 || wanted.max_bytes <= 0;
    let has_no_end = found.max_age.is_zero() || wanted.max_age.is_zero();
    Config {
        max_messages_per_subject: wanted.max_messages_per_subject,
        max_messages: wanted.max_messages,
        max_bytes: if has_no_limit {
            -1
        } else {
            found.max_bytes.max(wanted.max_bytes)
        },
        max_age: if has_no_end {
            Duration::ZERO
        } else {
            found.max_age.max(wanted.max_age)
        },
        discard: wanted.discard,
        num_replicas: found.num_replicas.max(wanted.num_replicas),
        allow_direct: wanted.allow_direct,
        allow_message_ttl: wanted.allow_message_ttl,
        ..found.clone()
    }
}

fn of_jetstream(said: &jetstream::Error, stream: &str, url: &str, what: &str) -> ConnectError {
    let (url, stream, why) = (url.to_owned(), stream.to_owned(), said.to_string());
    match said.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            ConnectError::JetStreamOff { url }
        }
        ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::MAXIMUM_STREAMS_LIMIT
        | ErrorCode::STREAM_MAX_BYTES_REQUIRED => ConnectError::NoRoom { url, stream, why },
        ErrorCode::STREAM_SUBJECT_OVERLAP => ConnectError::Foreign { url, stream, why },
        _ => ConnectError::Refused {
            url,
            what: format!("{what} the stream `{stream}`"),
            why,
        },
    }
}

fn is_no_responders(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let of_request = error.downcast_ref::<RequestError>();
        if of_request.is_some_and(|error| error.kind() == RequestErrorKind::NoResponders) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_raised_is_never_lowered_and_what_is_less_is_raised() {
        let wanted = log(&NatsConfig::default(), &Names::new("kubecrier"));
        let raised = Config {
            num_replicas: 3,
            max_bytes: wanted.max_bytes * 2,
            max_age: wanted.max_age * 2,
            ..wanted.clone()
        };
        assert_eq!(adapted(&raised, &wanted), raised);
        assert_eq!(adapted(&wanted, &raised), raised);
        let unlimited = Config {
            max_bytes: -1,
            max_age: Duration::ZERO,
            ..wanted.clone()
        };
        assert_eq!(adapted(&unlimited, &wanted), unlimited);
        let broken = Config {
            allow_direct: false,
            ..wanted.clone()
        };
        assert_eq!(adapted(&broken, &wanted), wanted);
    }
}
