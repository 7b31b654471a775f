//! Responses that are decoded without the types of the client library. `body_limit` bounds
//! their size.

use std::{error::Error, future::ready, io, pin::pin};

use futures_util::{AsyncBufReadExt, StreamExt, stream::BoxStream};
use http::{HeaderValue, Request, header::ACCEPT};
use kube::Client;
use serde::de::DeserializeOwned;

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
};

impl Cluster {
    /// Sends a request and decodes its response, within the deadline.
    pub(super) async fn raw<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        request: Request<Vec<u8>>,
        accept: &'static str,
    ) -> Result<T, ClusterError> {
        let bytes = self.raw_bytes(operation, request, accept).await?;
        serde_json::from_slice(&bytes).map_err(|error| undecodable(operation, &error))
    }

    /// Sends a request and reads its response, within the deadline.
    pub(super) async fn raw_bytes(
        &self,
        operation: &Operation<'_>,
        mut request: Request<Vec<u8>>,
        accept: &'static str,
    ) -> Result<Vec<u8>, ClusterError> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        self.request(operation, body(self.client(), request)).await
    }
}

/// Sends a request and reads the lines of its response as they come.
pub(super) async fn lines(
    client: Client,
    request: Request<Vec<u8>>,
) -> kube::Result<BoxStream<'static, kube::Result<String>>> {
    let body = Box::pin(client.request_stream(request).await?);
    let lines = body.lines().filter_map(|line| {
        ready(match line {
            Ok(line) => Some(Ok(line)),
            // An API server that closes a watch may do so within a chunk.
            Err(error) if is_early_end(&error) => None,
            Err(error) => Some(Err(kube::Error::ReadEvents(error))),
        })
    });
    Ok(lines.boxed())
}

/// Whether the connection was closed before the response was complete.
fn is_early_end(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        // An error that was made an io::Error is not a source of it, but inside of it.
        let inner = io.and_then(|error| error.get_ref());
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

/// Sends a request and reads the whole body of its response.
pub(super) async fn body(client: Client, request: Request<Vec<u8>>) -> kube::Result<Vec<u8>> {
    let mut body = pin!(client.request_stream(request).await?);
    let mut bytes = Vec::new();
    // Chunk by chunk: `read_to_end` zeroes its whole spare capacity for each chunk, which for
    // a page of pods is most of the work.
    loop {
        let chunk = body.fill_buf().await;
        let chunk = chunk.map_err(|error| kube::Error::Service(error.into()))?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(chunk);
        let read = chunk.len();
        body.consume_unpin(read);
    }
}

/// The error of a response that is not what it should be.
pub(super) fn undecodable(operation: &Operation<'_>, error: &serde_json::Error) -> ClusterError {
    ClusterError::new(
        ErrorKind::Other,
        operation.to_string(),
        format!("the answer is not what this API should send: {error}"),
        None,
    )
}
