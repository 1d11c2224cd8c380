//! Stored logins for registries, in a file that only this user can read and write.
//!
//! The format is that of Docker's `config.json` (`{"auths": {"host": {"auth": "<base64 of user:password>"}}}`), so that files
//! of Docker, Podman and skopeo can be read, and they can read Cairn's. Cairn adds the members `tokenServers` and
//! `plainHttp`, which the others ignore. **Invariant:** a password is used only for the host and port that it was stored for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_disk::{Disk, DiskError, Lock, LockError, Mode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Credentials;
use super::key::with_suffix;

/// A login for one registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The password, or an access token.
    pub password: String,
    /// Hosts of token servers, other than the registry, that may receive the password.
    pub token_servers: Vec<String>,
    /// Whether the password may be sent over plain http to another machine.
    pub plain_http: bool,
}

/// Hides the password.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, password: _, token_servers, plain_http } = self;
        f.debug_struct("Login")
            .field("user", user)
            .field("token_servers", token_servers)
            .field("plain_http", plain_http)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// Converts to credentials.
    #[must_use]
    pub fn into_credentials(self) -> Credentials {
        let credentials = Credentials::password(self.user, self.password).with_trusted_realms(self.token_servers);
        if self.plain_http { credentials.allow_plain_http() } else { credentials }
    }
}

/// Error of reading or writing the stored logins.
#[derive(Debug, thiserror::Error)]
pub enum LoginStoreError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The lock file could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file has an invalid format. The error does not quote its content.
    #[error("cannot parse {}: line {line} does not match the format of Docker's config.json", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

#[derive(Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// Missing if Docker stores the password in a credential helper.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    auth: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    token_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    plain_http: bool,
}

impl Entry {
    fn from_login(login: &Login) -> Self {
        Self {
            auth: STANDARD.encode(format!("{}:{}", login.user, login.password)),
            token_servers: login.token_servers.clone(),
            plain_http: login.plain_http,
        }
    }

    /// The login, if the entry contains a password.
    fn login(self) -> Option<Login> {
        let pair = String::from_utf8(STANDARD.decode(self.auth).ok()?).ok()?;
        // Docker appends NUL to some passwords.
        let (user, password) = pair.trim_end_matches('\0').split_once(':')?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Some(Login { user, password, token_servers: self.token_servers, plain_http: self.plain_http })
    }
}

/// File-backed logins by host. Each call reads the files, so that changes by another process are visible.
pub struct LoginStore {
    path: PathBuf,
    /// A file of another program, which is never written.
    foreign: Option<PathBuf>,
    disk: Arc<dyn Disk>,
    write_lock: Mutex<()>,
}

impl LoginStore {
    /// Creates a store for the file at `path`, which may not exist yet. Entries of another program's file are used for hosts
    /// that are not in it.
    #[must_use]
    pub fn new(path: PathBuf, foreign: Option<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self { path, foreign, disk, write_lock: Mutex::default() }
    }

    /// Finds the login for the registry at `host[:port]`.
    ///
    /// # Errors
    /// If a file exists and cannot be read or parsed.
    pub fn find(&self, host: &str) -> Result<Option<Login>, LoginStoreError> {
        Ok(self.list()?.remove(&key(host)))
    }

    /// Returns all logins by host.
    ///
    /// # Errors
    /// If a file exists and cannot be read or parsed.
    pub fn list(&self) -> Result<BTreeMap<String, Login>, LoginStoreError> {
        let mut all = BTreeMap::new();
        for path in self.foreign.iter().chain([&self.path]) {
            let entries = self.read(path)?.auths.into_iter();
            // Podman also stores logins for single repositories; skip them.
            let hosts = entries.filter(|(name, _)| name.contains("://") || !name.contains('/'));
            all.extend(hosts.filter_map(|(name, entry)| Some((key(&name), entry.login()?))));
        }
        Ok(all)
    }

