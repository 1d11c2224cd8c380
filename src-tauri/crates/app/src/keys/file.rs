//! The file of the API keys, `api-keys.json`:
//!
//! ```json
//! {"version":2,"keys":{"NAME":{"scopes":["chat"],"created_at":"...","last_used_at":"...","digest":"64 hex digits"}}}
//! ```
//!
//! Version 1 had one `scope` for each key and no `last_used_at`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cairn_disk::{Disk, DiskError, Mode, RealDisk};
use serde::{Deserialize, Serialize};

use super::StoredKey;
use crate::secret::SecretDigest;
use crate::values::{KeyScope, Timestamp};

/// Version of the format.
const FORMAT: u32 = 2;

/// Keys by name.
pub(super) type Keys = BTreeMap<String, StoredKey>;

#[derive(Serialize, Deserialize)]
struct File<K> {
    version: u32,
    keys: K,
}

/// A key of version 1.
#[derive(Deserialize)]
struct FirstKey {
    scope: KeyScope,
    created_at: Timestamp,
    digest: SecretDigest,
}

/// Reads the keys. There are none without a file.
pub(super) fn read(path: &Path) -> Result<Keys, String> {
    match RealDisk.read(path) {
        Ok(bytes) => parse(&bytes),
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Keys::new()),
        Err(error) => Err(error.source.to_string()),
    }
}

fn parse(bytes: &[u8]) -> Result<Keys, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let keys = match version {
        FORMAT => serde_json::from_slice(bytes).map(|file: File<Keys>| file.keys),
        1 => serde_json::from_slice(bytes).map(|file: File<BTreeMap<String, FirstKey>>| {
            let key = |FirstKey { scope, created_at, digest }| StoredKey {
                scopes: vec![scope],
                created_at,
                last_used_at: None,
                digest,
            };
            file.keys.into_iter().map(|(name, first)| (name, key(first))).collect()
        }),
        _ => return Err(format!("unsupported format version {version} (supported: 1 to {FORMAT})")),
    };
    keys.map_err(|error| error.to_string())
}

/// Writes the keys to a file that only this user can read, and creates its folder.
pub(super) fn write(path: &Path, keys: &Keys) -> Result<(), DiskError> {
    let json = serde_json::to_vec_pretty(&File { version: FORMAT, keys }).expect("texts and numbers are serialisable");
    if let Some(folder) = path.parent() {
        RealDisk.create_dir_all(folder)?;
    }
    RealDisk.write_atomic(path, &json, Mode::Private)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_version_1_is_read() {
        let digest = SecretDigest::of("cairn-key").hex();
        let first = format!(
            r#"{{"version":1,"keys":{{"grafana":{{"scope":"metrics","created_at":"2026-01-02T03:04:05Z","digest":"{digest}"}}}}}}"#
        );
        let keys = parse(first.as_bytes()).unwrap();
        let key = &keys["grafana"];
        assert_eq!((key.scopes.as_slice(), key.last_used_at), ([KeyScope::Metrics].as_slice(), None));
        assert!(key.digest.is("cairn-key"), "the key stays valid");
    }

    #[test]
    fn damaged_and_newer_files_are_refused() {
        let check = |text: &str, part: &str| {
            let error = parse(text.as_bytes()).expect_err("the file is refused");
            assert!(error.contains(part), "{text}: {error}");
        };
        check(r#"{"version":3,"keys":[]}"#, "unsupported format version 3");
        check("{", "EOF");
        check(r#"{"version":1,"keys":{"a":{}}}"#, "scope");
        check(r#"{"version":2,"keys":{"a":{"scopes":["root"]}}}"#, "root");
    }
}
