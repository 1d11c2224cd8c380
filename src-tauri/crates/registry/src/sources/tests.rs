//! Order and trust of sources.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use cairn_store::{Digest, Layer, LayerKind, Manifest, ModelRef};
use ssh_key::PrivateKey;
use ssh_key::private::Ed25519Keypair;
use tokio::sync::broadcast::Receiver;

use super::*;
use crate::ManifestSignature;
use crate::tests::test_server::{TestServer, fixed_now, reply, transport};

/// A manifest with one layer of this content.
fn manifest(content: &[u8]) -> Vec<u8> {
    let layer = Layer { kind: LayerKind::Model, digest: Digest::of(content), size_bytes: content.len() as u64 };
    Manifest::to_json(&layer, &[])
}

/// The key of all mirrors in these tests.
fn key() -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]))
}

fn pinned() -> PeerKey {
    key().public_key().to_openssh().unwrap().parse().unwrap()
}

/// A server with this manifest and the blob `x`. It responds with the status in the returned atomic.
async fn server(content: &'static [u8]) -> (TestServer, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let now = Arc::clone(&status);
    let served = TestServer::start(move |seen| match now.load(Ordering::Relaxed) {
        200 if seen.target.contains("/manifests/") => {
            let manifest = manifest(content);
            // Sign like a joined mirror, for the registry that it mirrors.
            let origin = seen.target.split_once("?ns=").map_or("x".to_owned(), |(_, host)| host.replace("%3A", ":"));
            let name = format!("{origin}/library/m:latest").parse().unwrap();
            let signature = ManifestSignature::sign_with(&key(), &name, &Digest::of(&manifest), fixed_now());
            reply(200, &[(ManifestSignature::HEADER, signature.as_str())], manifest)
        }
        200 => reply(200, &[], "x"),
        status => reply(status, &[], ""),
    })
    .await;
    (served, status)
}

/// An origin and a mirror, and sources made of them.
struct Setup {
    origin: (TestServer, Arc<AtomicU16>),
    mirror: (TestServer, Arc<AtomicU16>),
    sources: Sources,
    events: Receiver<SourceEvent>,
    name: ModelRef,
    entries: Vec<SourceEntry>,
}

impl Setup {
    async fn new(entries: &[&str]) -> Self {
        let (origin, mirror) = (server(b"origin").await, server(b"mirror").await);
        let rules = BackoffConfig { initial: std::time::Duration::from_secs(3600), ..BackoffConfig::default() };
        let sources = Sources::new(transport(), Arc::new(|_| Credentials::anonymous()), rules);
        let mirror_of =
            |trust| SourceEntry::Mirror { address: mirror.0.url(""), trust, credentials: Credentials::anonymous() };
        let entries = entries.iter().map(|entry| match *entry {
            "origin" => SourceEntry::Origin,
            "joined" => mirror_of(MirrorTrust::Joined(pinned())),
            "another" => {
                let other = PrivateKey::from(Ed25519Keypair::from_seed(&[8; 32]));
                mirror_of(MirrorTrust::Joined(other.public_key().to_openssh().unwrap().parse().unwrap()))
            }
            _ => mirror_of(MirrorTrust::BlobsOnly),
        });
        let entries: Vec<SourceEntry> = entries.collect();
        sources.set_entries(&origin.0.address, entries.clone()).unwrap();
        let name = format!("http://{}/library/m:latest", origin.0.address).parse().unwrap();
        let events = sources.events();
        Self { origin, mirror, sources, events, name, entries }
    }

    /// Replaces the sources, like a restarted process that has only the state file.
    fn restart(&mut self) {
        let rules = BackoffConfig { initial: std::time::Duration::from_secs(3600), ..BackoffConfig::default() };
        self.sources = Sources::new(transport(), Arc::new(|_| Credentials::anonymous()), rules);
        self.sources.set_entries(&self.origin.0.address, self.entries.clone()).unwrap();
        self.events = self.sources.events();
    }

    fn model(&self) -> ModelSources {
        self.sources.for_model(&self.name, false).unwrap()
    }

