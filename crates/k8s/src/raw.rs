//! Responses that are decoded without the types of the client library. `body_limit` bounds
//! their size.

use std::pin::pin;

use futures_util::AsyncBufReadExt;
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
        mut request: Request<Vec<u8>>,
        accept: &'static str,
    ) -> Result<T, ClusterError> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let bytes = self
            .request(operation, body(self.client(), request))
            .await?;
        serde_json::from_slice(&bytes).map_err(|error| undecodable(operation, &error))
    }
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
