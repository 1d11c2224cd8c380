//! Registries that require a login: by password and by token, and where the password is visible.

use std::path::Path;
use std::process::Output;

use cairn_store::Digest;
use cairn_testkit::TokenServer;
use cairn_testkit::distribution::{Access, Distribution, skopeo_manifest};
use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Home, kill, refused, succeeded, text};
use crate::terminal::Terminal;

/// The user `u` with the password `p`, as htpasswd writes them with bcrypt.
const USERS: &str = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";

/// Returns a home with a model under a name of the registry.
fn with_model(host: &str) -> (Home, String) {
    let home = Home::new();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "mine"]));
    let name = format!("{host}/library/x");
    succeeded(&home.run(&["cp", "mine", &name]));
    (home, name)
}

fn login(home: &Home, host: &str, password: &str, more: &[&str]) -> Output {
    let address = format!("http://{host}");
    let words = [&["login", &*address, "--username", "u"], more].concat();
    home.run_with_input(&words, password)
}

fn manifest(home: &Home, host: &str) -> Vec<u8> {
    let path = home.folder.path().join("models/manifests").join(host).join("library/x/latest");
    std::fs::read(path).expect("the manifest exists")
}

/// Returns the digests of all blobs of a manifest.
fn digests(manifest: &[u8]) -> Vec<Digest> {
    let read: Value = serde_json::from_slice(manifest).expect("valid JSON");
    let layers = read["layers"].as_array().expect("a list").iter().chain([&read["config"]]);
    layers.map(|layer| layer["digest"].as_str().and_then(|text| text.parse().ok()).expect("a digest")).collect()
}

/// Pushes a model and pulls it back. `skopeo` and plain HTTP with this `Authorization` header read the same bytes.
fn check_round_trip(home: &Home, registry: &Distribution, name: &str, authorization: &str) {
    let host = registry.host();
    let sent = manifest(home, host);
    succeeded(&home.run(&["push", name, "--insecure"]));
    if let Some(read) = skopeo_manifest(host, "library/x", "u:p") {
        assert!(read == sent, "skopeo reads another manifest: {}", text(&read));
    }
    let header = format!("Authorization: {authorization}\r\n");
    assert_eq!(registry.get("/v2/library/x/manifests/latest", &header), sent, "an identical manifest");
    for digest in digests(&sent) {
        let read = registry.get(&format!("/v2/library/x/blobs/{digest}"), &header);
        assert_eq!(Digest::of(&read), digest, "the blob matches its digest");
    }
    succeeded(&home.run(&["rm", "mine", name]));
    succeeded(&home.run(&["pull", name, "--insecure"]));
    assert_eq!(manifest(home, host), sent, "the same manifest");
    succeeded(&home.run(&["verify", name]));
}

/// Collects the names of all files below a folder that contain a text.
fn files_with(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_with(&path, text, found);
        } else if std::fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
}

#[test]
fn password_login_allows_push_and_pull() {
    let Some(registry) = Distribution::start(Access::Htpasswd(USERS)) else { return };
    let host = registry.host();
    let (home, name) = with_model(host);
    refused(&home.run(&["push", &name, "--insecure"]), "cairn login");
    refused(&home.run(&["pull", &format!("{host}/library/y"), "--insecure"]), "cairn login");
    refused(&login(&home, host, "wrong\n", &[]), "unauthorized");
    refused(&login(&home, host, "\n", &[]), "the password is empty");
    refused(&home.run(&["push", &name, "--insecure"]), "you are not authorized to push to this namespace");

    let stdout = succeeded(&login(&home, host, "p\n", &[]));
    assert_eq!(stdout, format!("logged in to {host} as u\n"), "the password is read from a pipe");
    check_round_trip(&home, &registry, &name, "Basic dTpw");
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["login", "--json"]))).expect("valid JSON");
    assert_eq!(listed, json!({"logins": [{"registry": host, "user": "u"}]}), "registries and users, but no passwords");
    assert!(succeeded(&home.run(&["login"])).contains(host), "also as a table");

    // After logout, pulls from the registry fail.
    succeeded(&home.run(&["logout", host]));
    refused(&home.run(&["logout", host]), "there is no login");
    refused(&home.run(&["pull", &name, "--insecure"]), "unauthorized");

    let file = home.folder.path().join("logins.json");
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).expect("the file exists").permissions());
        assert_eq!(mode & 0o777, 0o600, "only its owner can read the file");
    }
    assert!(!std::fs::read_to_string(&file).expect("the file exists").contains("dTpw"), "the password is deleted");
    succeeded(&home.run(&["stop", "--daemon"]));
    // A credentials file of Docker or skopeo works too.
    std::fs::write(home.folder.path().join("auth.json"), json!({"auths": {host: {"auth": "dTpw"}}}).to_string())
        .expect("the home is writable");
    let path = home.folder.path().join("auth.json").to_string_lossy().into_owned();
    let home = home.with("CAIRN_AUTH_FILE", path);
    succeeded(&home.run(&["pull", &name, "--insecure"]));
}

