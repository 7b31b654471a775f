//! HTTP/1.1 by hand, as little of it as the clients need.

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
};

/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// A connection to the server. Requests are sequential, and the last one may open the
/// stream.
pub(crate) struct Connection {
    socket: TcpStream,
    port: u16,
    /// The header of a caller with a token.
    authorization: String,
    input: Vec<u8>,
    /// Where in the stream's body the next byte of `input` is.
    state: ChunkState,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// The position of the parser in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// Before the line with the size of a chunk.
    Size,
    /// In a chunk, with that many bytes left.
    Data(usize),
    /// Before the line end after a chunk.
    End,
    /// Before the line end after the last chunk, which is empty.
    Last,
    /// After the last chunk.
    Over,
}

/// Iterates over the data of the chunks that were read.
pub(crate) struct Body<'a> {
    connection: &'a mut Connection,
    at: usize,
}

// === impl Connection ===

impl Connection {
    /// Connects; with a small receive buffer, the server soon notices a stalled reader.
    pub(crate) async fn open(port: u16, receive_buffer: Option<u32>) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        let socket = socket.connect(([127, 0, 0, 1], port).into()).await?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            port,
            authorization: String::new(),
            input: Vec::new(),
            state: ChunkState::Size,
        })
    }

    /// The same connection, whose requests are of the caller with this token.
    pub(crate) fn of_caller(mut self, token: Option<&str>) -> Self {
        let header = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        self.authorization = header.unwrap_or_default();
        self
    }

    /// Sends `initialize` and `notifications/initialized`; returns the id of the session.
    pub(crate) async fn begin_session(&mut self) -> Result<String> {
        let begin = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        let answer = self.post(None, begin).await?;
        ensure!(answer.status == 200, "initialize: {}", answer.status);
        let session = answer.session.context("no session id")?;
        let done = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let answer = self.post(Some(&session), done).await?;
        ensure!(answer.status == 202, "initialized: {}", answer.status);
        Ok(session)
    }

    /// Sends a POST and reads the complete response.
    pub(crate) async fn post(&mut self, session: Option<&str>, body: &str) -> Result<Answer> {
        let head = format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        self.send("POST", session, &head, body).await?;
        self.answer().await
    }

    /// Sends a POST without reading the response.
    pub(crate) async fn send_post(&mut self, session: &str, body: &str) -> Result<()> {
        let head = format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        self.send("POST", Some(session), &head, body).await
    }

    /// Sends a GET for a path outside MCP and reads the complete response.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n{}\r\n",
            self.port, self.authorization
        );
        self.write(request.as_bytes()).await?;
        self.answer().await
    }

    /// Writes raw bytes, which need not be a valid request.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).await?;
        Ok(())
    }

    /// Sends a DELETE and reads the complete response.
    pub(crate) async fn delete(&mut self, session: &str) -> Result<Answer> {
        self.send("DELETE", Some(session), "", "").await?;
        self.answer().await
    }

    /// Opens the stream; the connection carries nothing else afterwards. A status other than
    /// 200 is an error.
    pub(crate) async fn open_stream(
        &mut self,
        session: Option<&str>,
        last_event_id: Option<u64>,
    ) -> Result<()> {
        let head = last_event_id.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        self.send("GET", session, &head, "").await?;
        let head = self.head().await?;
        ensure!(status(&head)? == 200, "the stream was refused: {head}");
        ensure!(is_chunked(&head), "a stream has chunks: {head}");
        self.state = ChunkState::Size;
        Ok(())
    }

    async fn send(
        &mut self,
        method: &str,
        session: Option<&str>,
        head: &str,
        body: &str,
    ) -> Result<()> {
        let session = session.map_or_else(String::new, |session| {
            format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n")
        });
        let accept = match method {
            "GET" => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\naccept: {accept}\r\n{}{session}{head}\r\n{body}",
            self.port, self.authorization
        );
        self.socket.write_all(request.as_bytes()).await?;
        Ok(())
    }

    async fn head(&mut self) -> Result<String> {
        loop {
            if let Some(at) = memmem::find(&self.input, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.input[..at]).to_ascii_lowercase();
                self.input.drain(..at + 4);
                return Ok(head);
            }
            ensure!(self.read().await?, "closed before an answer");
        }
    }

    async fn answer(&mut self) -> Result<Answer> {
        let head = self.head().await?;
        let mut whole = Vec::new();
        if is_chunked(&head) {
            self.state = ChunkState::Size;
            loop {
                self.take_body(&mut whole)?;
                if self.state == ChunkState::Over {
                    break;
                }
                ensure!(self.read().await?, "closed in an answer");
            }
        } else {
            let length = field(&head, "content-length").map_or(Ok(0), str::parse)?;
            while self.input.len() < length {
                ensure!(self.read().await?, "closed in an answer");
            }
            whole = self.input.drain(..length).collect();
        }
        Ok(Answer {
            status: status(&head)?,
            session: field(&head, "mcp-session-id").map(str::to_owned),
            body: whole,
        })
    }

    /// Moves the part of the body that was read so far.
    pub(crate) fn take_body(&mut self, into: &mut Vec<u8>) -> Result<()> {
        let mut body = self.body();
        while let Some(data) = body.next()? {
            into.extend_from_slice(data);
        }
        Ok(())
    }

    /// Whether the body is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.state == ChunkState::Over
    }

    /// Reads more bytes; false at the end of the connection. Cancel-safe.
    pub(crate) async fn read(&mut self) -> Result<bool> {
        self.socket.readable().await?;
        self.input.reserve(READ_BYTES);
        match self.socket.try_read_buf(&mut self.input) {
            Ok(bytes) => Ok(bytes > 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of the body read so far; those not taken are returned again next time.
    pub(crate) fn body(&mut self) -> Body<'_> {
        Body {
            connection: self,
            at: 0,
        }
    }
}

// === impl Body ===

impl Body<'_> {
    /// The next piece of the body.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let Connection { input, state, .. } = &mut *self.connection;
            let rest = &input[self.at..];
            match *state {
                ChunkState::Over => return Ok(None),
                ChunkState::Size => {
                    let Some(end) = memmem::find(rest, b"\r\n") else {
                        return Ok(None);
                    };
                    let digits = std::str::from_utf8(&rest[..end])?;
                    let size = usize::from_str_radix(digits.trim(), 16)?;
                    self.at += end + 2;
                    *state = match size {
                        0 => ChunkState::Last,
                        size => ChunkState::Data(size),
                    };
                }
                ChunkState::Data(left) => {
                    if rest.is_empty() {
                        return Ok(None);
                    }
                    let now = left.min(rest.len());
                    *state = match left - now {
                        0 => ChunkState::End,
                        left => ChunkState::Data(left),
                    };
                    let begin = self.at;
                    self.at += now;
                    return Ok(Some(&self.connection.input[begin..begin + now]));
                }
                ChunkState::End | ChunkState::Last => {
                    if rest.len() < 2 {
                        return Ok(None);
                    }
                    ensure!(rest.starts_with(b"\r\n"), "a chunk is longer than it said");
                    self.at += 2;
                    *state = match *state {
                        ChunkState::Last => ChunkState::Over,
                        _ => ChunkState::Size,
                    };
                }
            }
        }
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.connection.input.drain(..self.at);
    }
}

/// Bytes as text, for search and for messages.
pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn status(head: &str) -> Result<u16> {
    let word = head.split(' ').nth(1).context("no status")?;
    Ok(word.parse()?)
}

fn is_chunked(head: &str) -> bool {
    field(head, "transfer-encoding").is_some_and(|value| value.contains("chunked"))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim())
    })
}
