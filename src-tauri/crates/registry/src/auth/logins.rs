//! Names and passwords of registries, in a file that only its user reads and writes.
//!
//! The file is laid out as Docker's `config.json` is (`{"auths": {"host": {"auth": "<base64 of name:password>"}}}`), so that
//! one which Docker, Podman or skopeo wrote can be read beside our own, and ours by them. Two members are ours, and others
//! pass over them: `tokenServers` and `plainHttp`. **Invariant:** a password is found by the host and port that it was
//! given for, and by no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_disk::{Disk, DiskError, Lock, LockError, Mode};
use serde::{Deserialize, Serialize};

use super::SignIn;
use super::key::beside;

/// Who a user is to one registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name there.
    pub user: String,
    /// The password, or a token that stands for one.
    pub password: String,
    /// Hosts of token servers, other than the registry itself, that are given the password too.
    pub token_servers: Vec<String>,
    /// Whether the password may go over plain http to another machine.
    pub plain_http: bool,
}

/// All but the password.
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
    /// What a registry is told of it.
    #[must_use]
    pub fn sign_in(self) -> SignIn {
        let sign_in = SignIn::password(self.user, self.password).trusting_realms(self.token_servers);
        if self.plain_http { sign_in.over_plain_http() } else { sign_in }
    }
}

/// Why names and passwords cannot be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum LoginsError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Nobody could be kept from writing it at the same time.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It is not laid out as it should be. What is in it is not repeated here.
    #[error("{} cannot be read: it is laid out otherwise than Docker's config.json, at line {line}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Where it differs, from 1.
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
    /// Absent where Docker keeps the password elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    auth: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    token_servers: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    plain_http: bool,
}

impl Entry {
    fn of(login: &Login) -> Self {
        Self {
            auth: STANDARD.encode(format!("{}:{}", login.user, login.password)),
            token_servers: login.token_servers.clone(),
            plain_http: login.plain_http,
        }
    }

    /// None where there is no password in it.
    fn login(self) -> Option<Login> {
        let pair = String::from_utf8(STANDARD.decode(self.auth).ok()?).ok()?;
        // Docker ends some passwords with NUL.
        let (user, password) = pair.trim_end_matches('\0').split_once(':')?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Some(Login { user, password, token_servers: self.token_servers, plain_http: self.plain_http })
    }
}

/// Names and passwords by host. The files are read when they are asked, so that what one program adds another sees.
pub struct Logins {
    path: PathBuf,
    /// A file that belongs to another program and is only read.
    foreign: Option<PathBuf>,
    disk: Arc<dyn Disk>,
    turn: Mutex<()>,
}

impl Logins {
    /// Those of the file at `path`, which need not be there yet; after them, those of another program's file.
    #[must_use]
    pub fn at(path: PathBuf, foreign: Option<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        Self { path, foreign, disk, turn: Mutex::default() }
    }

    /// Who the user is to the registry at `host[:port]`.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn find(&self, host: &str) -> Result<Option<Login>, LoginsError> {
        let wanted = key(host);
        let mut found = self.list()?;
        Ok(found.remove(&wanted))
    }

    /// All of them, by host.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn list(&self) -> Result<BTreeMap<String, Login>, LoginsError> {
        let mut all = BTreeMap::new();
        for path in self.foreign.iter().chain([&self.path]) {
            let entries = self.read(path)?.auths.into_iter();
            // Podman names single repositories too, which are no registries.
            let hosts = entries.filter(|(name, _)| name.contains("://") || !name.contains('/'));
            all.extend(hosts.filter_map(|(name, entry)| Some((key(&name), entry.login()?))));
        }
        Ok(all)
    }

    /// Keeps a login, in place of an earlier one for the same host.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn add(&self, host: &str, login: &Login) -> Result<(), LoginsError> {
        self.change(|all| {
            all.retain(|name, _| key(name) != key(host));
            all.insert(key(host), Entry::of(login));
        })
    }

    /// Forgets the login for a host, and says whether there was one. Another program's file stays as it is.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn remove(&self, host: &str) -> Result<bool, LoginsError> {
        let mut removed = false;
        self.change(|all| {
            let before = all.len();
            all.retain(|name, _| key(name) != key(host));
            removed = all.len() < before;
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>)) -> Result<(), LoginsError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = self.path.parent() {
            self.disk.create_dir_all(folder)?;
        }
        let _programs_turn = Lock::take(&beside(&self.path, ".lock"))?;
        let mut file = self.read(&self.path)?;
        change(&mut file.auths);
        let text = serde_json::to_vec_pretty(&file).expect("texts are JSON");
        Ok(self.disk.write_atomic(&self.path, &text, Mode::Private)?)
    }

    fn read(&self, path: &Path) -> Result<File, LoginsError> {
        let bytes = match self.disk.read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(File::default()),
            Err(error) => return Err(error.into()),
        };
        // What is wrong is not repeated in the parser's words, which may quote a password.
        let unreadable =
            |error: serde_json::Error| LoginsError::Unreadable { path: path.to_owned(), line: error.line() };
        serde_json::from_slice(&bytes).map_err(unreadable)
    }
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("path", &self.path).field("foreign", &self.foreign).finish_non_exhaustive()
    }
}

