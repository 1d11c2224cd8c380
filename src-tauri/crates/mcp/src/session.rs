//! One run of a server: the connection, from its handshake to its end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use rmcp::{RoleClient, ServiceError, serve_client};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::child::{Child, Surroundings};
use crate::config::{Endpoint, ServerConfig};
use crate::error::{Error, LastLines, Task, root_cause};
use crate::http::{MeteredHttp, settings};
use crate::limits::{
    EXIT_GRACE, MAX_ARGUMENT_BYTES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_TOOL_PAGES, STOP_GRACE, Timeouts,
};
use crate::meter::{Excess, Meter, MeteredReader};
use crate::result::{self, ToolResult};
use crate::text::one_line;
use crate::tools::ToolList;

/// What all servers share.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What programs get from the daemon.
    pub surroundings: Surroundings,
    /// For servers with HTTP. Must not follow redirects: they would get the headers.
    pub http: reqwest::Client,
    /// Name and version of this program, for servers.
    pub client: (String, String),
    /// Times that a server may take.
    pub timeouts: Timeouts,
}

/// A connected server. Dropping it kills the program.
#[derive(Debug)]
pub(crate) struct Session {
    name: String,
    service: RunningService<RoleClient, ClientConfig>,
    meter: Arc<Meter>,
    child: Option<Child>,
    timeouts: Timeouts,
}

impl Session {
    /// Starts or connects a server.
    pub(crate) async fn connect(config: &ServerConfig, launch: &Launch) -> Result<Self, Error> {
        let meter = Arc::new(Meter::default());
        let name = config.name.clone();
        let (client, version) = &launch.client;
        // Without capabilities: a server can request nothing of this client, neither folders nor completions of models.
        let client = ClientConfig::new(ClientCapabilities::default(), Implementation::new(client, version));
        let limit = launch.timeouts.connect;
        let (connected, child) = match &config.endpoint {
            Endpoint::Stdio { command, args, env } => {
                let spawned = Child::spawn(command, args, env, &launch.surroundings);
                let (child, stdin, stdout) = spawned.map_err(|error| Error::Start {
                    server: name.clone(),
                    command: one_line(command, 200),
                    cause: error.to_string(),
                })?;
                let stdout = MeteredReader::new(stdout, Arc::clone(&meter));
                let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE_BYTES);
                (within(limit, &meter, serve_client(client, transport)).await, Some(child))
            }
            Endpoint::Http { url, headers } => {
                let http = MeteredHttp { http: launch.http.clone(), meter: Arc::clone(&meter) };
                let transport = StreamableHttpClientTransport::with_client(http, settings(url, headers));
                (within(limit, &meter, serve_client(client, transport)).await, None)
            }
        };
        match connected {
            Some(Ok(service)) => Ok(Self { name, service, meter, child, timeouts: launch.timeouts }),
            _ if meter.excess().is_some() => Err(flood(name, &meter)),
            Some(Err(error)) => Err(handshake_error(name, &error, child.as_ref()).await),
            None => Err(Error::Timeout {
                server: name,
                task: Task::Start,
                after: limit,
                stderr: last_lines(child.as_ref()),
            }),
        }
    }

    /// Whether the connection ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed() || self.meter.excess().is_some()
    }

    pub(crate) async fn tools(&self) -> Result<ToolList, Error> {
        let limit = self.timeouts.list;
        let listed = within(limit, &self.meter, async {
            let mut list = ToolList::default();
            let mut cursor = None;
            for _ in 0..MAX_TOOL_PAGES {
                self.meter.begin();
                let page = self.service.peer().list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)));
                let page = page.await?;
                for tool in &page.tools {
                    list.add(&tool.name, tool.description.as_deref().unwrap_or_default(), &tool.input_schema);
                }
                cursor = page.next_cursor;
                if cursor.is_none() || list.is_full() {
                    break;
                }
            }
            Ok::<_, ServiceError>(list)
        });
        self.outcome(listed.await, Task::List, limit).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<ToolResult, Error> {
        let bytes = serde_json::to_string(&arguments).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_ARGUMENT_BYTES {
            return Err(Error::Arguments { tool: one_line(tool, 64), bytes });
        }
        let limit = self.timeouts.call;
        self.meter.begin();
        // Not the function of the service: it would answer questions of the server.
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let called = within(limit, &self.meter, self.service.peer().call_tool(call)).await;
        self.outcome(called, Task::Call, limit).await.map(result::read)
    }

    /// Closes the connection. A program has a moment to exit.
    pub(crate) async fn stop(self) {
        let Self { service, child, .. } = self;
        // The end of its input asks a program to exit.
        let _ = timeout(STOP_GRACE, service.cancel()).await;
        if let Some(child) = child {
            child.exited(STOP_GRACE).await;
        }
    }

    async fn outcome<T>(
        &self,
        result: Option<Result<T, ServiceError>>,
        task: Task,
        after: Duration,
    ) -> Result<T, Error> {
        let server = self.name.clone();
        let error = match result {
            Some(Ok(value)) => return Ok(value),
            _ if self.meter.excess().is_some() => return Err(flood(server, &self.meter)),
            Some(Err(error)) => error,
            None => return Err(Error::Timeout { server, task, after, stderr: last_lines(self.child.as_ref()) }),
        };
        Err(match (error, &self.child) {
            (ServiceError::McpError(error), _) => {
                Error::Refused { server, task, message: one_line(&error.message, MAX_DETAIL_BYTES) }
            }
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), Some(child)) => {
                ended(server, task, child).await
            }
            (ServiceError::TransportClosed, None) => {
                let how = "the connection was closed".to_owned();
                Error::Ended { server, task, how, stderr: LastLines::default() }
            }
            (ServiceError::UnexpectedResponse, _) => {
                Error::Failed { server, task, cause: "the response is not one of the protocol".to_owned() }
            }
            (ServiceError::TransportSend(error), None) => {
                Error::Failed { server, task, cause: transport_cause(&error) }
            }
            (error, _) => Error::Failed { server, task, cause: root_cause(&error) },
        })
    }
}

