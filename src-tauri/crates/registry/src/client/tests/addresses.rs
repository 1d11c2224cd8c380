//! Which addresses a registry can have, and when plain `http` is used.

use cairn_store::ModelRef;

use crate::served::transport;
use crate::{AddressError, Registry, SignIn};

fn check(name: &str, insecure: bool, expected: Result<&str, &str>) {
    let parsed: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
    let registry = Registry::of(&parsed, insecure, &transport(), SignIn::anonymous());
    let got = registry.as_ref().map(|registry| registry.base().as_str()).map_err(AddressError::to_string);
    assert_eq!(got, expected.map_err(str::to_owned), "{name:?}, insecure {insecure}");
}

#[test]
fn https_unless_http_was_asked_for() {
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
fn addresses_hold_no_more_than_a_host() {
    let at = |address: &str| {
        Registry::at(address, true, &transport(), SignIn::anonymous()).map(|found| found.host().to_owned())
    };
    for address in
        ["", "nas", "ftp://nas", "http://nas/path", "http://u:p@nas", "http://nas?q", "http://nas#f", "file:///etc"]
    {
        assert!(matches!(at(address), Err(AddressError::Invalid { .. })), "{address:?}: {:?}", at(address));
    }
    assert_eq!(at("http://nas:11434").as_deref(), Ok("nas:11434"), "with its port");
    assert_eq!(at("https://NAS:443/").as_deref(), Ok("nas"), "without the scheme's own port");
    assert_eq!(at("http://[::1]:5000").as_deref(), Ok("[::1]:5000"), "an address of six");
}