#[test]
fn token_login_allows_push_and_pull() {
    let server = TokenServer::start("u", "p");
    let Some(registry) = Distribution::start(Access::Tokens(&server)) else { return };
    let host = registry.host();
    let (home, name) = with_model(host);
    // The address of a token server is not trusted without `--token-server`.
    refused(&login(&home, host, "p", &[]), "--token-server HOST");
    assert!(server.requests().is_empty(), "no request to the token server: {:?}", server.requests());
    let trusted = server.host();
    refused(&login(&home, host, "wrong", &["--token-server", &trusted]), "401");
    succeeded(&login(&home, host, "p\n", &["--token-server", &trusted]));
    check_round_trip(&home, &registry, &name, &format!("Bearer {}", server.token("library/x")));
    let writes = server.requests().iter().filter(|request| request.target.contains("push")).count();
    assert_eq!(writes, 1, "one token for the whole push: {:?}", server.requests());
}

#[test]
fn password_is_sent_only_to_its_registry() {
    let registry = FakeRegistry::start(1, Faults { sign_in: true, redirect: true, ..Faults::default() })
        .expect("loopback has free ports");
    let other = FakeRegistry::start(2, Faults { sign_in: true, ..Faults::default() }).expect("loopback has free ports");
    let home = Home::new();
    let daemon = home.serve();
    succeeded(&login(&home, &registry.host(), "secret-word\n", &[]));
    let names = [&registry, &other].map(|registry| crate::pulls::tiny(registry, "m", 3));
    for name in &names {
        succeeded(&home.run(&["pull", name, "--insecure"]));
    }
    // `u:secret-word` in Base64.
    let sent = |seen: &cairn_testkit::registry::ReceivedRequest| {
        seen.request.headers.iter().any(|(_, value)| value.contains("dTpzZWNyZXQtd29yZA"))
    };
    let seen = registry.requests();
    assert!(
        seen.iter().any(|seen| sent(seen) && seen.request.target.starts_with("/token")),
        "the registry's own token server gets it"
    );
    let elsewhere: Vec<_> = seen.iter().filter(|seen| seen.at_storage).collect();
    assert!(!elsewhere.is_empty(), "blobs come from another host");
    for seen in elsewhere {
        assert_eq!(seen.request.header("authorization"), None, "neither password nor token follows a redirect");
    }
    assert!(!other.requests().iter().any(sent), "another registry does not get it");

    let command_line = succeeded(&home.run(&["login"]));
    assert!(!command_line.contains("secret"), "{command_line}");
    assert!(!daemon.log().contains("secret-word"), "the log does not contain it: {}", daemon.log());
    let mut files = Vec::new();
    files_with(home.folder.path(), "secret-word", &mut files);
    assert_eq!(files, [""; 0], "no file contains it in plain text");
    files_with(home.folder.path(), "dTpzZWNyZXQtd29yZA", &mut files);
    assert_eq!(files, ["logins.json"], "one file contains it encoded");
    // Plain HTTP to another machine requires a flag.
    let far = home.run_with_input(&["login", "http://192.0.2.1", "-u", "u"], "secret-word");
    refused(&far, "insecure protocol http");
    let output = home.run(&["login", "example.invalid", "--password", "x"]);
    assert!(
        text(&output.stderr).contains("unexpected argument"),
        "passwords are not accepted as arguments: {}",
        text(&output.stderr)
    );
}

#[test]
fn typed_password_is_not_echoed() {
    let registry =
        FakeRegistry::start(1, Faults { sign_in: true, ..Faults::default() }).expect("loopback has free ports");
    let home = Home::new();
    let _daemon = home.serve();
    let address = format!("http://{}", registry.host());
    let mut terminal = Terminal::begin(&home, &["login", &address]);
    terminal.wait_for("Username: ");
    terminal.type_in("me\n");
    assert!(terminal.wait_for("Password: ").contains("me"), "the user name is echoed");
    terminal.type_in("secret-word\n");
    let seen = terminal.wait_for(&format!("logged in to {} as me", registry.host()));
    assert!(!seen.contains("secret"), "{seen:?}");
    assert!(terminal.end().success(), "the login is stored");
    // `me:secret-word` in Base64, without a newline.
    let sent = |seen: &cairn_testkit::registry::ReceivedRequest| {
        seen.request.header("authorization") == Some("Basic bWU6c2VjcmV0LXdvcmQ=")
    };
    assert!(registry.requests().iter().any(sent), "the typed password is sent");

    let mut terminal = Terminal::begin(&home, &["login", &address, "-u", "other"]);
    terminal.wait_for("Password: ");
    assert!(kill(terminal.pid(), "-INT"), "the command runs");
    terminal.wait_for("interrupted; nothing was stored");
    assert_eq!(terminal.end().code(), Some(1), "an interruption is an error");
    // The terminal echoes input again.
    terminal.type_in("seen again");
    terminal.wait_for("seen again");
    assert!(succeeded(&home.run(&["login"])).contains(" me"), "the first login is unchanged");
}
