//! Whose a request is: what it may find computed, and what becomes of what it computes.
//!
//! `X-Cairn-Owner` is a name that means nothing here; all that only its bearer left can be deleted by it. `X-Cairn-Incognito: 1`
//! leaves nothing. What one client has computed must not show another what was said, by how soon an answer begins: programs of
//! this machine share one space while nobody else can reach the daemon, and else each API key has a space of its own. Those from
//! elsewhere who show no key share one that is not this machine's.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use cairn_app::cache::Owner;
use cairn_app::inference::CacheScope;
use cairn_store::Digest;

use crate::Server;
use crate::asker::Asker;
use crate::error::ApiError;

const OWNER: HeaderName = HeaderName::from_static("x-cairn-owner");
const INCOGNITO: HeaderName = HeaderName::from_static("x-cairn-incognito");

/// Whose a request is.
pub(crate) struct For(pub(crate) CacheScope);

impl FromRequestParts<Server> for For {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, ApiError> {
        // Whoever cannot be told from others is from elsewhere.
        let is_here = Asker::from_request_parts(parts, server).await.is_ok_and(|asker| asker.is_here);
        let key = bearer(&parts.headers).filter(|key| !server.is_own(key));
        let only_here = server.addresses().iter().all(|address| address.ip().is_loopback());
        let space = space(is_here, only_here, key);
        let (owner, incognito) = (owner(&parts.headers)?, incognito(&parts.headers)?);
        Ok(Self(CacheScope { name: space.map(Into::into), owner, incognito }))
    }
}

/// The name of the space in which prefixes are shared; none for that of this machine's programs.
fn space(is_here: bool, only_here: bool, key: Option<&str>) -> Option<String> {
    match key {
        _ if is_here && only_here => None,
        // A key is a secret, and names of spaces are not.
        Some(key) => Some(format!("key {}", Digest::of(key.as_bytes()).hex())),
        None if is_here => None,
        None => Some("elsewhere".to_owned()),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|key| !key.is_empty())
}

/// The owner that a request names.
pub(crate) fn owner(headers: &HeaderMap) -> Result<Option<Owner>, ApiError> {
    let mut values = headers.get_all(OWNER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let name = value.to_str().ok().filter(|_| values.next().is_none());
    let owner = name.and_then(named);
    owner.map(Some).ok_or_else(|| ApiError::bad_request(format!("X-Cairn-Owner is {}", owner_rule())))
}

/// The owner of this name, where it can be one.
pub(crate) fn named(name: &str) -> Option<Owner> {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    Owner::new(name).filter(|_| printable)
}

/// What an owner's name must be.
pub(crate) fn owner_rule() -> String {
    format!("one name of 1 to {} printable ASCII characters without blanks", Owner::MAX_BYTES)
}

/// Whether a request is to leave nothing. What cannot be read is refused: to keep what was not to be kept cannot be undone.
fn incognito(headers: &HeaderMap) -> Result<bool, ApiError> {
    let mut values = headers.get_all(INCOGNITO).iter();
    match (values.next().map(|value| value.as_bytes()), values.next()) {
        (None | Some(b"0" | b"false"), None) => Ok(false),
        (Some(b"1" | b"true"), None) => Ok(true),
        _ => Err(ApiError::bad_request("X-Cairn-Incognito is 1 or 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().expect("a header's value"));
        }
        headers
    }

    #[test]
    fn clients_that_others_can_reach_share_nothing() {
        let check = |is_here, only_here, key, expected: Option<&str>| {
            let space = space(is_here, only_here, key);
            let head = space.as_deref().map(|space| &space[..space.len().min(9)]);
            assert_eq!(head, expected, "{is_here} {only_here} {key:?}");
        };
        check(true, true, Some("a"), None);
        check(true, false, None, None);
        check(true, false, Some("a"), Some("key ca978"));
        check(false, false, Some("a"), Some("key ca978"));
        check(false, false, Some("b"), Some("key 3e23e"));
        check(false, true, None, Some("elsewhere"));
        check(false, false, None, Some("elsewhere"));
    }

    #[test]
    fn an_owner_is_one_short_printable_name() {
        let longest = "x".repeat(Owner::MAX_BYTES);
        for name in ["chat-12", "a/b:c", &longest] {
            let found = owner(&headers(&[(OWNER, name)])).expect("a name");
            assert_eq!(found.as_ref().map(Owner::as_str), Some(name), "as it was sent");
        }
        assert!(owner(&headers(&[])).is_ok_and(|owner| owner.is_none()), "nobody is named");
        for name in ["", "two words", "\u{fc}", "tab\tbed", &"x".repeat(Owner::MAX_BYTES + 1)] {
            assert!(owner(&headers(&[(OWNER, name)])).is_err(), "{name:?}");
        }
        assert!(owner(&headers(&[(OWNER, "a"), (OWNER, "b")])).is_err(), "two names");
    }

    #[test]
    fn what_may_mean_incognito_is_never_kept() {
        for (value, expected) in
            [("1", Some(true)), ("true", Some(true)), ("0", Some(false)), ("yes", None), ("", None)]
        {
            assert_eq!(incognito(&headers(&[(INCOGNITO, value)])).ok(), expected, "{value:?}");
        }
        assert_eq!(incognito(&headers(&[])).ok(), Some(false), "unless it is asked for");
        assert!(incognito(&headers(&[(INCOGNITO, "0"), (INCOGNITO, "1")])).is_err(), "both");
    }

    #[test]
    fn a_key_is_what_comes_after_bearer() {
        for (value, expected) in
            [("Bearer k", Some("k")), ("bearer  k ", Some("k")), ("Basic k", None), ("Bearer ", None)]
        {
            assert_eq!(bearer(&headers(&[(header::AUTHORIZATION, value)])), expected, "{value:?}");
        }
    }
}