    /// Resolves the name while the servers respond with these statuses. Returns the source and the number of failures.
    async fn resolve(&self, origin: u16, mirror: u16) -> Result<String, SourceError> {
        self.origin.1.store(origin, Ordering::Relaxed);
        self.mirror.1.store(mirror, Ordering::Relaxed);
        let resolved = self.model().resolve().await?;
        let by = if resolved.is_from_mirror { "mirror" } else { "origin" };
        assert_eq!(
            &resolved.host,
            if resolved.is_from_mirror { &self.mirror.0.address } else { &self.origin.0.address },
            "{by}"
        );
        assert_eq!(resolved.manifest.bytes, manifest(by.as_bytes()), "{by}'s own manifest");
        Ok(format!("{by}, after {}", resolved.failures.len()))
    }

    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            let role = |host: &str| if host == self.origin.0.address { "origin" } else { "mirror" };
            events.push(match event {
                SourceEvent::BackedOff { host, .. } => format!("{} backed off", role(&host)),
                SourceEvent::Recovered { host } => format!("{} recovered", role(&host)),
                SourceEvent::FellBack { to, reasons, .. } => format!("{} after {}", role(&to), reasons.len()),
                SourceEvent::Disagreement { mirror, mirror_digest, origin_digest, .. } => {
                    let digests = (Digest::of(&manifest(b"mirror")), Digest::of(&manifest(b"origin")));
                    assert_eq!((mirror_digest, origin_digest), digests, "the digest of each");
                    format!("{} disagreed", role(&mirror))
                }
            });
        }
        events
    }
}

/// Resolves a name with this list and checks the result and the events.
async fn check(entries: &[&str], origin: u16, mirror: u16, expected: Result<&str, &str>, events: &[&str]) {
    let mut setup = Setup::new(entries).await;
    let got = setup.resolve(origin, mirror).await;
    let got = got.map_err(|error| match error {
        SourceError::Broken { .. } => "broken".to_owned(),
        SourceError::Busy { .. } => "busy".to_owned(),
        SourceError::Absent { .. } => "absent".to_owned(),
        SourceError::Refused { .. } => "refused".to_owned(),
        SourceError::InvalidManifest { .. } => "invalid manifest".to_owned(),
        SourceError::Untrusted { .. } => "untrusted".to_owned(),
    });
    let about = format!("{entries:?}, the origin {origin}, the mirror {mirror}");
    assert_eq!(got.as_deref().map_err(String::as_str), expected, "{about}");
    assert_eq!(setup.events(), events, "{about}");
}

