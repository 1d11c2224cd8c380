//! Who is asked for what, and who is believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use cairn_store::{Digest, Layer, LayerKind, Manifest, ModelRef};
use ssh_key::PrivateKey;
use ssh_key::private::Ed25519Keypair;
use tokio::sync::broadcast::Receiver;

use super::*;
use crate::Seal;
use crate::served::{Served, new_year, reply, transport};

/// A manifest that differs by what is in it.
fn manifest(what: &[u8]) -> Vec<u8> {
    let layer = Layer { kind: LayerKind::Model, digest: Digest::of(what), size_bytes: what.len() as u64 };
    Manifest::to_json(&layer, &[])
}

/// The key of every mirror here.
fn key() -> PrivateKey {
    PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]))
}

fn pinned() -> PeerKey {
    key().public_key().to_openssh().unwrap().parse().unwrap()
}

/// A server with such a manifest and the blob `x`, or with a failure where the number is one.
async fn server(what: &'static [u8]) -> (Served, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let now = Arc::clone(&status);
    let served = Served::by(move |seen| match now.load(Ordering::Relaxed) {
        200 if seen.target.contains("/manifests/") => {
            let manifest = manifest(what);
            // As a mirror that was joined does, for the registry that it stands for.
            let origin = seen.target.split_once("?ns=").map_or("x".to_owned(), |(_, host)| host.replace("%3A", ":"));
            let name = format!("{origin}/library/m:latest").parse().unwrap();
            let seal = Seal::by(&key(), &name, &Digest::of(&manifest), new_year());
            reply(200, &[(Seal::HEADER, seal.text())], manifest)
        }
        200 => reply(200, &[], "x"),
        status => reply(status, &[], ""),
    })
    .await;
    (served, status)
}

/// Two servers, an origin and a mirror, and the sources that they make.
struct Both {
    origin: (Served, Arc<AtomicU16>),
    mirror: (Served, Arc<AtomicU16>),
    sources: Sources,
    events: Receiver<SourceEvent>,
    name: ModelRef,
    places: Vec<Place>,
}

impl Both {
    async fn new(places: &[&str]) -> Self {
        let (origin, mirror) = (server(b"origin").await, server(b"mirror").await);
        let rules = HealthRules { rest: std::time::Duration::from_secs(3600), ..HealthRules::default() };
        let sources = Sources::new(transport(), Arc::new(|_| SignIn::anonymous()), rules);
        let mirror_of = |trust| Place::Mirror { address: mirror.0.url(""), trust, sign_in: SignIn::anonymous() };
        let places = places.iter().map(|place| match *place {
            "origin" => Place::Origin,
            "joined" => mirror_of(Trust::Joined(pinned())),
            "another" => {
                let other = PrivateKey::from(Ed25519Keypair::from_seed(&[8; 32]));
                mirror_of(Trust::Joined(other.public_key().to_openssh().unwrap().parse().unwrap()))
            }
            _ => mirror_of(Trust::BlobsOnly),
        });
        let places: Vec<Place> = places.collect();
        sources.set(&origin.0.place, places.clone()).unwrap();
        let name = format!("http://{}/library/m:latest", origin.0.place).parse().unwrap();
        let events = sources.events();
        Self { origin, mirror, sources, events, name, places }
    }

    /// Another program begins, which knows only what was written down.
    fn begin_anew(&mut self) {
        let rules = HealthRules { rest: std::time::Duration::from_secs(3600), ..HealthRules::default() };
        self.sources = Sources::new(transport(), Arc::new(|_| SignIn::anonymous()), rules);
        self.sources.set(&self.origin.0.place, self.places.clone()).unwrap();
        self.events = self.sources.events();
    }

    fn of(&self) -> ModelSources {
        self.sources.of(&self.name, false).unwrap()
    }

    /// Who resolves the name, when the servers answer so.
    async fn resolve(&self, origin: u16, mirror: u16) -> Result<String, SourceError> {
        self.origin.1.store(origin, Ordering::Relaxed);
        self.mirror.1.store(mirror, Ordering::Relaxed);
        let resolved = self.of().resolve().await?;
        let by = if resolved.by_mirror { "mirror" } else { "origin" };
        assert_eq!(
            &resolved.host,
            if resolved.by_mirror { &self.mirror.0.place } else { &self.origin.0.place },
            "{by}"
        );
        assert_eq!(resolved.manifest.bytes, manifest(by.as_bytes()), "{by}'s own manifest");
        Ok(format!("{by}, after {}", resolved.fell_back.len()))
    }

    fn events(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            let who = |host: &str| if host == self.origin.0.place { "origin" } else { "mirror" };
            told.push(match event {
                SourceEvent::Rests { host, .. } => format!("{} rests", who(&host)),
                SourceEvent::Recovered { host } => format!("{} recovered", who(&host)),
                SourceEvent::FellBack { to, reasons, .. } => format!("{} after {}", who(&to), reasons.len()),
                SourceEvent::Disagreement { mirror, mirror_digest, origin_digest, .. } => {
                    let digests = (Digest::of(&manifest(b"mirror")), Digest::of(&manifest(b"origin")));
                    assert_eq!((mirror_digest, origin_digest), digests, "what each said");
                    format!("{} disagreed", who(&mirror))
                }
            });
        }
        told
    }
}

