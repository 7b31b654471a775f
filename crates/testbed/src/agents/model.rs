//! A model that says `ok` to everything, in the words of four APIs, and keeps what it was asked.

use std::{convert::Infallible, sync::Arc, thread};

use anyhow::{Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    runtime,
    sync::oneshot,
    task::JoinSet,
    time::{Duration, Instant, sleep},
};

/// Serves on loopback, on a thread of its own.
pub(super) struct Model {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Closing the channel ends the thread.
    _running: oneshot::Sender<Infallible>,
}

/// A request to the model.
struct Asked {
    at: Timestamp,
    /// All texts in it.
    text: String,
}

// === impl Model ===

impl Model {
    pub(super) fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (running, stopped) = oneshot::channel();
        let kept = Arc::clone(&asked);
        thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    tokio::select! {
                        served = serve(listener, kept) => served,
                        _gone = stopped => Ok(()),
                    }
                })
            })?;
        Ok(Self {
            port,
            asked,
            _running: running,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// When the first request after `since` came that has the text.
    pub(super) async fn request_with(
        &self,
        text: &str,
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Timestamp> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = {
                let asked = self.asked.lock();
                let mut later = asked.iter().filter(|one| one.at >= since);
                later.find(|one| one.text.contains(text)).map(|one| one.at)
            };
            if let Some(at) = found {
                return Ok(at);
            }
            if Instant::now() > deadline {
                let count = self
                    .asked
                    .lock()
                    .iter()
                    .filter(|one| one.at >= since)
                    .count();
                bail!("{count} requests in {} s", timeout.as_secs());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn serve(listener: std::net::TcpListener, asked: Arc<Mutex<Vec<Asked>>>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let asked = Arc::clone(&asked);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&asked)));
            let connection = hyper::server::conn::http1::Builder::new();
            // A client may go at any time.
            let _gone = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    request: Request<Incoming>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Result<Response<Full<Bytes>>> {
    let at = Timestamp::now();
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut text = String::new();
    gather(&body, &mut text);
    asked.lock().push(Asked { at, text });
    let is_stream = body["stream"] == true;
    let events = match path.rsplit('/').next().unwrap_or_default() {
        "messages" if is_stream => messages(),
        "messages" => return respond("application/json", &message("end_turn").to_string()),
        "count_tokens" => return respond("application/json", "{\"input_tokens\": 1}"),
        "responses" => responses(),
        "completions" if is_stream => completions(),
        "completions" => return respond("application/json", &completion().to_string()),
        method if method.ends_with(":streamGenerateContent") => vec![("", generated())],
        method if method.ends_with(":generateContent") => {
            return respond("application/json", &generated().to_string());
        }
        method if method.ends_with(":countTokens") => {
            return respond("application/json", "{\"totalTokens\": 1}");
        }
        _ => return respond("application/json", "{\"data\": [], \"models\": []}"),
    };
    let events = events.into_iter().map(|(name, data)| {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("event: {name}\n")
        };
        format!("{name}data: {data}\n\n")
    });
    let mut text: String = events.collect();
    if path.ends_with("completions") {
        text.push_str("data: [DONE]\n\n");
    }
    respond("text/event-stream", &text)
}

fn respond(kind: &str, body: &str) -> Result<Response<Full<Bytes>>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    Ok(Response::builder()
        .header("content-type", kind)
        .body(body)?)
}

/// All strings of a value, a line each.
fn gather(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push_str(text);
            into.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|one| gather(one, into)),
        Value::Object(members) => members.values().for_each(|one| gather(one, into)),
        _ => {}
    }
}

/// Anthropic's Messages API.
fn message(stop: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
        "content": [{"type": "text", "text": "ok"}], "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}})
}

fn messages() -> Vec<(&'static str, Value)> {
    let mut begin = message("end_turn");
    begin["content"] = json!([]);
    begin["stop_reason"] = Value::Null;
    let events = [
        json!({"type": "message_start", "message": begin}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "ok"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "usage": {"output_tokens": 1},
            "delta": {"stop_reason": "end_turn", "stop_sequence": null}}),
        json!({"type": "message_stop"}),
    ];
    let names = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    names.into_iter().zip(events).collect()
}

/// OpenAI's Responses API.
fn responses() -> Vec<(&'static str, Value)> {
    let item = json!({"type": "message", "id": "m1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "ok", "annotations": []}]});
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0}});
    let response = |status: &str, output: Value| {
        json!({"id": "r1", "object": "response", "status": status, "output": output,
            "usage": usage})
    };
    let named = |name: &'static str, mut event: Value| {
        event["type"] = json!(name);
        (name, event)
    };
    vec![
        named(
            "response.created",
            json!({"response": response("in_progress", json!([]))}),
        ),
        named(
            "response.output_item.done",
            json!({"output_index": 0, "item": item}),
        ),
        named(
            "response.completed",
            json!({"response": response("completed", json!([item]))}),
        ),
    ]
}

/// OpenAI's Chat Completions API, which most others speak.
fn completion() -> Value {
    json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
}

fn completions() -> Vec<(&'static str, Value)> {
    let chunk = |delta: Value, finish: Value| {
        let event = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        ("", event)
    };
    vec![
        chunk(json!({"role": "assistant", "content": "ok"}), Value::Null),
        chunk(json!({}), json!("stop")),
    ]
}

/// Google's Gemini API.
fn generated() -> Value {
    json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"text": "ok"}]}}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1,
            "totalTokenCount": 2}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_answers_in_the_words_of_each_api_and_knows_what_it_was_asked() {
        let model = Model::start().unwrap();
        let began = Timestamp::now();
        let client = reqwest::Client::new();
        for (path, expected) in [
            ("/v1/messages?beta=true", "message_stop"),
            ("/v1/responses", "response.completed"),
            ("/v1/chat/completions", "data: [DONE]"),
            (
                "/v1beta/models/x:streamGenerateContent?alt=sse",
                "candidates",
            ),
        ] {
            let body = json!({"stream": true, "messages": [{"content": [{"text": path}]}]});
            let request = client.post(format!("{}{path}", model.url()));
            let answer = request.body(body.to_string()).send().await.unwrap();
            assert_eq!(answer.headers()["content-type"], "text/event-stream");
            let answer = String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap();
            assert!(answer.contains(expected), "{answer}");
            let soon = Duration::from_secs(5);
            model.request_with(path, began, soon).await.unwrap();
        }
        let never = model.request_with("never", began, Duration::ZERO).await;
        assert_eq!(never.unwrap_err().to_string(), "4 requests in 0 s");
    }
}
