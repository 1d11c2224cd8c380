//! Response body that ends when the API key of its request is revoked.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use cairn_app::keys::ApiKeys;
use cairn_app::secret::SecretDigest;
use http_body::{Frame, SizeHint};

struct RevocableBody {
    /// `None` after the revocation.
    body: Option<Body>,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Ends a streamed response when the key with this digest is revoked. A response with a fixed size is sent at once.
pub(crate) fn until_revoked(response: Response, keys: &ApiKeys, digest: SecretDigest) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let keys = keys.clone();
    let revoked = Box::pin(async move { keys.revoked(&digest).await });
    response.map(|body| Body::new(RevocableBody { body: Some(body), revoked }))
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_some() && self.revoked.as_mut().poll(context).is_ready() {
            // Dropping the body ends the work for it.
            self.body = None;
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
