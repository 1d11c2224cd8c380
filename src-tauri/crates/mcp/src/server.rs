//! A server that starts with its first request and stops when it is idle.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use crate::config::ServerConfig;
use crate::error::Error;
use crate::result::ToolResult;
use crate::session::{Launch, Session};
use crate::tools::ToolList;

/// A server of tools. Clones share it. Dropping the last one stops the program.
#[derive(Debug, Clone)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: ServerConfig,
    launch: Launch,
    /// Serialises starts.
    starting: tokio::sync::Mutex<()>,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    session: Option<Arc<Session>>,
    /// End of the last request, or its start while it is in progress.
    used: Instant,
    /// Number of the session, so that a task of an earlier one does not stop it.
    number: u64,
}

impl Server {
    /// A server that is not started yet.
    #[must_use]
    pub fn new(config: ServerConfig, launch: Launch) -> Self {
        let running = Running { session: None, used: Instant::now(), number: 0 };
        Self(Arc::new(Shared { config, launch, starting: tokio::sync::Mutex::default(), running: Mutex::new(running) }))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// Whether the server runs or is connected.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.running.lock().session.as_ref().is_some_and(|session| !session.is_ended())
    }

    /// Lists the tools.
    ///
    /// # Errors
    /// If the server cannot be started, or does not list its tools.
    pub async fn tools(&self) -> Result<ToolList, Error> {
        let session = self.session().await?;
        let result = session.tools().await;
        self.after(&session, result.as_ref().err());
        result
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the server cannot be started, or does not complete the call. A failure that the tool reports is a result.
    ///
    /// # Cancellation
    /// Dropping the future cancels the call at the server.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<ToolResult, Error> {
        let session = self.session().await?;
        let result = session.call(tool, arguments).await;
        self.after(&session, result.as_ref().err());
        result
    }

    /// Stops the server. Calls in progress fail. The next request starts it again.
    pub fn stop(&self) {
        self.0.running.lock().session = None;
    }

    /// Returns the running session, or starts one.
    async fn session(&self) -> Result<Arc<Session>, Error> {
        let _one = self.0.starting.lock().await;
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        let session = Arc::new(Session::connect(&self.0.config, &self.0.launch).await?);
        let number = {
            let mut running = self.0.running.lock();
            running.number += 1;
            running.used = Instant::now();
            running.session = Some(Arc::clone(&session));
            running.number
        };
        tracing::info!(server = self.0.config.name, "started an MCP server");
        self.watch(number);
        Ok(session)
    }

    fn usable(&self) -> Option<Arc<Session>> {
        let mut running = self.0.running.lock();
        running.used = Instant::now();
        if running.session.as_ref().is_some_and(|session| session.is_ended()) {
            running.session = None;
        }
        running.session.clone()
    }

    /// Drops a session that ended or did not answer, so that the next request starts another one.
    fn after(&self, session: &Arc<Session>, error: Option<&Error>) {
        let mut running = self.0.running.lock();
        running.used = Instant::now();
        let is_lost = matches!(error, Some(Error::Timeout { .. } | Error::Ended { .. } | Error::Flood { .. }));
        let is_current = running.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session));
        if is_current && (is_lost || session.is_ended()) {
            running.session = None;
        }
    }

    /// Stops a session after a time without requests.
    fn watch(&self, number: u64) {
        let shared = Arc::downgrade(&self.0);
        let idle = self.0.launch.timeouts.idle;
        tokio::spawn(async move {
            let mut deadline = Instant::now() + idle;
            loop {
                sleep_until(deadline).await;
                let Some(shared) = shared.upgrade() else { return };
                let stopped = {
                    let mut running = shared.running.lock();
                    if running.number != number || running.session.is_none() {
                        return;
                    }
                    let now = Instant::now();
                    // A request in progress has a clone of the session.
                    let is_busy = running.session.as_ref().is_some_and(|session| Arc::strong_count(session) > 1);
                    deadline = if is_busy { now + idle } else { running.used + idle };
                    if deadline > now { None } else { running.session.take() }
                };
                if let Some(session) = stopped.and_then(Arc::into_inner) {
                    tracing::info!(server = shared.config.name, "stopped an idle MCP server");
                    session.stop().await;
                    return;
                }
            }
        });
    }
}
