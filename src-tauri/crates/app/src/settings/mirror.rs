//! Values of the sharing settings: what the mirror fetches, and which proxies are trusted.

use std::net::IpAddr;

use cairn_store::ModelRef;

/// Models that a mirror fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredOrigin {
    /// The registry, with its port where it has one.
    pub host: String,
    /// The only namespace of it; `None` for all.
    pub namespace: Option<String>,
    /// Whether it is asked over plain http, because the setting says `http://`.
    pub insecure: bool,
}

/// `127.0.0.1, ::1`.
pub(super) fn proxies(text: &str) -> Option<Vec<IpAddr>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| item.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())).collect()
}

/// `registry.ollama.ai/library, hf.co, http://registry.lan:5000/models`.
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
    // They must be parts that a name can have.
    ModelRef::from_parts(host, namespace.unwrap_or("library"), "m", "latest")?;
    Some(MirroredOrigin { host: host.to_owned(), namespace: namespace.map(str::to_owned), insecure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_and_their_namespaces() {
        let check = |text: &str, expected: Option<&[(&str, Option<&str>, bool)]>| {
            let found = origins(text);
            let found = found.as_ref().map(|found| {
                found.iter().map(|one| (&*one.host, one.namespace.as_deref(), one.insecure)).collect::<Vec<_>>()
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
    fn proxies_are_addresses() {
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
