//! Fetches a page of the web as text.
//!
//! A page must not make this program read from its private network: the model chooses the URL, and the text of an earlier page may
//! have chosen it for the model. So an address is checked three times: as it is written, as the name is resolved (by the client),
//! and as it was connected to. Each redirect is checked as a first URL is. No cookies and no credentials are sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cairn_documents::{Limits, WebPage, decode, read_web_page};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{failure, list, schema};
use crate::error::root_cause;
use crate::limits::{MAX_PAGE_BYTES, MAX_REDIRECTS, PAGE_TIMEOUT};
use crate::result::ToolResult;
use crate::text::{cut, one_line, visible};
use crate::tools::ToolList;

const FETCH: &str = "fetch_page";
/// Longest URL.
const MAX_URL_BYTES: usize = 2048;
/// Longest URL of a link in a page that is kept.
const MAX_LINK_BYTES: usize = 500;

/// Returns whether an address may be connected to.
pub type AddressFilter = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Fetches pages of the web.
#[derive(Clone)]
pub struct PageFetcher {
    http: reqwest::Client,
    allows: AddressFilter,
    is_direct: bool,
}

impl std::fmt::Debug for PageFetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageFetcher").finish_non_exhaustive()
    }
}

/// Why a page cannot be fetched.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("{0:?} is not a URL of a page; use https://… without a user or a password")]
    Url(String),
    #[error("{0} is an address of a private network, which pages cannot be fetched from")]
    Private(String),
    #[error("the page redirects more than {MAX_REDIRECTS} times")]
    Redirects,
    #[error("the server answered with {0}")]
    Status(StatusCode),
    #[error("the page has the type {0:?}, which is not text")]
    Kind(String),
    #[error("cannot read the page: {0}")]
    Unreadable(String),
    #[error("cannot fetch the page: {0}")]
    Request(String),
    #[error("the page was not complete within {} s", PAGE_TIMEOUT.as_secs())]
    Timeout,
}

impl PageFetcher {
    /// `http` must not follow redirects, and must resolve names only to addresses that `allows` accepts. `is_direct` is false if
    /// `http` uses a proxy. Then the proxy resolves names, and decides what it connects to.
    #[must_use]
    pub fn new(http: reqwest::Client, allows: AddressFilter, is_direct: bool) -> Self {
        Self { http, allows, is_direct }
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> ToolList {
        let url = ("url", "string", "URL of the page, beginning with https:// or http://", true);
        list(&[(FETCH, "Fetches a page of the web and returns its text.", schema(&[url]))])
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: &Map<String, Value>) -> ToolResult {
        if tool != FETCH {
            return failure(&format!("no tool is named {:?}", one_line(tool, 64)));
        }
        let url = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        match timeout(PAGE_TIMEOUT, self.fetch(url)).await {
            Ok(Ok(text)) => ToolResult::from_text(&text),
            Ok(Err(error)) => failure(&error),
            Err(_) => failure(&PageError::Timeout),
        }
    }

    async fn fetch(&self, url: &str) -> Result<String, PageError> {
        let mut url = parse(url)?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url).await?;
            let Some(target) = redirect(&response) else { return text(&url, response).await };
            let joined = url.join(&target).map_or(target, String::from);
            url = parse(&joined)?;
        }
        Err(PageError::Redirects)
    }

    async fn request(&self, url: &Url) -> Result<Response, PageError> {
        let host = url.host_str().unwrap_or_default();
        let address: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
        if address.is_ok_and(|address| !(self.allows)(address)) {
            return Err(PageError::Private(one_line(host, 200)));
        }
        let request = self.http.get(url.clone()).header(ACCEPT, "text/html, text/*;q=0.9, application/json;q=0.8");
        let response = request.send().await.map_err(|error| PageError::Request(root_cause(&error)))?;
        let connected = response.remote_addr().as_ref().map(SocketAddr::ip);
        match connected {
            _ if !self.is_direct => Ok(response),
            Some(address) if (self.allows)(address) => Ok(response),
            Some(_) => Err(PageError::Private(one_line(host, 200))),
            None => Err(PageError::Request("the address of the connection is unavailable".to_owned())),
        }
    }
}

fn parse(text: &str) -> Result<Url, PageError> {
    // A user and a password, and a key in a query, are not repeated.
    let shown = text.rsplit('@').next().and_then(|text| text.split('?').next()).unwrap_or_default();
    let refused = || PageError::Url(one_line(shown, 200));
    let mut url = Url::parse(text.trim()).ok().filter(|_| text.len() <= MAX_URL_BYTES).ok_or_else(refused)?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    let has_host = url.host_str().is_some_and(|host| !host.is_empty());
    if !matches!(url.scheme(), "http" | "https") || has_user || !has_host {
        return Err(refused());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns the target of a redirect.
fn redirect(response: &Response) -> Option<String> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let target = response.headers().get(LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(target.as_bytes()).into_owned())
}

/// Returns the address of a link to another page.
fn link(page: &Url, target: &str) -> Option<String> {
    let address = page.join(target).ok().filter(|_| !target.starts_with('#') && target.len() <= MAX_LINK_BYTES)?;
    let text = String::from(address);
    (text.starts_with("http") && text.len() <= MAX_LINK_BYTES).then_some(text)
}

async fn text(url: &Url, mut response: Response) -> Result<String, PageError> {
    if !response.status().is_success() {
        return Err(PageError::Status(response.status()));
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain");
    let kind = kind.to_ascii_lowercase();
    let media = kind.split(';').next().unwrap_or_default().trim().to_owned();
    let is_text = media.starts_with("text/") || ["json", "xml", "javascript"].iter().any(|end| media.ends_with(end));
    if !is_text {
        return Err(PageError::Kind(one_line(&media, 64)));
    }
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| PageError::Request(root_cause(&error)))? {
        let room = MAX_PAGE_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    let charset = kind.split_once("charset=").and_then(|(_, label)| label.split(';').next());
    let charset = charset.map(|label| label.trim().trim_matches('"'));
    let WebPage { title, text } = match media.ends_with("html") || media.ends_with("xhtml+xml") {
        true => read_web_page(&body, charset, &|target| link(url, target), &Limits::default())
            .map_err(|error| PageError::Unreadable(error.to_string()))?,
        false => WebPage { title: String::new(), text: decode(&body, charset) },
    };
    let note = if is_cut { format!("\n\n[Only the first {MAX_PAGE_BYTES} bytes were read.]") } else { String::new() };
    let title = if title.is_empty() { String::new() } else { format!("{}\n", one_line(&title, 300)) };
    Ok(format!("{title}{}\n\n{}{note}", cut(url.as_str(), MAX_URL_BYTES), visible(&text)))
}