async fn ended(server: String, task: Task, child: &Child) -> Error {
    let how = match child.exited(2 * EXIT_GRACE).await {
        Some(status) => format!("the program ended ({status})"),
        None => "the program closed its output".to_owned(),
    };
    Error::Ended { server, task, how, stderr: child.last_lines() }
}

async fn handshake_error(server: String, error: &ClientInitializeError, child: Option<&Child>) -> Error {
    let is_end =
        matches!(error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. });
    match child {
        Some(child) if is_end => ended(server, Task::Start, child).await,
        _ => {
            let cause = match error {
                ClientInitializeError::TransportError { error, .. } => transport_cause(error),
                other => one_line(&other.to_string(), MAX_DETAIL_BYTES),
            };
            Error::Handshake { server, cause, stderr: last_lines(child) }
        }
    }
}

/// Waits for a result until the timeout, or until the server exceeds a limit. Returns `None` then.
async fn within<T>(limit: Duration, meter: &Meter, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        result = timeout(limit, work) => result.ok(),
        () = meter.exceeded() => None,
    }
}

fn flood(server: String, meter: &Meter) -> Error {
    let excess = meter.excess().unwrap_or(Excess::Messages);
    Error::Flood { server, excess }
}

/// Returns the cause of a failed request, without its URL, which may have a key.
fn transport_cause(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => match std::error::Error::source(error) {
            Some(source) => root_cause(source),
            None => "the request failed".to_owned(),
        },
        Some(other) => one_line(&other.to_string(), MAX_DETAIL_BYTES),
        None => root_cause(&*error.error),
    }
}

fn last_lines(child: Option<&Child>) -> LastLines {
    child.map(Child::last_lines).unwrap_or_default()
}
