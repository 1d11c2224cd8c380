//! The connection to a server with streamable HTTP, with limits.
//!
//! Only responses to requests are read. The stream on which a server sends unasked messages is never opened, and an interrupted
//! response is not resumed.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio_stream::{Stream, StreamExt};

use crate::config;
use crate::limits::{MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES};
use crate::meter::Meter;

/// An HTTP client that counts what a server sends. The inner client must not follow redirects: they would get the headers.
#[derive(Clone)]
pub(crate) struct MeteredHttp {
    pub(crate) http: reqwest::Client,
    pub(crate) meter: Arc<Meter>,
}

/// Returns the settings of a connection.
pub(crate) fn settings(url: &str, headers: &BTreeMap<String, String>) -> StreamableHttpClientTransportConfig {
    let headers = headers.iter().filter_map(|(name, value)| config::header(name, value)).collect();
    let mut settings = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .max_json_response_size(MAX_MESSAGE_BYTES)
        .max_error_response_size(MAX_DETAIL_BYTES)
        .reinit_on_expired_session(false);
    settings.retry_config = Arc::new(NeverRetry::default());
    settings
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;
type Failure = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for MeteredHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let post =
            self.http.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits);
        Ok(match post.await? {
            StreamableHttpPostResponse::Sse(events, session) => {
                let meter = Arc::clone(&self.meter);
                // An event above a limit ends the stream, and with it the request.
                let counted = events.take_while(move |event| match event {
                    Ok(event) => meter.count(event.data.as_ref().map_or(0, String::len), 1).is_ok(),
                    Err(_) => true,
                });
                StreamableHttpPostResponse::Sse(Box::pin(counted), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.http.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: Headers,
    ) -> Result<Events, Failure> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
