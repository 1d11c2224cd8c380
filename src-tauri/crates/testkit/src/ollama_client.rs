//! A client that pulls exactly as Ollama's client does, including its limitations.
//!
//! Tests use it to verify that Ollama can pull from a server. It reads the address from redirects to another host but
//! does not follow them, accepts status 200 only with a `Location`, requests parts without credentials and ignores the
//! status of their responses, and verifies the digest of the whole blob.

mod http;
mod key;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use sha2::{Digest as _, Sha256};

use http::{Response, Url};
pub use key::ClientKey;

/// Minimum and maximum size of a part, and maximum number of parts.
const PART_BYTES: (u64, u64) = (100_000_000, 1_000_000_000);
const PARTS: u64 = 16;
/// Maximum number of redirects within a host.
const MAX_REDIRECTS: usize = 10;
/// Maximum number of attempts per part.
const MAX_ATTEMPTS: usize = 6;

/// Pulls a model over plain http (as with `--insecure`) into a store in Ollama's layout; `repository` is
/// `namespace/model`.
///
/// # Errors
/// The message that Ollama's client would print.
pub fn pull(host: &str, repository: &str, tag: &str, store: &Path) -> Result<(), String> {
    pull_with_key(None, host, repository, tag, store)
}

/// Like [`pull`], with a key that signs requests for tokens.
///
/// # Errors
/// As [`pull`].
pub fn pull_with_key(
    key: Option<&ClientKey>,
    host: &str,
    repository: &str,
    tag: &str,
    store: &Path,
) -> Result<(), String> {
    let mut session = Session { host: host.to_owned(), token: None, key };
    let manifest = session.manifest(repository, tag)?;
    let blobs = store.join("blobs");
    fs::create_dir_all(&blobs).map_err(message)?;
    for (digest, size) in manifest_blobs(&manifest)? {
        let path = blobs.join(digest.replacen(':', "-", 1));
        if !path.exists() {
            session.blob(repository, &digest, size, &path)?;
        }
    }
    let folder = store.join("manifests").join(host).join(repository);
    fs::create_dir_all(&folder).map_err(message)?;
    fs::write(folder.join(tag), manifest).map_err(message)
}

/// Returns the digests and sizes in a manifest, each once.
fn manifest_blobs(manifest: &[u8]) -> Result<BTreeSet<(String, u64)>, String> {
    let json: serde_json::Value = serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
    let layers = json["layers"].as_array().cloned().unwrap_or_default();
    let named = layers.iter().chain([&json["config"]]);
    named
        .map(|layer| Some((layer["digest"].as_str()?.to_owned(), layer["size"].as_u64()?)))
        .collect::<Option<_>>()
        .ok_or_else(|| "a layer has no digest or no size".to_owned())
}

/// State of a pull.
struct Session<'a> {
    host: String,
    token: Option<String>,
    key: Option<&'a ClientKey>,
}

