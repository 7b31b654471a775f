//! Responses read as a stream, up to a limit: their size is in the hands of the clients that
//! created the objects.

use std::pin::pin;

use futures_util::AsyncBufReadExt;
use http::{HeaderValue, Request, header::ACCEPT};
use serde::de::DeserializeOwned;

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
};

/// An object has at most 1.5 MiB in etcd; the limit fits a list of several.
const RESPONSE_BYTES_MAX: usize = 32 * 1024 * 1024;

impl Cluster {
    /// Sends a request and decodes its response, within the deadline and the limit.
    pub(super) async fn raw<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        mut request: Request<Vec<u8>>,
        accept: &'static str,
    ) -> Result<T, ClusterError> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let client = self.client();
        let bytes = self
            .request(operation, async {
                let mut body = pin!(client.request_stream(request).await?);
                let mut bytes = Vec::new();
                // Chunk by chunk: `read_to_end` zeroes its whole spare capacity for each chunk,
                // which for a page of pods is most of the work.
                while bytes.len() <= RESPONSE_BYTES_MAX {
                    let chunk = body.fill_buf().await;
                    let chunk = chunk.map_err(|error| kube::Error::Service(error.into()))?;
                    if chunk.is_empty() {
                        break;
                    }
                    bytes.extend_from_slice(chunk);
                    let read = chunk.len();
                    body.consume_unpin(read);
                }
                Ok(bytes)
            })
            .await?;
        if bytes.len() > RESPONSE_BYTES_MAX {
            let limit = RESPONSE_BYTES_MAX / (1024 * 1024);
            return Err(ClusterError::new(
                ErrorKind::Other,
                operation.to_string(),
                format!("the answer is larger than {limit} MiB"),
                Some("ask for less: a namespace, a selector, a lower limit, one name".to_owned()),
            ));
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            ClusterError::new(
                ErrorKind::Other,
                operation.to_string(),
                format!("the answer is not what this API should send: {error}"),
                None,
            )
        })
    }
}