#[tokio::test]
async fn first_trusted_source_resolves_name() {
    check(&["origin"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["origin", "joined"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["joined", "origin"], 200, 200, Ok("mirror, after 0"), &[]).await;
    check(&["blobs", "origin"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["joined"], 200, 200, Ok("mirror, after 0"), &[]).await;
    check(&["blobs"], 200, 200, Err("refused"), &[]).await;
}

#[tokio::test]
async fn name_resolution_falls_back_to_next_source() {
    check(&["origin", "joined"], 500, 200, Ok("mirror, after 1"), &["origin backed off", "mirror after 1"]).await;
    check(&["origin", "joined"], 429, 200, Ok("mirror, after 1"), &["origin backed off", "mirror after 1"]).await;
    check(&["joined", "origin"], 200, 500, Ok("origin, after 1"), &["mirror backed off", "origin after 1"]).await;
    check(&["joined", "origin"], 200, 404, Ok("origin, after 1"), &["origin after 1"]).await;
    check(&["origin", "joined"], 500, 404, Err("broken"), &["origin backed off"]).await;
    check(&["origin", "blobs"], 500, 200, Err("broken"), &["origin backed off"]).await;
}

#[tokio::test]
async fn refusal_of_origin_is_final() {
    check(&["origin", "joined"], 404, 200, Err("absent"), &[]).await;
    check(&["origin", "joined"], 403, 200, Err("refused"), &[]).await;
    check(&["joined", "origin"], 404, 500, Err("absent"), &["mirror backed off"]).await;
}

#[tokio::test]
async fn trusted_mirror_is_queried_for_manifest_even_if_origin_answers() {
    for (entry, expected) in [("joined", 1), ("blobs", 0)] {
        let setup = Setup::new(&["origin", entry]).await;
        assert_eq!(
            setup.resolve(200, 404).await.unwrap(),
            "origin, after 0",
            "{entry}: the response of the mirror is ignored"
        );
        let requests = setup.mirror.0.request_lines();
        assert_eq!(requests.len(), expected, "{entry}: {requests:?}");
        assert!(requests.iter().all(|line| line.contains("/manifests/latest")), "{entry}: {requests:?}");
    }
}

#[tokio::test]
async fn disagreement_is_reported_once() {
    let mut setup = Setup::new(&["origin", "joined"]).await;
    setup.resolve(500, 200).await.unwrap();
    setup.events();
    // The origin is in backoff, so the mirror is tried first, until it fails.
    assert_eq!(setup.resolve(200, 200).await.unwrap(), "mirror, after 0", "a source in backoff is tried last");
    assert_eq!(setup.resolve(200, 500).await.unwrap(), "origin, after 1", "the source in backoff is tried");
    let expected = ["mirror backed off", "origin recovered", "mirror disagreed", "origin after 1"];
    assert_eq!(setup.events(), expected, "the events");
    setup.resolve(200, 200).await.unwrap();
    assert_eq!(setup.events(), Vec::<String>::new(), "the disagreement is not reported again");
}

/// A state file and the warnings about it.
struct StateFile {
    folder: tempfile::TempDir,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl StateFile {
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("data").join("sources.json")
    }

    fn open(&self) -> SourceStateFile {
        let warnings = Arc::clone(&self.warnings);
        SourceStateFile {
            path: self.path(),
            disk: Arc::new(cairn_disk::RealDisk),
            clock: Arc::new(fixed_now),
            warn: Box::new(move |line| warnings.lock().push(line)),
        }
    }

    /// Waits until the file contains this text, or no longer contains it.
    async fn wait_until(&self, words: &str, expected: bool) {
        for _ in 0..500 {
            let text = std::fs::read_to_string(self.path()).unwrap_or_default();
            if text.contains(words) == expected && text.contains("\"version\":1") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{words:?} in the file: {expected} was expected: {:?}", std::fs::read_to_string(self.path()));
    }
}

fn state_file() -> StateFile {
    StateFile { folder: tempfile::tempdir().unwrap(), warnings: Arc::default() }
}

#[tokio::test]
async fn resolutions_and_backoffs_survive_restart() {
    let file = state_file();
    let mut setup = Setup::new(&["origin", "joined"]).await;
    setup.sources.persist_to(file.open());
    setup.resolve(500, 200).await.expect("the mirror resolves the name");
    file.wait_until(&Digest::of(&manifest(b"mirror")).to_string(), true).await;
    file.wait_until("\"failures\":1", true).await;

    let sibling = |name: &str| file.path().with_file_name(name);
    let (temporary, other) = (sibling(".sources.json.17647-17.tmp"), sibling(".other.json.1-1.tmp"));
    [&temporary, &other].into_iter().for_each(|path| std::fs::write(path, "{").unwrap());
    setup.restart();
    setup.sources.persist_to(file.open());
    assert!(!temporary.exists() && other.exists(), "only temporary files of this file are removed");
    assert_eq!(
        setup.resolve(200, 500).await.unwrap(),
        "origin, after 1",
        "the origin is still in backoff and is tried last"
    );
    let events = setup.events();
    assert!(events.contains(&"mirror disagreed".to_owned()), "the stored digest of the mirror: {events:?}");
    file.wait_until("mirror\":", false).await;

    setup.restart();
    setup.sources.persist_to(file.open());
    setup.resolve(200, 200).await.unwrap();
    assert!(!setup.events().contains(&"mirror disagreed".to_owned()), "it is reported once");
    assert_eq!(*file.warnings.lock(), [""; 0], "no warnings");
}

#[tokio::test]
async fn unreadable_state_file_is_reported_and_replaced() {
    for rubbish in ["", "{", "[]", "{\"version\":1}", "{\"version\":\"x\"}", "\u{0}\u{0}\u{0}"] {
        let file = state_file();
        std::fs::create_dir_all(file.path().parent().unwrap()).unwrap();
        std::fs::write(file.path(), rubbish).unwrap();
        let setup = Setup::new(&["origin", "joined"]).await;
        setup.sources.persist_to(file.open());
        setup.resolve(500, 200).await.expect("resolution works without the file");
        file.wait_until("mirror\":", true).await;
        let warnings = file.warnings.lock().clone();
        assert!(warnings.len() == 1 && warnings[0].contains("is replaced"), "{rubbish:?}: {warnings:?}");
    }
    let file = state_file();
    let newer = "{\"version\":2,\"words\":{}}";
    std::fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    std::fs::write(file.path(), newer).unwrap();
    let setup = Setup::new(&["origin", "joined"]).await;
    setup.sources.persist_to(file.open());
    setup.resolve(500, 200).await.expect("resolution works without the file");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), newer, "a file of a newer version is unchanged");
    assert!(file.warnings.lock()[0].contains("left unchanged"), "{:?}", file.warnings.lock());
}

#[tokio::test]
async fn failed_blob_source_moves_to_the_end_of_the_list() {
    let setup = Setup::new(&["blobs", "origin"]).await;
    let hosts = || setup.model().blobs().iter().map(|source| source.host().to_owned()).collect::<Vec<_>>();
    let (origin, mirror) = (setup.origin.0.address.clone(), setup.mirror.0.address.clone());
    assert_eq!(hosts(), [mirror.clone(), origin.clone()], "the order of the list");
    let digest = Digest::of(b"x");
    let sources = setup.model().blobs();
    let mut opened = sources[0].open(&digest, 1, 0..1).await.unwrap();
    assert_eq!(opened.body.next().await.unwrap().as_deref(), Some(&b"x"[..]), "the blob of the mirror");
    let requests = setup.mirror.0.request_lines();
    assert!(
        requests[0].ends_with(&format!("?ns={}", origin.replace(':', "%3A"))),
        "the mirrored registry: {requests:?}"
    );
    setup.mirror.1.store(503, Ordering::Relaxed);
    assert!(sources[0].open(&digest, 1, 0..1).await.is_err(), "the mirror fails");
    assert_eq!(hosts(), [origin, mirror], "the mirror is tried last");
}

#[tokio::test]
async fn mirror_addresses_are_validated() {
    let setup = Setup::new(&["origin"]).await;
    let entries = |address: &str| {
        vec![SourceEntry::Mirror {
            address: address.to_owned(),
            trust: MirrorTrust::Joined(pinned()),
            credentials: Credentials::anonymous(),
        }]
    };
    setup.sources.set_entries("x", entries("http://nas:11434")).expect("the user configured plain http");
    assert!(
        matches!(setup.sources.set_entries("x", entries("nas")), Err(AddressError::Invalid { .. })),
        "an address without a scheme"
    );
    assert_eq!(
        setup.sources.for_model(&"x/y/z".parse().unwrap(), false).unwrap().blobs()[0].host(),
        "nas:11434",
        "the list is unchanged"
    );
    let name: ModelRef = "http://nas/a/b".parse().unwrap();
    assert!(
        matches!(setup.sources.for_model(&name, false), Err(AddressError::Insecure { .. })),
        "http:// in a name is not enough"
    );
    setup.sources.for_model(&name, true).expect("`insecure` allows http");
    assert!(
        matches!(setup.sources.for_model(&name, false), Err(AddressError::Insecure { .. })),
        "`insecure` applies to one call"
    );
}

#[tokio::test]
async fn mirror_with_other_key_is_not_trusted() {
    check(&["another", "origin"], 200, 200, Ok("origin, after 1"), &["origin after 1"]).await;
    check(&["another"], 200, 200, Err("refused"), &[]).await;
}
