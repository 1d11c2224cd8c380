//! Why a request to an upstream failed. The texts reach clients of other machines, so they do not have the host of the remote's URL.
//! A server's own error text may have other addresses of the server.

use std::time::Duration;

/// Why a request to an upstream failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No connection could be opened.
    #[error("cannot connect to the server")]
    Connect {
        /// The cause. It may contain an address.
        detail: String,
    },
    /// The server sent nothing for too long before the first token.
    #[error("the server sent no {expected} within {} s", limit.as_secs_f64())]
    Timeout {
        /// What was expected.
        expected: &'static str,
        /// The deadline.
        limit: Duration,
    },
    /// The server sent nothing for too long during the answer.
    #[error("the server sent no part of the answer within {} s", limit.as_secs_f64())]
    Stalled {
        /// The deadline.
        limit: Duration,
    },
    /// The connection broke.
    #[error("the server closed the connection before the end of the response")]
    Closed {
        /// The cause. It may contain an address.
        detail: String,
    },
    /// The server redirects. An API key is for one host, so redirects are not followed.
    #[error("the server redirects the request; add the remote under its final URL")]
    Redirect,
    /// The server refused the request.
    #[error("the server responded with status {status}{}{text}", if text.is_empty() { "" } else { ": " })]
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the server's error text, without the host of the remote's URL.
        text: String,
    },
    /// The response ended with an error of the server.
    #[error("the server reported an error: {text}")]
    Reported {
        /// The beginning of the server's error text, without the host of the remote's URL.
        text: String,
    },
    /// The response is not in the format of the API.
    #[error("the server sent an invalid response: {reason}")]
    Malformed {
        /// What is wrong.
        reason: &'static str,
    },
    /// The response is longer than the limit.
    #[error("the server sent a response of more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// A response that is not streamed, such as the vectors of many texts, is longer than the limit.
    #[error("the response has more than {} MiB, the limit for one response; send fewer texts in a request", limit_bytes >> 20)]
    AnswerTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// Other responses use the memory for responses that are not streamed.
    #[error("large responses of remotes already use the {} MiB of memory that they share; try again later", budget_bytes >> 20)]
    OutOfBudget {
        /// The memory.
        budget_bytes: usize,
    },
    /// The server lists the model, but does not have the endpoint, or does not serve the model there.
    #[error("the server does not serve {path} for this model (status {status}{}{text})", if text.is_empty() { "" } else { ": " })]
    NoEndpoint {
        /// Path of the endpoint.
        path: &'static str,
        /// The HTTP status.
        status: u16,
        /// The beginning of the server's error text, without the host of the remote's URL.
        text: String,
    },
}

impl Failure {
    /// Whether another upstream may succeed with the same request.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 401 | 403 | 404 | 408 | 429) || *status >= 500,
            Self::AnswerTooLarge { .. } | Self::OutOfBudget { .. } => false,
            _ => true,
        }
    }

    /// Whether the failure shows that the server is out of order: it does not respond, refuses the key, or its proxy does not reach
    /// it. Other failures may be those of one model or one request, and must not keep the requests for other models away.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Closed { .. } => true,
            Self::Status { status, .. } => matches!(status, 401 | 403 | 502 | 504),
            Self::Stalled { .. } | Self::Redirect | Self::Reported { .. } | Self::NoEndpoint { .. } => false,
            Self::Malformed { .. } | Self::TooLarge { .. } => false,
            Self::AnswerTooLarge { .. } | Self::OutOfBudget { .. } => false,
        }
    }

    /// Whether the server works, and the request or the load of this daemon is to blame.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Status { .. } => !self.is_retryable(),
            Self::AnswerTooLarge { .. } | Self::OutOfBudget { .. } | Self::NoEndpoint { .. } => true,
            _ => false,
        }
    }

    /// The text with its cause, for the log and for clients of this machine. It may contain an address.
    #[must_use]
    pub fn detail(&self) -> String {
        match self.cause() {
            "" => self.to_string(),
            cause => format!("{self} ({cause})"),
        }
    }

    /// Why there is no connection, as the system describes it; otherwise empty. It may contain an address.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::Connect { detail } | Self::Closed { detail } => detail,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_detail_has_the_cause() {
        let failure = Failure::Connect { detail: "10.0.0.7:8000 refused".to_owned() };
        assert_eq!(failure.to_string(), "cannot connect to the server");
        assert_eq!(failure.detail(), "cannot connect to the server (10.0.0.7:8000 refused)");
        let failure = Failure::Closed { detail: String::new() };
        assert_eq!(failure.detail(), failure.to_string(), "without a cause");
    }

    #[test]
    fn failures_of_one_model_are_no_outages() {
        let limit = Duration::from_secs(1);
        let outages = [Failure::Timeout { expected: "first token", limit }, Failure::Closed { detail: String::new() }];
        assert!(outages.iter().all(Failure::is_outage), "{outages:?}");
        let others = [
            Failure::Stalled { limit },
            Failure::Malformed { reason: "x" },
            Failure::TooLarge { limit_bytes: 1 },
            Failure::Reported { text: String::new() },
        ];
        assert!(!others.iter().any(Failure::is_outage), "{others:?}");
    }

    #[test]
    fn refused_requests_are_neither_repeated_nor_outages() {
        let check = |status: u16, is_retryable, is_outage| {
            let failure = Failure::Status { status, text: String::new() };
            assert_eq!((failure.is_retryable(), failure.is_outage()), (is_retryable, is_outage), "{status}");
        };
        check(400, false, false);
        check(413, false, false);
        check(404, true, false);
        check(429, true, false);
        check(501, true, false);
        check(503, true, false);
        check(401, true, true);
        check(500, true, false);
        check(502, true, true);
        check(504, true, true);
    }
}