/// Who resolves a name by such a list, and what is told of it.
async fn check(places: &[&str], origin: u16, mirror: u16, expected: Result<&str, &str>, told: &[&str]) {
    let mut both = Both::new(places).await;
    let got = both.resolve(origin, mirror).await;
    let got = got.map_err(|error| match error {
        SourceError::Broken { .. } => "broken".to_owned(),
        SourceError::Busy { .. } => "busy".to_owned(),
        SourceError::Absent { .. } => "absent".to_owned(),
        SourceError::Refused { .. } => "refused".to_owned(),
        SourceError::Untrusted { .. } => "untrusted".to_owned(),
    });
    let about = format!("{places:?}, the origin {origin}, the mirror {mirror}");
    assert_eq!(got.as_deref().map_err(String::as_str), expected, "{about}");
    assert_eq!(both.events(), told, "{about}");
}

#[tokio::test]
async fn who_resolves_a_name() {
    check(&["origin"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["origin", "joined"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["joined", "origin"], 200, 200, Ok("mirror, after 0"), &[]).await;
    check(&["blobs", "origin"], 200, 200, Ok("origin, after 0"), &[]).await;
    check(&["joined"], 200, 200, Ok("mirror, after 0"), &[]).await;
    check(&["blobs"], 200, 200, Err("refused"), &[]).await;
}

#[tokio::test]
async fn who_resolves_a_name_when_one_fails() {
    check(&["origin", "joined"], 500, 200, Ok("mirror, after 1"), &["origin rests", "mirror after 1"]).await;
    check(&["origin", "joined"], 429, 200, Ok("mirror, after 1"), &["origin rests", "mirror after 1"]).await;
    check(&["joined", "origin"], 200, 500, Ok("origin, after 1"), &["mirror rests", "origin after 1"]).await;
    check(&["joined", "origin"], 200, 404, Ok("origin, after 1"), &["origin after 1"]).await;
    check(&["origin", "joined"], 500, 404, Err("broken"), &["origin rests"]).await;
    check(&["origin", "blobs"], 500, 200, Err("broken"), &["origin rests"]).await;
}

#[tokio::test]
async fn the_origin_has_the_last_word() {
    check(&["origin", "joined"], 404, 200, Err("absent"), &[]).await;
    check(&["origin", "joined"], 403, 200, Err("refused"), &[]).await;
    check(&["joined", "origin"], 404, 500, Err("absent"), &["mirror rests"]).await;
}

#[tokio::test]
async fn a_mirror_that_was_joined_hears_what_is_going_to_be_fetched() {
    for (place, questions) in [("joined", 1), ("blobs", 0)] {
        let both = Both::new(&["origin", place]).await;
        assert_eq!(both.resolve(200, 404).await.unwrap(), "origin, after 0", "{place}: whatever it says");
        let asked = both.mirror.0.lines();
        assert_eq!(asked.len(), questions, "{place}: {asked:?}");
        assert!(asked.iter().all(|line| line.contains("/manifests/latest")), "{place}: {asked:?}");
    }
}

#[tokio::test]
async fn a_disagreement_is_told_once() {
    let mut both = Both::new(&["origin", "joined"]).await;
    both.resolve(500, 200).await.unwrap();
    both.events();
    // The origin rests and the mirror is asked first, until the mirror fails.
    assert_eq!(both.resolve(200, 200).await.unwrap(), "mirror, after 0", "one that failed is asked last");
    assert_eq!(both.resolve(200, 500).await.unwrap(), "origin, after 1", "and is asked then");
    let told = ["mirror rests", "origin recovered", "mirror disagreed", "origin after 1"];
    assert_eq!(both.events(), told, "what happened");
    both.resolve(200, 200).await.unwrap();
    assert_eq!(both.events(), Vec::<String>::new(), "it is not told again");
}

/// What was told of a file, and the words in it.
struct Kept {
    folder: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Kept {
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("data").join("sources.json")
    }

    fn memory(&self) -> SourceMemory {
        let told = Arc::clone(&self.told);
        SourceMemory {
            path: self.path(),
            disk: Arc::new(cairn_disk::RealDisk),
            clock: Arc::new(new_year),
            tell: Box::new(move |line| told.lock().unwrap().push(line)),
        }
    }

    /// Waits until the file has these words, or does not.
    async fn until(&self, words: &str, has: bool) {
        for _ in 0..500 {
            let text = std::fs::read_to_string(self.path()).unwrap_or_default();
            if text.contains(words) == has && text.contains("\"version\":1") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{words:?} in the file: {has} was expected: {:?}", std::fs::read_to_string(self.path()));
    }
}

fn kept() -> Kept {
    Kept { folder: tempfile::tempdir().unwrap(), told: Arc::default() }
}

#[tokio::test]
async fn what_mirrors_said_and_who_rests_outlives_the_program() {
    let kept = kept();
    let mut both = Both::new(&["origin", "joined"]).await;
    both.sources.keep_at(kept.memory());
    both.resolve(500, 200).await.expect("the mirror is believed");
    kept.until(&Digest::of(&manifest(b"mirror")).to_string(), true).await;
    kept.until("\"failures\":1", true).await;

    let beside = |name: &str| kept.path().with_file_name(name);
    let (half, other) = (beside(".sources.json.17647-17.tmp"), beside(".other.json.1-1.tmp"));
    [&half, &other].into_iter().for_each(|path| std::fs::write(path, "{").unwrap());
    both.begin_anew();
    both.sources.keep_at(kept.memory());
    assert!(!half.exists() && other.exists(), "what a killed program left half-written goes, and only that");
    assert_eq!(both.resolve(200, 500).await.unwrap(), "origin, after 1", "the origin rests still, and is asked last");
    let told = both.events();
    assert!(told.contains(&"mirror disagreed".to_owned()), "the word of the mirror of then: {told:?}");
    kept.until("mirror\":", false).await;

    both.begin_anew();
    both.sources.keep_at(kept.memory());
    both.resolve(200, 200).await.unwrap();
    assert!(!both.events().contains(&"mirror disagreed".to_owned()), "it is told once");
    assert_eq!(*kept.told.lock().unwrap(), [""; 0], "nothing was wrong");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_said_once_and_begins_anew() {
    for rubbish in ["", "{", "[]", "{\"version\":1}", "{\"version\":\"x\"}", "\u{0}\u{0}\u{0}"] {
        let kept = kept();
        std::fs::create_dir_all(kept.path().parent().unwrap()).unwrap();
        std::fs::write(kept.path(), rubbish).unwrap();
        let both = Both::new(&["origin", "joined"]).await;
        both.sources.keep_at(kept.memory());
        both.resolve(500, 200).await.expect("it goes on without");
        kept.until("mirror\":", true).await;
        let told = kept.told.lock().unwrap().clone();
        assert!(told.len() == 1 && told[0].contains("begins anew"), "{rubbish:?}: {told:?}");
    }
    let kept = kept();
    let newer = "{\"version\":2,\"words\":{}}";
    std::fs::create_dir_all(kept.path().parent().unwrap()).unwrap();
    std::fs::write(kept.path(), newer).unwrap();
    let both = Both::new(&["origin", "joined"]).await;
    both.sources.keep_at(kept.memory());
    both.resolve(500, 200).await.expect("it goes on without");
    assert_eq!(std::fs::read_to_string(kept.path()).unwrap(), newer, "it is a newer program's");
    assert!(kept.told.lock().unwrap()[0].contains("left alone"), "{:?}", kept.told.lock().unwrap());
}

#[tokio::test]
async fn blobs_come_from_everybody_in_order() {
    let both = Both::new(&["blobs", "origin"]).await;
    let hosts = || both.of().blobs().iter().map(|source| source.host().to_owned()).collect::<Vec<_>>();
    let (origin, mirror) = (both.origin.0.place.clone(), both.mirror.0.place.clone());
    assert_eq!(hosts(), [mirror.clone(), origin.clone()], "in the order of the list");
    let digest = Digest::of(b"x");
    let sources = both.of().blobs();
    let mut opened = sources[0].open(&digest, 1, 0..1).await.unwrap();
    assert_eq!(opened.body.next().await.unwrap().as_deref(), Some(&b"x"[..]), "what the mirror has");
    let asked = both.mirror.0.lines();
    assert!(asked[0].ends_with(&format!("?ns={}", origin.replace(':', "%3A"))), "for whom it stands: {asked:?}");
    both.mirror.1.store(503, Ordering::Relaxed);
    assert!(sources[0].open(&digest, 1, 0..1).await.is_err(), "it fails now");
    assert_eq!(hosts(), [origin, mirror], "and is asked last");
}

#[tokio::test]
async fn addresses_of_mirrors_are_checked() {
    let both = Both::new(&["origin"]).await;
    let place = |address: &str| {
        vec![Place::Mirror {
            address: address.to_owned(),
            trust: Trust::Joined(pinned()),
            sign_in: SignIn::anonymous(),
        }]
    };
    both.sources.set("x", place("http://nas:11434")).expect("plain http, as the user wrote");
    assert!(matches!(both.sources.set("x", place("nas")), Err(AddressError::Invalid { .. })), "no scheme");
    assert_eq!(both.sources.of(&"x/y/z".parse().unwrap(), false).unwrap().blobs()[0].host(), "nas:11434", "as it was");
    let name: ModelRef = "http://nas/a/b".parse().unwrap();
    assert!(matches!(both.sources.of(&name, false), Err(AddressError::Insecure { .. })), "a name asks for nothing");
    both.sources.of(&name, true).expect("asked for");
    assert!(matches!(both.sources.of(&name, false), Err(AddressError::Insecure { .. })), "not for ever");
}

#[tokio::test]
async fn a_mirror_is_believed_only_by_the_key_that_was_pinned() {
    check(&["another", "origin"], 200, 200, Ok("origin, after 1"), &["origin after 1"]).await;
    check(&["another"], 200, 200, Err("refused"), &[]).await;
}
