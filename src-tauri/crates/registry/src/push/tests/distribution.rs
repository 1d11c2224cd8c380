//! The real thing: Debian's `docker-registry`. Where a machine lacks it, these tests say so and end.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cairn_store::{Digest, Manifest};

use super::{Model, rules, watcher};
use crate::served::{Served, model, reply, transport};
use crate::{PushError, PushStep, Registry, SignIn, SourceError};

/// A running registry, ended when it is dropped.
struct Distribution {
    child: Child,
    place: String,
    folder: tempfile::TempDir,
}

impl Distribution {
    /// Starts one; `None` where there is no such program. `auth` is the part of its configuration of that name; `FOLDER`
    /// in it is a folder where `files` are.
    fn start(auth: &str, files: &[(&str, &str)]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        // Nothing else takes the port in the moment between, as ports go round.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = folder.path().display().to_string();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {root}/data}}\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n{}",
            auth.replace("FOLDER", &root)
        );
        let path = folder.path().join("config.yml");
        std::fs::File::create(&path).unwrap().write_all(config.as_bytes()).unwrap();
        let place = format!("127.0.0.1:{port}");
        let child = spawn(&path)?;
        let started = Self { child, place, folder };
        let begun = Instant::now();
        while std::net::TcpStream::connect(&started.place).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "docker-registry does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(started)
    }

    fn registry(&self, sign_in: SignIn) -> Registry {
        Registry::at(&format!("http://{}", self.place), false, &transport(), sign_in).unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.place)
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(config: &Path) -> Option<Child> {
    let quiet = || Stdio::null();
    let spawned = Command::new("docker-registry").arg("serve").arg(config).stdout(quiet()).stderr(quiet()).spawn();
    if spawned.is_err() {
        eprintln!("skipped: there is no docker-registry here; `cargo xtask setup` installs it");
    }
    spawned.ok()
}

/// 25 bytes and a few hundred thousand, so that there are small parts and parts of many reads.
fn large() -> Vec<u8> {
    (0..700_001_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn pull(registry: &Registry, digest: &Digest, expected: &[u8]) {
    let source = registry.blobs(&model());
    let size = expected.len() as u64;
    for range in [0..size, size / 3..size / 2] {
        let mut opened = source.open(digest, size, range.clone()).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(more) = opened.body.next().await.unwrap() {
            bytes.extend_from_slice(&more);
        }
        assert_eq!(opened.offset, range.start, "a real registry knows ranges");
        let expected = &expected[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(bytes == expected, "the bytes of {range:?}");
    }
}

#[tokio::test]
async fn push_read_and_pull() {
    let Some(running) = Distribution::start("", &[]) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = running.registry(SignIn::anonymous());
    let rules = crate::PushRules { min_part_bytes: 300_000, max_part_bytes: 300_000, ..rules() };
    let (watcher, told) = watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules, &watcher).await.unwrap();
    assert!(told.lock().unwrap().len() > 3, "progress was told: {told:?}");

    // Plain HTTP, without anything of ours: curl, where there is one.
    let digest = Digest::of(&blob);
    let read = Command::new("curl").args(["-sf", &running.url(&format!("/v2/library/m/blobs/{digest}"))]).output();
    if let Ok(read) = read {
        assert_eq!(Digest::of(&read.stdout), digest, "curl reads the same");
    }

    let got = registry.manifest(&model()).await.unwrap();
    assert_eq!(got.bytes, model_.manifest, "the manifest comes back byte for byte");
    registry.manifest_of(&model(), &Digest::of(&model_.manifest)).await.expect("by its digest too");
    pull(&registry, &digest, &blob).await;
    assert_eq!(registry.blob_size(&model(), &digest).await.unwrap(), Some(blob.len() as u64), "its size");
    let absent = registry.manifest(&"library/absent".parse().unwrap()).await;
    assert!(matches!(absent, Err(SourceError::Absent { .. })), "{absent:?}");

    // A second push finds everything there.
    let (again, told) = super::watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules, &again).await.unwrap();
    let steps = Manifest::parse(&model_.manifest).unwrap().layers.len() + 2;
    assert_eq!(told.lock().unwrap().len(), steps, "nothing was sent: {told:?}");
    assert_eq!(told.lock().unwrap().last(), Some(&PushStep::Manifest), "the manifest is");
    assert!(running.folder.path().join("data/docker").exists(), "it was this registry that kept it");
}

#[tokio::test]
async fn a_blob_is_mounted() {
    let Some(running) = Distribution::start("", &[]) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = running.registry(SignIn::anonymous());
    let (watcher, _) = watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules_of(300_000), &watcher).await.unwrap();
    let manifest = String::from_utf8(model_.manifest.clone()).unwrap();
    let from = format!("\"size\":{},\"from\":\"{}/library/m:latest\"", blob.len(), running.place);
    let manifest = manifest.replace(&format!("\"size\":{}", blob.len()), &from);
    assert!(manifest.contains("from"), "the layer names its source: {manifest}");
    let name = format!("{}/me/derived:latest", running.place).parse().unwrap();
    let (watcher, told) = super::watcher();
    registry.push(&name, manifest.as_bytes(), &model_.library(), &rules_of(1000), &watcher).await.unwrap();
    assert!(told.lock().unwrap().len() < 10, "the large blob was not sent again: {}", told.lock().unwrap().len());
    assert_eq!(registry.manifest(&name).await.unwrap().bytes, manifest, "a model of its own");
}