/// A host as it is looked up: in lower case, without the scheme and the path that Docker writes around some, and without the
/// port that https has anyway.
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

    fn logins(folder: &tempfile::TempDir, foreign: Option<&str>) -> Logins {
        let foreign = foreign.map(|text| {
            let path = folder.path().join("config.json");
            std::fs::write(&path, text).unwrap();
            path
        });
        Logins::at(folder.path().join("below/logins.json"), foreign, Arc::new(RealDisk))
    }

    #[test]
    fn a_password_is_found_by_its_host_and_by_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(&folder, None);
        assert_eq!(logins.find("r.example").unwrap(), None, "there is no file yet");
        let kept = Login { token_servers: vec!["auth.example".into()], plain_http: true, ..login("me", "a:b") };
        logins.add("R.example:443", &login("before", "x")).unwrap();
        logins.add("r.example", &kept).unwrap();
        assert_eq!(logins.find("r.EXAMPLE").unwrap(), Some(kept.clone()), "the last one counts");
        for other in ["r.example:5000", "example", "x.r.example", "r.example.org", ""] {
            assert_eq!(logins.find(other).unwrap(), None, "{other:?} is another host");
        }
        let path = folder.path().join("below/logins.json");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "nobody else can read it");
        }
        assert!(
            !format!("{kept:?} {:?} {:?}", logins, kept.clone().sign_in()).contains("a:b"),
            "no password is printed"
        );
        assert!(logins.remove("r.example").unwrap() && !logins.remove("r.example").unwrap(), "it is forgotten once");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("auth\""), "and out of the file");
    }

    #[test]
    fn another_programs_file_is_read_after_our_own() {
        let folder = tempfile::tempdir().unwrap();
        let docker = r#"{"auths": {"https://Hub.example/v1/": {"auth": "bWU6cA=="}, "r:5000": {"auth": "dTpw", "email": "x"},
            "r:5000/team": {"auth": "dTpw"}, "elsewhere": {}, "wrong": {"auth": "%"}}, "credsStore": "desktop"}"#;
        let logins = logins(&folder, Some(docker));
        assert_eq!(logins.find("hub.example").unwrap(), Some(login("me", "p")), "as Docker writes it");
        logins.add("r:5000", &login("own", "q")).unwrap();
        assert_eq!(logins.find("r:5000").unwrap(), Some(login("own", "q")), "our own goes before");
        let all = logins.list().unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["hub.example", "r:5000"], "those with a password");
        assert!(!logins.remove("hub.example").unwrap(), "another program's file is not written");
        assert_eq!(std::fs::read_to_string(folder.path().join("config.json")).unwrap(), docker, "to the byte");
    }

    #[test]
    fn what_is_unreadable_is_said_without_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(&folder, Some("{\"auths\":\n {\"r\": {\"auth\": 5, \"secret\": 1}}}"));
        let error = logins.find("r").unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("line 2") && !error.contains("secret"), "{error}");
    }
}
