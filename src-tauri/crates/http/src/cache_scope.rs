//! Cache scope of a request: which cached rows it may reuse, and who owns the rows that it computes.
//!
//! `X-Cairn-Owner` is an opaque name. Rows that belong to one owner only can be deleted by that name.
//! `X-Cairn-Incognito: 1` leaves nothing in the cache.
//!
//! Scopes prevent a timing attack: the time to the first token must not reveal the prompts of other clients. Each API
//! key has its own scope. Local programs without a key share one. Remote clients without a key share a scope that is
//! separate from the local one. A text that is no API key has a scope of its own too, unless only this machine can reach
//! the daemon: many programs send any text as key.

use axum::http::{HeaderMap, HeaderName};
use cairn_app::cache::Owner;
use cairn_app::inference::CacheScope;
use cairn_app::secret::SecretDigest;

use crate::Server;
use crate::credential::Credential;
use crate::error::ApiError;

const OWNER: HeaderName = HeaderName::from_static("x-cairn-owner");
const INCOGNITO: HeaderName = HeaderName::from_static(cairn_wire::headers::INCOGNITO);

/// Returns the cache scope of a request. A client with an unknown address counts as remote.
pub(crate) fn cache_scope(
    server: &Server,
    is_local: bool,
    credential: &Credential,
    headers: &HeaderMap,
) -> Result<CacheScope, ApiError> {
    let is_loopback_only = server.addresses().iter().all(|address| address.ip().is_loopback());
    let name = scope_name(is_local, is_loopback_only, credential);
    Ok(CacheScope { name: name.map(Into::into), owner: owner(headers)?, incognito: incognito(headers)? })
}

/// Returns the name of the scope in which prefixes are shared. `None` is the scope of local programs.
fn scope_name(is_local: bool, is_loopback_only: bool, credential: &Credential) -> Option<String> {
    // Scope names are not secret; keys are. A new key with an old name has a new scope.
    let of_key = |digest: &SecretDigest| Some(format!("key {}", digest.hex()));
    match credential {
        Credential::Key(key) => of_key(&key.digest),
        Credential::WrongKey(digest) | Credential::OtherText(digest) if !(is_local && is_loopback_only) => {
            of_key(digest)
        }
        _ if is_local => None,
        _ => Some("elsewhere".to_owned()),
    }
}

/// Reads the owner of a request.
pub(crate) fn owner(headers: &HeaderMap) -> Result<Option<Owner>, ApiError> {
    let mut values = headers.get_all(OWNER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().ok().filter(|_| values.next().is_none());
    let owner = name.and_then(parse_owner);
    owner.map(Some).ok_or_else(|| ApiError::bad_request(format!("invalid X-Cairn-Owner: {}", owner_rule())))
}

/// Parses an owner's name. Returns `None` if it breaks the [`owner_rule`].
pub(crate) fn parse_owner(name: &str) -> Option<Owner> {
    let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    Owner::new(name).filter(|_| is_printable)
}

/// Describes valid owner names, for error messages.
pub(crate) fn owner_rule() -> String {
    format!("it must be one name of 1 to {} printable ASCII characters without spaces", Owner::MAX_BYTES)
}

/// Returns whether a request must leave nothing in the cache. Rejects invalid values, because caching a private prompt
/// by mistake cannot be undone.
fn incognito(headers: &HeaderMap) -> Result<bool, ApiError> {
    let mut values = headers.get_all(INCOGNITO).iter();
    match (values.next().map(|value| value.as_bytes()), values.next()) {
        (None | Some(b"0" | b"false"), None) => Ok(false),
        (Some(b"1" | b"true"), None) => Ok(true),
        _ => Err(ApiError::bad_request("invalid X-Cairn-Incognito: it must be one value, 1 or 0")),
    }
}

#[cfg(test)]
mod tests {
    use cairn_app::keys::PresentedKey;

    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().expect("a header's value"));
        }
        headers
    }

    #[test]
    fn scope_is_separate_for_each_key_and_for_remote_clients() {
        let other = |text: &str| Credential::OtherText(SecretDigest::of(text));
        let key = |text: &str| {
            let digest = SecretDigest::of(text);
            Credential::Key(PresentedKey { name: "name".to_owned(), scopes: Vec::new(), digest }.into())
        };
        let check = |is_local, is_loopback_only, credential: &Credential, expected: Option<&str>| {
            let name = scope_name(is_local, is_loopback_only, credential);
            let head = name.as_deref().map(|name| &name[..name.len().min(9)]);
            assert_eq!(head, expected, "{is_local} {is_loopback_only} {credential:?}");
        };
        check(true, true, &other("a"), None);
        check(true, true, &key("a"), Some("key ca978"));
        check(true, true, &Credential::Absent, None);
        check(true, false, &Credential::Absent, None);
        check(true, false, &Credential::Token, None);
        check(true, false, &other("a"), Some("key ca978"));
        check(false, false, &other("a"), Some("key ca978"));
        check(false, false, &key("b"), Some("key 3e23e"));
        check(false, true, &Credential::Absent, Some("elsewhere"));
        check(false, false, &Credential::Absent, Some("elsewhere"));
        check(false, false, &Credential::Token, Some("elsewhere"));
    }

    #[test]
    fn owner_accepts_one_short_printable_name() {
        let longest = "x".repeat(Owner::MAX_BYTES);
        for name in ["chat-12", "a/b:c", &longest] {
            let found = owner(&headers(&[(OWNER, name)])).expect("a name");
            assert_eq!(found.as_ref().map(Owner::as_str), Some(name), "the name is unchanged");
        }
        assert!(owner(&headers(&[])).is_ok_and(|owner| owner.is_none()), "no owner header");
        for name in ["", "two words", "\u{fc}", "tab\tbed", &"x".repeat(Owner::MAX_BYTES + 1)] {
            assert!(owner(&headers(&[(OWNER, name)])).is_err(), "{name:?}");
        }
        assert!(owner(&headers(&[(OWNER, "a"), (OWNER, "b")])).is_err(), "two names");
    }

    #[test]
    fn incognito_rejects_invalid_values() {
        for (value, expected) in
            [("1", Some(true)), ("true", Some(true)), ("0", Some(false)), ("yes", None), ("", None)]
        {
            assert_eq!(incognito(&headers(&[(INCOGNITO, value)])).ok(), expected, "{value:?}");
        }
        assert_eq!(incognito(&headers(&[])).ok(), Some(false), "off by default");
        assert!(incognito(&headers(&[(INCOGNITO, "0"), (INCOGNITO, "1")])).is_err(), "two values");
    }
}