fn rules_of(part_bytes: u64) -> crate::PushRules {
    crate::PushRules { min_part_bytes: part_bytes, max_part_bytes: part_bytes, ..rules() }
}

#[tokio::test]
async fn a_password_opens_it() {
    // The user `u` with the password `p`, as htpasswd writes them with bcrypt.
    let users = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";
    let auth = "auth: {htpasswd: {realm: x, path: FOLDER/users}}\n";
    let Some(running) = Distribution::start(auth, &[("users", users)]) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let registry = running.registry(SignIn::password("u", "p"));
    registry.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await.unwrap();
    pull(&registry, &Digest::of(b"weights"), b"weights").await;
    let stranger = running.registry(SignIn::password("u", "wrong"));
    let got = stranger.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await;
    assert!(matches!(got, Err(PushError::Registry(SourceError::Refused { .. }))), "{got:?}");
}

/// An ECDSA signature's two numbers, 32 bytes each, out of the DER that holds them.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    // A sequence of two integers, each with its tag, its length, and perhaps a zero that keeps it positive.
    let mut rest = &der[2..];
    for _ in 0..2 {
        let (number, after) = rest[2..].split_at(usize::from(rest[1]));
        let bytes = &number[number.len().saturating_sub(32)..];
        numbers.extend(vec![0; 32 - bytes.len()]);
        numbers.extend_from_slice(bytes);
        rest = after;
    }
    numbers
}

/// A token for the scopes that were asked for, signed as the registry wants it (RFC 7519 with ES256).
fn token(key: &rcgen::CertifiedKey<rcgen::KeyPair>, query: &str) -> String {
    let mut access = Vec::new();
    for scope in query.split('&').filter_map(|pair| pair.strip_prefix("scope=")) {
        let scope = scope.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
        let [kind, name, actions] = scope.split(':').collect::<Vec<_>>()[..] else {
            panic!("{scope:?} has three parts")
        };
        let actions: Vec<_> = actions.split(',').collect();
        access.push(serde_json::json!({ "type": kind, "name": name, "actions": actions }));
    }
    // Far from now on either side, because the registry has a real clock.
    let claims = serde_json::json!({
        "iss": "tests", "sub": "u", "aud": "registry", "nbf": 0, "iat": 0, "exp": 4_102_444_800_u64, "jti": "1", "access": access,
    });
    let header = serde_json::json!({ "typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(key.cert.der())] });
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = rcgen::SigningKey::sign(&key.signing_key, signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(fixed(&signature)))
}

#[tokio::test]
async fn tokens_open_it() {
    let key = rcgen::generate_simple_self_signed(["tests".to_owned()]).unwrap();
    let certificate = key.cert.pem();
    let server = Served::by(move |seen| match seen.header("authorization") {
        Some("Basic dTpw") => {
            let token = token(&key, seen.target.split_once('?').unwrap().1);
            reply(200, &[], format!("{{\"token\":\"{token}\"}}"))
        }
        _ => reply(401, &[], ""),
    })
    .await;
    let auth = format!(
        "auth: {{token: {{realm: \"{}\", service: registry, issuer: tests, rootcertbundle: FOLDER/ca.pem}}}}\n",
        server.url("/token")
    );
    let Some(running) = Distribution::start(&auth, &[("ca.pem", &certificate)]) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let realms = || [server.place.clone()];
    let registry = running.registry(SignIn::password("u", "p").trusting_realms(realms()));
    registry.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await.unwrap();
    assert_eq!(registry.manifest(&model()).await.unwrap().bytes, model_.manifest, "it comes back");
    pull(&registry, &Digest::of(b"weights"), b"weights").await;
    assert_eq!(server.seen().len(), 2, "one token to write, one to read: {:?}", server.lines());
    let stranger = running.registry(SignIn::password("u", "wrong").trusting_realms(realms()));
    let got = stranger.manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Refused { .. })), "{got:?}");
}
