//! A client that pulls as Ollama's own does, step by step, its weaknesses included.
//!
//! It is the measure of whether a stock client can pull from a server: it does not follow redirects to another host but
//! takes the address from them, takes an answer of 200 only with a `Location`, asks for parts with no credentials and
//! without looking at the status of their answers, and checks the whole by its digest.

mod http;
mod key;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use sha2::{Digest as _, Sha256};

use http::{Answer, Url};
pub use key::Key;

/// Smallest and largest part of a blob, in bytes, and how many there are at most in flight.
const PART_BYTES: (u64, u64) = (100_000_000, 1_000_000_000);
const PARTS: u64 = 16;
/// Redirects within a host that are followed.
const REDIRECTS: usize = 10;
/// Tries for a part.
const TRIES: usize = 6;

/// Pulls a model over plain http (as with `--insecure`) into a store in Ollama's layout; `repository` is
/// `namespace/model`.
///
/// # Errors
/// What the stock client would print, with the same words where they are known.
pub fn pull(host: &str, repository: &str, tag: &str, store: &Path) -> Result<(), String> {
    pull_as(None, host, repository, tag, store)
}

/// The same by the owner of a key, who signs for tokens.
///
/// # Errors
/// As [`pull`].
pub fn pull_as(key: Option<&Key>, host: &str, repository: &str, tag: &str, store: &Path) -> Result<(), String> {
    let mut session = Session { host: host.to_owned(), token: None, key };
    let manifest = session.manifest(repository, tag)?;
    let blobs = store.join("blobs");
    fs::create_dir_all(&blobs).map_err(said)?;
    for (digest, size) in contents(&manifest)? {
        let path = blobs.join(digest.replacen(':', "-", 1));
        if !path.exists() {
            session.blob(repository, &digest, size, &path)?;
        }
    }
    let folder = store.join("manifests").join(host).join(repository);
    fs::create_dir_all(&folder).map_err(said)?;
    fs::write(folder.join(tag), manifest).map_err(said)
}

/// Digests and sizes that a manifest names, each once.
fn contents(manifest: &[u8]) -> Result<BTreeSet<(String, u64)>, String> {
    let json: serde_json::Value = serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
    let layers = json["layers"].as_array().cloned().unwrap_or_default();
    let named = layers.iter().chain([&json["config"]]);
    named
        .map(|layer| Some((layer["digest"].as_str()?.to_owned(), layer["size"].as_u64()?)))
        .collect::<Option<_>>()
        .ok_or_else(|| "a layer has no digest or no size".to_owned())
}

/// What a pull knows of the registry.
struct Session<'a> {
    host: String,
    token: Option<String>,
    key: Option<&'a Key>,
}

