use proptest::prelude::*;
use rmcp::model::{
    EmptyResult, ErrorData, InitializeResult, RequestId, ServerCapabilities, ServerResult,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

struct Pipe {
    transport: StdioTransport<DuplexStream, DuplexStream>,
    stdin: Option<DuplexStream>,
    stdout: DuplexStream,
    session: Session,
    announced: CancellationToken,
}

impl Pipe {
    fn new() -> Self {
        let (stdin, input) = tokio::io::duplex(1 << 20);
        let (output, stdout) = tokio::io::duplex(1 << 20);
        let (session, announced) = (Session::new("pipe"), CancellationToken::new());
        Self {
            transport: StdioTransport::new((input, output), session.clone(), announced.clone()),
            stdin: Some(stdin),
            stdout,
            session,
            announced,
        }
    }

    /// A session that has agreed on a version.
    async fn at(version: &str) -> Self {
        let mut pipe = Self::new();
        let params = json!({"protocolVersion": version});
        let first = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        pipe.line(&first.to_string()).await;
        pipe.transport.receive().await.unwrap();
        let version = serde_json::from_value(json!(version)).unwrap();
        let result = InitializeResult::new(ServerCapabilities::default());
        let result = result.with_protocol_version(version);
        let result = ServerResult::InitializeResult(result);
        let answer = ServerJsonRpcMessage::response(result, RequestId::Number(0));
        pipe.transport.send(answer).await.unwrap();
        pipe.written().await;
        pipe
    }

    async fn line(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    /// The next message for rmcp, and the lines that the transport has written itself.
    async fn next(&mut self) -> (Option<Value>, Vec<Value>) {
        // Everything is there: a transport that waits has nothing for rmcp.
        let received = tokio::time::timeout(Duration::from_mins(1), self.transport.receive());
        let received = received.await.ok().flatten();
        let message = received.map(|message| serde_json::to_value(message).unwrap());
        (message, self.written().await)
    }

    async fn answer(&mut self, id: i64) {
        let result = ServerResult::EmptyResult(EmptyResult {});
        let answer = ServerJsonRpcMessage::response(result, RequestId::Number(id));
        self.transport.send(answer).await.unwrap();
    }

    async fn written(&mut self) -> Vec<Value> {
        let mut text = vec![0; 1 << 16];
        let reading = tokio::time::timeout(Duration::from_millis(1), self.stdout.read(&mut text));
        let count = reading.await.map_or(0, |read| read.unwrap());
        let lines = text[..count].split(|byte| *byte == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

fn codes(lines: &[Value]) -> Vec<(Value, Value)> {
    let code = |one: &Value| (one["id"].clone(), one["error"]["code"].clone());
    lines.iter().map(code).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_answered_and_the_next_one_is_taken() {
    let mut pipe = Pipe::new();
    for line in [
        "hello",
        "",
        "5",
        r#"{"jsonrpc":"2.0","id":4,"method":5}"#,
        r#"{"jsonrpc":"1.0","method":"a/notification"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","id":5,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":5}}"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r",
    ] {
        pipe.line(line).await;
    }
    let (message, written) = pipe.next().await;
    assert_eq!(message.unwrap()["id"], 7);
    let null = Value::Null;
    let expected = [
        (null.clone(), json!(-32700)),
        (null.clone(), json!(-32600)),
        (json!(4), json!(-32600)),
        (null, json!(-32600)),
        (json!(6), json!(-32602)),
    ];
    assert_eq!(codes(&written), expected);
}

#[tokio::test(start_paused = true)]
async fn an_initialize_may_leave_everything_out() {
    let mut pipe = Pipe::new();
    pipe.line(r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}"#)
        .await;
    let (message, written) = pipe.next().await;
    assert_eq!(message.unwrap()["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(written, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_by_one_array_at_its_version_and_refused_at_others() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},
        {"jsonrpc":"2.0","id":2,"method":"ping"},7,{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}]"#
        .replace('\n', "");
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut pipe = Pipe::at(version).await;
        pipe.line(&batch).await;
        let (message, written) = pipe.next().await;
        assert_eq!(message, None, "{version}");
        assert_eq!(codes(&written), [(Value::Null, json!(-32600))], "{version}");
    }
    let mut pipe = Pipe::at("2025-03-26").await;
    pipe.line(&batch).await;
    for id in [json!(1), Value::Null, json!(2)] {
        let (message, written) = pipe.next().await;
        assert_eq!(message.unwrap()["id"], id);
        assert_eq!(written, [Value::Null; 0]);
    }
    // In any order, and with others in between.
    pipe.answer(2).await;
    pipe.answer(99).await;
    assert_eq!(codes(&pipe.written().await), [(json!(99), Value::Null)]);
    pipe.answer(1).await;
    let written = pipe.written().await;
    let [Value::Array(answers)] = &written[..] else {
        panic!("{written:?}")
    };
    let expected = [
        (Value::Null, json!(-32600)),
        (json!(3), json!(-32600)),
        (json!(2), Value::Null),
        (json!(1), Value::Null),
    ];
    assert_eq!(codes(answers), expected);
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_requests_has_no_answer_and_a_cancelled_one_is_not_waited_for() {
    let mut pipe = Pipe::at("2025-03-26").await;
    pipe.line(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#)
        .await;
    let (message, written) = pipe.next().await;
    assert_eq!(message.unwrap()["method"], "notifications/initialized");
    assert_eq!(written, [Value::Null; 0]);
    pipe.line("[]").await;
    let (message, written) = pipe.next().await;
    assert_eq!(
        (message, codes(&written)),
        (None, vec![(Value::Null, json!(-32600))])
    );
    let ping = |id: i64| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    pipe.line(&json!([ping(1), ping(2)]).to_string()).await;
    pipe.next().await;
    pipe.next().await;
    pipe.answer(1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 2}});
    pipe.line(&cancel.to_string()).await;
    let (message, written) = pipe.next().await;
    assert_eq!(message.unwrap()["method"], "notifications/cancelled");
    let [Value::Array(answers)] = &written[..] else {
        panic!("{written:?}")
    };
    assert_eq!(codes(answers), [(json!(1), Value::Null)]);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_answers_and_for_what_is_to_be_told() {
    let mut pipe = Pipe::at("2025-11-25").await;
    pipe.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    // The last line has no end.
    let last = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    pipe.stdin.as_mut().unwrap().write_all(last).await.unwrap();
    pipe.stdin = None;
    assert!(pipe.transport.receive().await.is_some());
    assert!(pipe.transport.receive().await.is_some());
    let mut told = pipe.session.outbox().reader();
    let began = Instant::now();
    let brief = async |transport: &mut StdioTransport<_, _>| {
        let ended = tokio::time::timeout(Duration::from_millis(500), transport.receive());
        ended.await.is_ok()
    };
    assert!(!brief(&mut pipe.transport).await, "a request has no answer");
    pipe.answer(1).await;
    assert!(
        !brief(&mut pipe.transport).await,
        "it is not told of the lists"
    );
    let news = mcp_notify::Notification::list_changed(mcp_notify::ListKind::Tools);
    let _queued = pipe.session.push(news);
    pipe.announced.cancel();
    assert!(
        !brief(&mut pipe.transport).await,
        "there is something to tell"
    );
    told.next().await.unwrap().deliver();
    assert!(brief(&mut pipe.transport).await);
    assert!(began.elapsed() < END_WITHIN);
    // What never gets its answer is not waited for without end.
    let mut pipe = Pipe::at("2025-11-25").await;
    pipe.line(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    pipe.stdin = None;
    assert!(pipe.transport.receive().await.is_some());
    let began = Instant::now();
    assert!(pipe.transport.receive().await.is_none());
    assert_eq!(began.elapsed(), END_WITHIN);
    let error = ErrorData::internal_error("late", None);
    let late = ServerJsonRpcMessage::error(error, Some(RequestId::Number(1)));
    pipe.transport.send(late).await.unwrap();
    assert_eq!(codes(&pipe.written().await), [(json!(1), json!(-32603))]);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_thrown_away_and_the_next_is_read() {
    let text = format!("short\n{}\nlast", "x".repeat(100));
    let mut lines = LineReader::new(text.as_bytes(), 20);
    assert_eq!(lines.next().await.unwrap(), Line::Text(b"short".into()));
    assert_eq!(lines.next().await.unwrap(), Line::TooLong);
    assert_eq!(lines.next().await.unwrap(), Line::Text(b"last".into()));
    assert_eq!(lines.next().await.unwrap(), Line::End);
}

proptest! {
    #[test]
    fn fuzz_lines_are_those_of_the_text_however_it_arrives(
        parts in prop::collection::vec("[a-c\n\r ]{0,9}", 0..9),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let whole = parts.concat();
            let (mut writer, input) = tokio::io::duplex(3);
            let mut lines = LineReader::new(input, 8);
            let feeding = async {
                for part in &parts {
                    writer.write_all(part.as_bytes()).await.unwrap();
                }
                drop(writer);
            };
            let mut found = Vec::new();
            let reading = async {
                loop {
                    match lines.next().await.unwrap() {
                        Line::End => break,
                        Line::Text(line) => found.push(String::from_utf8(line).unwrap()),
                        Line::TooLong => found.push("too long".to_owned()),
                    }
                }
            };
            tokio::join!(feeding, reading);
            let mut expected = Vec::new();
            for line in whole.split_inclusive('\n') {
                let text = line.trim_end();
                if line.len() > 8 {
                    expected.push("too long".to_owned());
                } else if !text.is_empty() {
                    expected.push(text.to_owned());
                }
            }
            assert_eq!(found, expected);
        });
    }
}
