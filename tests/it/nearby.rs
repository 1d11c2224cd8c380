//! Peers on the local network, over real multicast: daemons that share models discover each other and exchange blobs
//! only. Tests that need a network are skipped with a message on machines without one.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_store::Digest;
use cairn_testkit::ollama_client::{self, ClientKey};
use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, succeeded, text};

/// Returns this machine's address in its network, if any. No packet is sent.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// Returns a home whose daemon shares models with the network.
fn sharing() -> Home {
    let home = Home::new().with("CAIRN_SHARE", "1");
    let listens = format!("0.0.0.0:{}", home.port);
    home.with("OLLAMA_HOST", listens)
}

/// Config blob of the test models.
const CONFIG: &[u8] = br#"{"model_format":"gguf"}"#;

/// Publishes a model with one layer of these contents; returns its digest. It is not a model file, which would have to be
/// one that can run.
fn publish(registry: &FakeRegistry, model: &str, contents: Vec<u8>) -> Digest {
    let (digest, size) = (Digest::of(&contents), contents.len());
    let config = CONFIG;
    let layer = |kind: &str, digest: &Digest, size: usize| json!({"mediaType": kind, "digest": digest.to_string(), "size": size});
    let manifest = json!({
        "schemaVersion": 2,
        "config": layer("application/vnd.docker.container.image.v1+json", &Digest::of(config), config.len()),
        "layers": [layer("application/vnd.ollama.image.projector", &digest, size)],
    });
    registry.put_blob(&Digest::of(config).to_string(), Arc::from(config));
    registry.put_blob(&digest.to_string(), Arc::from(contents));
    registry.put_manifest(&format!("library/{model}"), "latest", manifest.to_string().as_bytes());
    digest
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    cairn_testkit::Random::new(seed).fill(&mut noise);
    noise
}

/// Returns the daemon's row for the peer at a port, if it was discovered.
fn found(home: &Home, port: u16) -> Option<Value> {
    let peers: Value = serde_json::from_str(&succeeded(&home.run(&["mirror", "peers", "--json"]))).expect("valid JSON");
    let nearby = peers["nearby"].as_array().expect("an array");
    let ends = format!(":{port}");
    nearby.iter().find(|found| found["address"].as_str().is_some_and(|address| address.ends_with(&ends))).cloned()
}

fn wait_for(home: &Home, daemon: &Daemon<'_>, port: u16) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = found(home, port) {
            return found;
        }
        assert!(Instant::now() < deadline, "timeout: the peer is not discovered: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the open UDP ports of a process, from `/proc`.
#[cfg(target_os = "linux")]
fn udp_ports(pid: u32) -> Vec<u16> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the process can be inspected")
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok()?.to_str().map(str::to_owned))
        .collect();
    let tables =
        ["udp", "udp6"].map(|kind| std::fs::read_to_string(format!("/proc/{pid}/net/{kind}")).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    let open = rows.filter_map(|row| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        let port = u16::from_str_radix(columns.get(1)?.rsplit(':').next()?, 16).ok()?;
        sockets.contains(&format!("socket:[{}]", columns.get(9)?)).then_some(port)
    });
    open.collect()
}