impl Session<'_> {
    fn manifest(&mut self, repository: &str, tag: &str) -> Result<Vec<u8>, String> {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let response =
            self.request("GET", &path, "Accept: application/vnd.docker.distribution.manifest.v2+json\r\n")?;
        response.body(None).map_err(message)
    }

    /// Sends a request without a token, and again with a token if the registry requires one.
    fn request(&mut self, method: &str, path: &str, headers: &str) -> Result<Response, String> {
        for _ in 0..2 {
            let signed = self.token.iter().fold(headers.to_owned(), |h, t| format!("{h}Authorization: Bearer {t}\r\n"));
            let url = Url { host: self.host.clone(), path: path.to_owned() };
            let response = follow(method, url, &signed)?;
            match response.status {
                401 => self.token = Some(self.sign_in(&response)?),
                404 => return Err("file does not exist".to_owned()),
                status if status >= 400 => {
                    let text = String::from_utf8_lossy(&response.body(None).map_err(message)?).into_owned();
                    return Err(format!("{status}: {text}"));
                }
                _ => return Ok(response),
            }
        }
        Err("unauthorized: access denied".to_owned())
    }

    fn sign_in(&self, unauthorized: &Response) -> Result<String, String> {
        let challenge = unauthorized.header("www-authenticate").ok_or("no challenge")?;
        let value = |key: &str| challenge.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        let realm = Url::parse(value("realm").ok_or("no realm")?).ok_or("a realm that is no address")?;
        if realm.host != self.host {
            return Err(format!("the realm {} is not {}", realm.host, self.host));
        }
        let (scope, service) = (value("scope").unwrap_or(""), value("service").unwrap_or(""));
        let response = match self.key {
            None => {
                let query = format!("?scope={scope}&service={service}");
                http::request("GET", &Url { path: realm.path + &query, ..realm }, "")
            }
            Some(key) => {
                let url = Url { path: format!("{}?{}", realm.path, key.token_query(service, scope)), ..realm };
                let signed = key.authorization(&format!("http://{}{}", url.host, url.path));
                http::request("GET", &url, &format!("Authorization: {signed}\r\n"))
            }
        };
        let response = response.map_err(message)?;
        let body: serde_json::Value =
            serde_json::from_slice(&response.body(None).map_err(message)?).map_err(|e| e.to_string())?;
        body["token"].as_str().map(str::to_owned).ok_or_else(|| "no token".to_owned())
    }

    fn blob(&mut self, repository: &str, digest: &str, size: u64, path: &Path) -> Result<(), String> {
        let target = format!("/v2/{repository}/blobs/{digest}");
        let response = self.request("HEAD", &target, "")?;
        let length = response.header("content-length").and_then(|length| length.parse().ok());
        if length != Some(size) {
            return Err(format!("Content-Length of {digest} is {length:?}, but the manifest has {size}"));
        }
        // Parts are requested from the address in `Location`, for a redirect and for status 200.
        let response = self.request("GET", &target, "")?;
        if !matches!(response.status, 200 | 307) {
            return Err(format!("unexpected status code {}", response.status));
        }
        let location = response.header("location").ok_or("http: no Location header in response")?;
        let direct = Url::parse(location).unwrap_or(Url { host: self.host.clone(), path: location.to_owned() });
        drop(response);
        let partial = path.with_extension("partial");
        fetch(&direct, size, &partial)?;
        let got = format!("sha256:{}", hex::encode(Sha256::digest(fs::read(&partial).map_err(message)?)));
        if got != digest {
            fs::remove_file(&partial).map_err(message)?;
            return Err(format!("digest mismatch, file must be downloaded again: want {digest}, got {got}"));
        }
        fs::rename(&partial, path).map_err(message)
    }
}

/// Follows redirects within a host.
fn follow(method: &str, mut url: Url, headers: &str) -> Result<Response, String> {
    for _ in 0..MAX_REDIRECTS {
        let response = http::request(method, &url, headers).map_err(message)?;
        let location = response.header("location").filter(|_| (300..400).contains(&response.status));
        match location.and_then(Url::parse) {
            Some(next) if next.host == url.host => url = next,
            _ => return Ok(response),
        }
    }
    Err("stopped after 10 redirects".to_owned())
}

/// Fetches all parts of a blob in parallel.
fn fetch(from: &Url, size: u64, to: &Path) -> Result<(), String> {
    let file = &File::create(to).map_err(message)?;
    file.set_len(size).map_err(message)?;
    let part = (size / PARTS).clamp(PART_BYTES.0, PART_BYTES.1);
    let offsets: Vec<u64> = (0..size).step_by(part as usize).collect();
    thread::scope(|scope| {
        let parts: Vec<_> = offsets
            .iter()
            .map(|&offset| scope.spawn(move || fetch_part(from, offset, part.min(size - offset), file)))
            .collect();
        parts.into_iter().try_for_each(|part| part.join().expect("a part does not panic"))
    })
}

/// Fetches one part without credentials, ignoring the status, up to exactly `bytes`.
fn fetch_part(from: &Url, offset: u64, bytes: u64, file: &File) -> Result<(), String> {
    let mut failed = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let range = format!("Range: bytes={offset}-{}\r\n", offset + bytes - 1);
        let got = http::request("GET", from, &range).and_then(|response| response.body(Some(bytes)));
        match got.and_then(|got| file.write_all_at(&got, offset)) {
            Ok(()) => return Ok(()),
            Err(error) => failed = message(error),
        }
    }
    Err(format!("max retries exceeded: {failed}"))
}

#[expect(clippy::needless_pass_by_value, reason = "used with `map_err`")]
fn message(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
