//! Parsers for the sharing settings: origins of the mirror and trusted proxies.

use std::net::IpAddr;

use cairn_store::ModelRef;

/// A registry, or one namespace of it, for which the mirror answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredOrigin {
    /// The registry's host, with its port if it has one.
    pub host: String,
    /// The only namespace that is mirrored; `None` for all.
    pub namespace: Option<String>,
    /// Whether it is reached over plain http, because the setting has `http://`.
    pub insecure: bool,
}

/// Parses IP addresses: `127.0.0.1, ::1`.
pub(super) fn proxies(text: &str) -> Option<Vec<IpAddr>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())).collect()
}

/// Parses origins: `registry.ollama.ai/library, hf.co, http://registry.lan:5000/models`.
pub(super) fn origins(text: &str) -> Option<Vec<MirroredOrigin>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let origins: Option<Vec<_>> = items.map(origin).collect();
    origins.filter(|origins| !origins.is_empty())
}

fn origin(text: &str) -> Option<MirroredOrigin> {
    let (insecure, text) = match text.split_once("://") {
        Some(("http", rest)) => (true, rest),
        Some(("https", rest)) => (false, rest),
        Some(_) => return None,
        None => (false, text),
    };
    let (host, namespace) = match text.trim_end_matches('/').split_once('/') {
        Some((host, namespace)) => (host, Some(namespace)),
        None => (text.trim_end_matches('/'), None),
    };
    // Both must be valid parts of a model's name.
    ModelRef::from_parts(host, namespace.unwrap_or("library"), "m", "latest").ok()?;
    Some(MirroredOrigin { host: host.to_owned(), namespace: namespace.map(str::to_owned), insecure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_parsed_with_their_namespaces() {
        let check = |text: &str, expected: Option<&[(&str, Option<&str>, bool)]>| {
            let found = origins(text);
            let found = found.as_ref().map(|found| {
                let parts = found.iter().map(|origin| (&*origin.host, origin.namespace.as_deref(), origin.insecure));
                parts.collect::<Vec<_>>()
            });
            assert_eq!(found.as_deref(), expected, "{text:?}");
        };
        check("registry.ollama.ai/library", Some(&[("registry.ollama.ai", Some("library"), false)]));
        check("hf.co/, http://nas:5000/a", Some(&[("hf.co", None, false), ("nas:5000", Some("a"), true)]));
        check("https://hf.co", Some(&[("hf.co", None, false)]));
        for wrong in ["", ",", "ftp://a/b", "a/b/c", "../..", "a/..", "hf.co/a b"] {
            check(wrong, None);
        }
    }

    #[test]
    fn proxies_are_parsed_as_ip_addresses() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let found = proxies(text).map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(found.as_ref().map(Vec::len), expected.map(<[_]>::len), "{text:?}: {found:?}");
            assert!(found.iter().flatten().eq(expected.iter().copied().flatten()), "{text:?}: {found:?}");
        };
        check("127.0.0.1, ::1", Some(&["127.0.0.1", "::1"]));
        check("::ffff:10.0.0.1", Some(&["10.0.0.1"]));
        check("", Some(&[]));
        check("10.0.0.0/8", None);
        check("nas", None);
    }
}