#[cfg(target_os = "linux")]
#[test]
fn daemon_opens_no_udp_socket_before_sharing_is_enabled() {
    const MDNS: u16 = 5353;
    // Neither the daemon's background work, nor a pull, nor the mirror may open an mDNS socket.
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    publish(&registry, "m", noise(1, 1000));
    let home = Home::new().with("CAIRN_MIRROR", "1");
    let daemon = home.serve();
    let name = format!("{}/library/m", registry.host());
    succeeded(&home.run(&["pull", &name, "--insecure"]));
    succeeded(&home.run(&["mirror", "serve"]));
    assert_eq!(udp_ports(daemon.child.id()), [0; 0], "no UDP socket");
    let home = sharing();
    let daemon = home.serve();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !udp_ports(daemon.child.id()).contains(&MDNS) {
        assert!(Instant::now() < deadline, "timeout: no mDNS socket with sharing: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn blobs_are_downloaded_from_a_discovered_peer() {
    if own_address().is_none() {
        return eprintln!("skipped: this machine is on no network");
    }
    const BYTES: usize = 6_000_000;
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let digest = publish(&registry, "m", noise(2, BYTES));
    let name = format!("{}/library/m", registry.host());
    let (near, home) = (sharing(), sharing().with("CAIRN_STALL", "5s"));
    let _near = near.serve();
    succeeded(&near.run(&["pull", &name, "--insecure"]));
    let before = registry.sent_bytes(&digest.to_string());
    // From here on the origin would need a minute for the model. Its new manifest takes precedence.
    registry.set_faults(Faults { bytes_per_second: Some(100_000), ..Faults::default() });
    let newer = json!({
        "schemaVersion": 2, "newer": true,
        "config": {"digest": Digest::of(CONFIG).to_string(), "size": CONFIG.len()},
        "layers": [{"mediaType": "application/vnd.ollama.image.projector", "digest": digest.to_string(), "size": BYTES}],
    });
    registry.put_manifest("library/m", "latest", newer.to_string().as_bytes());
    let daemon = home.serve();
    let seen = wait_for(&home, &daemon, near.port);
    assert_eq!((&seen["joined"], &seen["dropped"]), (&json!(false), &json!(false)), "an unknown peer: {seen}");
    let stdout = succeeded(&home.run(&["pull", &name, "--insecure"]));
    let origin = registry.sent_bytes(&digest.to_string()) - before;
    assert!(origin < BYTES as u64 / 4, "the origin sent {origin} of {BYTES} bytes: {stdout}");
    let got = found(&home, near.port).expect("the peer is listed");
    assert!(got["got_bytes"].as_u64() > Some(BYTES as u64 * 3 / 4), "the peer sent the rest: {got}");
    let manifest = format!("models/manifests/{}/library/m/latest", registry.host());
    let stored = std::fs::read_to_string(home.folder.path().join(manifest)).expect("the manifest exists");
    assert_eq!(stored, newer.to_string(), "the manifest is from the origin");
    let shown = succeeded(&home.run(&["mirror", "peers"]));
    assert!(shown.contains("blobs only") && shown.contains(&format!(":{}", near.port)), "{shown}");
}

#[test]
fn peer_with_wrong_bytes_is_reported_and_dropped() {
    if own_address().is_none() {
        return eprintln!("skipped: this machine is on no network");
    }
    const BYTES: usize = 3_000_000;
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let digest = publish(&registry, "m", noise(3, BYTES));
    let other = publish(&registry, "other", noise(4, BYTES));
    let name = |model: &str| format!("{}/library/{model}", registry.host());
    let (near, home) = (sharing(), sharing().with("CAIRN_STALL", "5s"));
    let _near = near.serve();
    succeeded(&near.run(&["pull", &name("m"), &name("other"), "--insecure"]));
    let blob = near.folder.path().join("models/blobs").join(digest.file_name());
    std::fs::write(&blob, noise(5, BYTES)).expect("the blob is writable");
    registry.set_faults(Faults { bytes_per_second: Some(1_000_000), ..Faults::default() });
    let daemon = home.serve();
    wait_for(&home, &daemon, near.port);
    let output = home.run(&["pull", &name("m"), "--insecure"]);
    let output_text = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(output.status.success(), "the pull completes from the origin: {output_text}");
    assert!(output_text.contains(&format!(":{} sent wrong bytes", near.port)), "the peer is named: {output_text}");
    let stored =
        std::fs::read(home.folder.path().join("models/blobs").join(digest.file_name())).expect("the file exists");
    assert_eq!(Digest::of(&stored), digest, "the stored blob is correct");
    let dropped = found(&home, near.port).expect("the peer is listed");
    assert_eq!(dropped["dropped"], json!(true), "{dropped}");
    succeeded(&home.run(&["pull", &name("other"), "--insecure"]));
    let again = found(&home, near.port).expect("the peer is listed");
    assert_eq!(again["got_bytes"], dropped["got_bytes"], "the peer gets no more requests");
    let sent = registry.sent_bytes(&other.to_string());
    assert!(sent >= 2 * BYTES as u64, "the origin sent it twice: {sent}");
    let shown = succeeded(&home.run(&["mirror", "peers"]));
    assert!(shown.contains("dropped: it sent wrong bytes"), "{shown}");
}

#[test]
fn remote_stock_client_requires_an_allowed_key() {
    let Some(ip) = own_address() else {
        return eprintln!("skipped: this machine is on no network");
    };
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let first = publish(&registry, "first", noise(6, 200_000));
    publish(&registry, "second", noise(7, 200_000));
    let home =
        sharing().with("CAIRN_MIRROR", "1").with("CAIRN_MIRROR_ORIGINS", format!("http://{}/library", registry.host()));
    let daemon = home.serve();
    #[expect(clippy::disallowed_methods, reason = "the daemon under test uses the real clock, and so must signatures")]
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the clock is after 1970").as_secs();
    let (key, host) = (ClientKey::from_number(9, now), format!("{ip}:{}", home.port));
    let pull = |key: Option<&ClientKey>, model: &str, store: &str| {
        let store = home.folder.path().join(store);
        ollama_client::pull_with_key(key, &host, &format!("library/{model}"), "latest", &store).map(|()| store)
    };
    let refused = pull(Some(&key), "first", "refused").expect_err("the key is not allowed");
    assert!(pull(None, "first", "refused").is_err(), "a client without a key is refused");
    assert_eq!(registry.requests().len(), 0, "no request to the origin: {refused}");
    succeeded(&home.run(&["mirror", "allow", &format!("{} laptop", key.public_line())]));
    let store = pull(Some(&key), "first", "let-in").unwrap_or_else(|error| panic!("{error}: {}", daemon.log()));
    assert!(store.join("blobs").join(first.file_name()).exists(), "the blob is stored");
    let shown = succeeded(&home.run(&["mirror", "stats"]));
    assert!(shown.contains(&ip.to_string()), "the client's address is shown: {shown}");
    succeeded(&home.run(&["mirror", "forget", "laptop"]));
    let requests = registry.requests().len();
    pull(Some(&key), "second", "forgotten").expect_err("the key was removed");
    assert_eq!(registry.requests().len(), requests, "no request to the origin");
}
