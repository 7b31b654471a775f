//! Answers read as they come, up to a limit: what an API server sends is as large
//! as whoever made the objects wanted it.

use std::pin::pin;

use futures_util::AsyncBufReadExt;
use http::{HeaderValue, Request, header::ACCEPT};
use serde::de::DeserializeOwned;

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind, Operation},
};

/// An object is 1.5 MiB at most where etcd stores it; this is for a list of some.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

impl Cluster {
    /// Sends a request and reads its answer, within the deadline and the limit.
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
                // As the pieces come: `read_to_end` clears all the room it has made at
                // each of them, which for a page of pods is most of the work.
                while bytes.len() <= ANSWER_BYTES_MAX {
                    let piece = body.fill_buf().await;
                    let piece = piece.map_err(|error| kube::Error::Service(error.into()))?;
                    if piece.is_empty() {
                        break;
                    }
                    bytes.extend_from_slice(piece);
                    let read = piece.len();
                    body.consume_unpin(read);
                }
                Ok(bytes)
            })
            .await?;
        if bytes.len() > ANSWER_BYTES_MAX {
            let limit = ANSWER_BYTES_MAX / (1024 * 1024);
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