    /// Stores a login and replaces an earlier one for the same host.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add(&self, host: &str, login: &Login) -> Result<(), LoginStoreError> {
        self.change(|all| {
            all.retain(|name, _| key(name) != key(host));
            all.insert(key(host), Entry::from_login(login));
        })
    }

    /// Removes the login for a host and returns whether there was one. Another program's file is not changed.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn remove(&self, host: &str) -> Result<bool, LoginStoreError> {
        let mut removed = false;
        self.change(|all| {
            let before = all.len();
            all.retain(|name, _| key(name) != key(host));
            removed = all.len() < before;
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>)) -> Result<(), LoginStoreError> {
        let _guard = self.write_lock.lock();
        if let Some(folder) = self.path.parent() {
            self.disk.create_dir_all(folder)?;
        }
        let _lock = Lock::acquire(&with_suffix(&self.path, ".lock"))?;
        let mut file = self.read(&self.path)?;
        change(&mut file.auths);
        let text = serde_json::to_vec_pretty(&file).expect("strings are valid JSON");
        Ok(self.disk.write_atomic(&self.path, &text, Mode::Private)?)
    }

    fn read(&self, path: &Path) -> Result<File, LoginStoreError> {
        let bytes = match self.disk.read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(File::default()),
            Err(error) => return Err(error.into()),
        };
        // Do not show the parser's message: it may quote a password.
        let unreadable =
            |error: serde_json::Error| LoginStoreError::Unreadable { path: path.to_owned(), line: error.line() };
        serde_json::from_slice(&bytes).map_err(unreadable)
    }
}

impl std::fmt::Debug for LoginStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginStore").field("path", &self.path).field("foreign", &self.foreign).finish_non_exhaustive()
    }
}

/// Normalizes a host: lower case, without the scheme and path that Docker adds to some, and without port 443.
fn key(host: &str) -> String {
    let bare = host.split_once("://").map_or(host, |(_, rest)| rest);
    let bare = bare.split('/').next().unwrap_or_default().to_ascii_lowercase();
    bare.strip_suffix(":443").map_or_else(|| bare.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use cairn_disk::RealDisk;

    use super::*;

    fn login(user: &str, password: &str) -> Login {
        Login { user: user.to_owned(), password: password.to_owned(), token_servers: Vec::new(), plain_http: false }
    }

    fn logins(folder: &tempfile::TempDir, foreign: Option<&str>) -> LoginStore {
        let foreign = foreign.map(|text| {
            let path = folder.path().join("config.json");
            std::fs::write(&path, text).unwrap();
            path
        });
        LoginStore::new(folder.path().join("below/logins.json"), foreign, Arc::new(RealDisk))
    }

    #[test]
    fn login_is_found_by_exact_host_only() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(&folder, None);
        assert_eq!(logins.find("r.example").unwrap(), None, "the file does not exist yet");
        let stored = Login { token_servers: vec!["auth.example".into()], plain_http: true, ..login("me", "a:b") };
        logins.add("R.example:443", &login("before", "x")).unwrap();
        logins.add("r.example", &stored).unwrap();
        assert_eq!(logins.find("r.EXAMPLE").unwrap(), Some(stored.clone()), "the last login for the host");
        for other in ["r.example:5000", "example", "x.r.example", "r.example.org", ""] {
            assert_eq!(logins.find(other).unwrap(), None, "{other:?} is another host");
        }
        let path = folder.path().join("below/logins.json");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "other users cannot read it");
        }
        assert!(
            !format!("{stored:?} {:?} {:?}", logins, stored.clone().into_credentials()).contains("a:b"),
            "debug output hides the password"
        );
        assert!(
            logins.remove("r.example").unwrap() && !logins.remove("r.example").unwrap(),
            "a login can be removed once"
        );
        assert!(
            !std::fs::read_to_string(&path).unwrap().contains("auth\""),
            "the file does not contain the login any more"
        );
    }

    #[test]
    fn own_file_overrides_docker_file() {
        let folder = tempfile::tempdir().unwrap();
        let docker = r#"{"auths": {"https://Hub.example/v1/": {"auth": "bWU6cA=="}, "r:5000": {"auth": "dTpw", "email": "x"},
            "r:5000/team": {"auth": "dTpw"}, "redirect_host": {}, "wrong": {"auth": "%"}}, "credsStore": "desktop"}"#;
        let logins = logins(&folder, Some(docker));
        assert_eq!(logins.find("hub.example").unwrap(), Some(login("me", "p")), "the format of Docker");
        logins.add("r:5000", &login("own", "q")).unwrap();
        assert_eq!(logins.find("r:5000").unwrap(), Some(login("own", "q")), "the own file takes precedence");
        let all = logins.list().unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["hub.example", "r:5000"], "entries with a password");
        assert!(!logins.remove("hub.example").unwrap(), "the login in Docker's file is not removed");
        assert_eq!(
            std::fs::read_to_string(folder.path().join("config.json")).unwrap(),
            docker,
            "Docker's file is unchanged"
        );
    }

    #[test]
    fn parse_error_does_not_quote_file() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(&folder, Some("{\"auths\":\n {\"r\": {\"auth\": 5, \"secret\": 1}}}"));
        let error = logins.find("r").unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("line 2") && !error.contains("secret"), "{error}");
    }
}
