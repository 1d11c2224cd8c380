//! The file of the API keys, `api-keys.json`:
//!
//! ```json
//! {"version":2,"keys":{"NAME":{"scopes":["chat"],"created_at":"...","last_used_at":"...","digest":"64 hex digits"}}}
//! ```
//!
//! Version 1 had one `scope` for each key and no `last_used_at`.

use std::collections::BTreeMap;

use cairn_disk::DiskError;
use serde::{Deserialize, Serialize};

use super::StoredKey;
use crate::private_file::{Content, PrivateFile};
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
pub(super) fn read(file: &PrivateFile) -> Result<Keys, String> {
    file.read()?.as_ref().map_or(Ok(Keys::new()), parse)
}

fn parse(content: &Content) -> Result<Keys, String> {
    match content.version() {
        FORMAT => content.parse().map(|file: File<Keys>| file.keys),
        1 => content.parse().map(|file: File<BTreeMap<String, FirstKey>>| {
            let key = |FirstKey { scope, created_at, digest }| StoredKey {
                scopes: vec![scope],
                created_at,
                last_used_at: None,
                digest,
            };
            file.keys.into_iter().map(|(name, first)| (name, key(first))).collect()
        }),
        _ => Err(content.unsupported(&format!("1 to {FORMAT}"))),
    }
}

/// Writes the keys.
pub(super) fn write(file: &PrivateFile, keys: &Keys) -> Result<(), DiskError> {
    file.write(&File { version: FORMAT, keys })
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
        let keys = parse(&Content::of(first.into_bytes()).unwrap()).unwrap();
        let key = &keys["grafana"];
        assert_eq!((key.scopes.as_slice(), key.last_used_at), ([KeyScope::Metrics].as_slice(), None));
        assert!(key.digest.is("cairn-key"), "the key stays valid");
    }

    #[test]
    fn damaged_and_newer_files_are_refused() {
        let check = |text: &str, part: &str| {
            let error = Content::of(text.into()).and_then(|content| parse(&content)).expect_err("the file is refused");
            assert!(error.contains(part), "{text}: {error}");
        };
        check(r#"{"version":3,"keys":[]}"#, "unsupported format version 3");
        check("{", "line 1");
        check(r#"{"version":1,"keys":{"a":{}}}"#, "line 1");
        check(r#"{"version":2,"keys":{"a":{"scopes":["root"]}}}"#, "line 1");
    }
}