impl Session<'_> {
    fn manifest(&mut self, repository: &str, tag: &str) -> Result<Vec<u8>, String> {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let answer = self.ask("GET", &path, "Accept: application/vnd.docker.distribution.manifest.v2+json\r\n")?;
        answer.body(None).map_err(said)
    }

    /// Asks without a token, and once more with one when the registry wants that.
    fn ask(&mut self, method: &str, path: &str, headers: &str) -> Result<Answer, String> {
        for _ in 0..2 {
            let signed = self.token.iter().fold(headers.to_owned(), |h, t| format!("{h}Authorization: Bearer {t}\r\n"));
            let url = Url { host: self.host.clone(), path: path.to_owned() };
            let answer = follow(method, url, &signed)?;
            match answer.status {
                401 => self.token = Some(self.sign_in(&answer)?),
                404 => return Err("file does not exist".to_owned()),
                status if status >= 400 => {
                    let text = String::from_utf8_lossy(&answer.body(None).map_err(said)?).into_owned();
                    return Err(format!("{status}: {text}"));
                }
                _ => return Ok(answer),
            }
        }
        Err("unauthorized: access denied".to_owned())
    }

    fn sign_in(&self, refused: &Answer) -> Result<String, String> {
        let challenge = refused.header("www-authenticate").ok_or("no challenge")?;
        let value = |key: &str| challenge.split(&format!("{key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        let realm = Url::parse(value("realm").ok_or("no realm")?).ok_or("a realm that is no address")?;
        if realm.host != self.host {
            return Err(format!("the realm {} is not {}", realm.host, self.host));
        }
        let (scope, service) = (value("scope").unwrap_or(""), value("service").unwrap_or(""));
        let answer = match self.key {
            None => {
                let query = format!("?scope={scope}&service={service}");
                http::ask("GET", &Url { path: realm.path + &query, ..realm }, "")
            }
            Some(key) => {
                let url = Url { path: format!("{}?{}", realm.path, key.query(service, scope)), ..realm };
                let signed = key.authorization(&format!("http://{}{}", url.host, url.path));
                http::ask("GET", &url, &format!("Authorization: {signed}\r\n"))
            }
        };
        let answer = answer.map_err(said)?;
        let body: serde_json::Value =
            serde_json::from_slice(&answer.body(None).map_err(said)?).map_err(|e| e.to_string())?;
        body["token"].as_str().map(str::to_owned).ok_or_else(|| "no token".to_owned())
    }

    fn blob(&mut self, repository: &str, digest: &str, size: u64, path: &Path) -> Result<(), String> {
        let target = format!("/v2/{repository}/blobs/{digest}");
        let answer = self.ask("HEAD", &target, "")?;
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        if length != Some(size) {
            return Err(format!("Content-Length of {digest} is {length:?}, and the manifest says {size}"));
        }
        // The address that parts are asked from is what `Location` says, for a redirect and for an answer of 200 alike.
        let answer = self.ask("GET", &target, "")?;
        if !matches!(answer.status, 200 | 307) {
            return Err(format!("unexpected status code {}", answer.status));
        }
        let location = answer.header("location").ok_or("http: no Location header in response")?;
        let direct = Url::parse(location).unwrap_or(Url { host: self.host.clone(), path: location.to_owned() });
        drop(answer);
        let partial = path.with_extension("partial");
        fetch(&direct, size, &partial)?;
        let got = format!("sha256:{}", hex(&Sha256::digest(fs::read(&partial).map_err(said)?)));
        if got != digest {
            fs::remove_file(&partial).map_err(said)?;
            return Err(format!("digest mismatch, file must be downloaded again: want {digest}, got {got}"));
        }
        fs::rename(&partial, path).map_err(said)
    }
}

/// Follows redirects within a host.
fn follow(method: &str, mut url: Url, headers: &str) -> Result<Answer, String> {
    for _ in 0..REDIRECTS {
        let answer = http::ask(method, &url, headers).map_err(said)?;
        let location = answer.header("location").filter(|_| (300..400).contains(&answer.status));
        match location.and_then(Url::parse) {
            Some(next) if next.host == url.host => url = next,
            _ => return Ok(answer),
        }
    }
    Err("stopped after 10 redirects".to_owned())
}

/// Fetches all parts of a blob, as many at once as there are.
fn fetch(from: &Url, size: u64, to: &Path) -> Result<(), String> {
    let file = &File::create(to).map_err(said)?;
    file.set_len(size).map_err(said)?;
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

/// No credentials, no look at the status, exactly as many bytes as the part has.
fn fetch_part(from: &Url, offset: u64, bytes: u64, file: &File) -> Result<(), String> {
    let mut failed = String::new();
    for _ in 0..TRIES {
        let range = format!("Range: bytes={offset}-{}\r\n", offset + bytes - 1);
        let got = http::ask("GET", from, &range).and_then(|answer| answer.body(Some(bytes)));
        match got.and_then(|got| file.write_all_at(&got, offset)) {
            Ok(()) => return Ok(()),
            Err(error) => failed = said(error),
        }
    }
    Err(format!("max retries exceeded: {failed}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn said(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
