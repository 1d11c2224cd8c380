//! Registry addresses, and the use of plain `http`.

use cairn_store::ModelRef;

use crate::tests::test_server::transport;
use crate::{AddressError, Credentials, Registry};

fn check(name: &str, insecure: bool, expected: Result<&str, &str>) {
    let parsed: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
    let registry = Registry::for_name(&parsed, insecure, &transport(), Credentials::anonymous());
    let got = registry.as_ref().map(|registry| registry.base().as_str()).map_err(AddressError::to_string);
    assert_eq!(got, expected.map_err(str::to_owned), "{name:?}, insecure {insecure}");
}

#[test]
fn https_is_used_unless_http_is_allowed() {
    check("llama3", false, Ok("https://registry.ollama.ai/"));
    check("hf.co/user/repo:Q4_K_M", false, Ok("https://hf.co/"));
    check("nas:5000/a/b", false, Ok("https://nas:5000/"));
    check("nas:5000/a/b", true, Ok("http://nas:5000/"));
    check("http://nas:5000/a/b", true, Ok("http://nas:5000/"));
    check("http://nas:5000/a/b", false, Err("insecure protocol http"));
    check("http://localhost:5000/a/b", false, Ok("http://localhost:5000/"));
    check("http://127.0.0.1:5000/a/b", false, Ok("http://127.0.0.1:5000/"));
    check("http://127.0.0.1.evil.com/a/b", false, Err("insecure protocol http"));
}

#[test]
fn address_must_contain_only_scheme_and_host() {
    let parse = |address: &str| {
        Registry::from_address(address, true, &transport(), Credentials::anonymous())
            .map(|found| found.host().to_owned())
    };
    for address in
        ["", "nas", "ftp://nas", "http://nas/path", "http://u:p@nas", "http://nas?q", "http://nas#f", "file:///etc"]
    {
        assert!(matches!(parse(address), Err(AddressError::Invalid { .. })), "{address:?}: {:?}", parse(address));
    }
    assert_eq!(parse("http://nas:11434").as_deref(), Ok("nas:11434"), "a non-default port is kept");
    assert_eq!(parse("https://NAS:443/").as_deref(), Ok("nas"), "the default port is removed");
    assert_eq!(parse("http://[::1]:5000").as_deref(), Ok("[::1]:5000"), "an IPv6 address");
}
