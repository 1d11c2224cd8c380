//! Pulls with random faults from a seed: responses are truncated, stalled, corrupted or refused, and daemons are
//! killed. Each run ends with the complete model or a clear error.

use std::path::Path;
use std::time::{Duration, Instant};

use cairn_testkit::Random;
use cairn_testkit::registry::{FakeRegistry, Fault, Faults};

use super::published::{Published, leftovers, models, walk};
use super::{listed, text};
use crate::cairn::{Daemon, Home, kill};

/// Number and size of the runs: few and small in CI, a thousand large ones in `cargo xtask prove pull`, which can split
/// them.
struct Scale {
    /// Seed of the first run.
    from: u64,
    runs: u64,
    layer_bytes: usize,
}

#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn scale() -> Scale {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    Scale {
        from: number("CAIRN_PROVE_FROM").unwrap_or(0),
        runs: number("CAIRN_PROVE_PULLS").unwrap_or(60),
        layer_bytes: number("CAIRN_PROVE_PULL_BYTES").unwrap_or(3 << 20) as usize,
    }
}

/// Maximum pulls until a model is complete; faults have a limited budget.
const PULLS: usize = 12;
/// Runs between two progress lines.
const REPORT_EVERY: u64 = 50;
/// Maximum duration of a pull.
const PULL_TIMEOUT: Duration = Duration::from_secs(120);

/// Parts of accepted error messages.
const CLEAR: [&str; 8] = [
    "Nothing is lost",
    "nothing is lost",
    "downloaded data is kept",
    "digest mismatch, file must be downloaded again",
    "retrying does not help",
    "refused",
    "check the spelling",
    "does not have",
];

#[test]
fn pull_survives_injected_faults_and_kills() {
    let Scale { from, runs, layer_bytes } = scale();
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    let home = Home::new()
        .with("CAIRN_STALL", "500ms")
        .with("CAIRN_DISK_RESERVE", "0")
        .with("OLLAMA_MAX_QUEUE", "64")
        .with("TMPDIR", temporary.path().to_string_lossy());
    let mut daemon = home.serve();
    let (mut kills, mut measured, mut failures, mut twice, began) = (0, 0, 0, 0, Instant::now());
    let summary = |runs: u64, kills: u64, measured: u64, failures: u64, twice: u64| {
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{runs} runs from {from} on, {kills} kills, {failures} clear errors, at most {twice} bytes sent twice by a kill \
             (of {measured} kills without other faults), {seconds:.0} s"
        );
    };
    for seed in from..from + runs {
        let _hint = RepeatHint { seed, layer_bytes };
        let mut random = Random::from_name(seed, "survive");
        let faults = faults(&mut random);
        let harmless = faults.per_1000.is_empty();
        let registry = FakeRegistry::start(seed, faults).expect("loopback has free ports");
        let model = Published::of_noise(&registry, "m", seed * 10, layer_bytes);
        if seed % 3 == 0 {
            // The kill happens after this many bytes.
            let at = random.below(layer_bytes as u64);
            kill_in_the_middle(&home, &mut daemon, &registry, &model, at);
            kills += 1;
            daemon = home.serve();
            if harmless {
                finish(&home, &model, seed);
                let digest = model.large().digest.to_string();
                let again = registry.sent_bytes(&digest).saturating_sub(layer_bytes as u64);
                // Bytes in flight at the kill are sent twice, too.
                assert!(again <= (16 << 20) + (4 << 20), "run {seed}: {again} bytes were downloaded twice");
                twice = twice.max(again);
                measured += 1;
            }
        }
        failures += finish(&home, &model, seed);
        model.assert_is_in(&home);
        assert_eq!(leftovers(&home), [""; 0], "run {seed}: leftovers");
        let removed = home.run(&["rm", &model.name]);
        assert!(removed.status.success(), "run {seed}: {}", text(&removed.stderr));
        let deadline = Instant::now() + Duration::from_secs(2);
        // The daemon may still be writing.
        while !strays(&home, temporary.path()).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(strays(&home, temporary.path()), [""; 0], "run {seed}: temporary files or folders are left");
        let done = seed + 1 - from;
        if done % REPORT_EVERY == 0 && done < runs {
            summary(done, kills, measured, failures, twice);
        }
    }
    summary(runs, kills, measured, failures, twice);
}

/// Prints how to repeat a failed run. Its seed determines all faults, but not the timing.
struct RepeatHint {
    seed: u64,
    layer_bytes: usize,
}

impl Drop for RepeatHint {
    fn drop(&mut self) {
        let Self { seed, layer_bytes } = self;
        if std::thread::panicking() {
            eprintln!(
                "run {seed} failed; to repeat it: CAIRN_PROVE_FROM={seed} CAIRN_PROVE_PULLS=1 CAIRN_PROVE_PULL_BYTES={layer_bytes} \
                 with this test, or `cargo xtask prove pull --from {seed} --runs 1`"
            );
        }
    }
}

/// Returns leftovers after a model was pulled and deleted: files in the system's temporary folder, temporary files, and
/// folders of registries without models.
fn strays(home: &Home, temporary: &Path) -> Vec<String> {
    let mut files = Vec::new();
    walk(home.folder.path(), &mut files);
    files.retain(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with('.') || name.ends_with(".tmp")));
    walk(temporary, &mut files);
    let hosts = std::fs::read_dir(models(home).join("manifests")).into_iter().flatten().flatten();
    files.extend(hosts.map(|entry| entry.path().to_string_lossy().into_owned()));
    files
}

/// Returns random faults with a limited budget.
fn faults(random: &mut Random) -> Faults {
    let all = [
        Fault::Drop,
        Fault::Stall(Duration::from_millis(800)),
        Fault::Short,
        Fault::Long,
        Fault::Flip,
        Fault::Storm { status: 401, responses: 2 },
        Fault::Storm { status: 429, responses: 4 },
        Fault::Storm { status: 500, responses: 3 },
        Fault::Storm { status: 503, responses: 4 },
        Fault::Slow { bytes_per_second: 1 << 20 },
        Fault::IgnoreRange,
        Fault::OffByOne,
        Fault::OtherEtag,
        Fault::Expire,
    ];
    let mut per_1000 = Vec::new();
    // A quarter of the runs have no faults besides kills, to measure the bytes that are downloaded twice.
    if random.below(4) > 0 {
        for _ in 0..1 + random.below(4) {
            per_1000.push((all[random.below(all.len() as u64) as usize], 50 + random.below(250) as u32));
        }
    }
    Faults {
        budget: Some(8),
        sign_in: random.below(2) == 0,
        redirect: random.below(2) == 0,
        // Without other faults, slow enough that socket buffers hold few bytes.
        bytes_per_second: per_1000.is_empty().then_some(6 << 20),
        per_1000,
    }
}

/// Starts a pull and kills the daemon after `at` bytes of the large layer were sent.
fn kill_in_the_middle(home: &Home, daemon: &mut Daemon<'_>, registry: &FakeRegistry, model: &Published, at: u64) {
    let started = home.run(&["pull", &model.name, "--insecure", "--detach"]);
    assert!(started.status.success(), "{}", text(&started.stderr));
    let digest = model.large().digest.to_string();
    let deadline = Instant::now() + Duration::from_secs(20);
    // The pull may have finished or failed; then the kill hits an idle daemon.
    while registry.sent_bytes(&digest) < at && Instant::now() < deadline && !listed_quickly(home, model) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
}

/// Returns whether the manifest exists. Reads the disk, because a request to the daemon takes longer than a pull.
fn listed_quickly(home: &Home, model: &Published) -> bool {
    let (host, rest) = model.name.split_once('/').expect("a name has a host");
    models(home).join("manifests").join(host).join(rest.replace(':', "/")).exists()
}

/// Pulls until the model is here, and returns how often that failed. Each failure must be clear, and leave no model.
fn finish(home: &Home, model: &Published, seed: u64) -> u64 {
    for failures in 0..PULLS {
        let began = Instant::now();
        let output = home.run(&["pull", &model.name, "--insecure"]);
        let stderr = text(&output.stderr);
        assert!(began.elapsed() < PULL_TIMEOUT, "run {seed}: the pull took {:?}: {stderr}", began.elapsed());
        if output.status.success() {
            return failures as u64;
        }
        let error = stderr.lines().find(|line| line.starts_with("Error: ")).unwrap_or_default();
        assert!(CLEAR.iter().any(|part| error.contains(part)), "run {seed}: unclear: {stderr}");
        assert!(!listed(home).contains(&model.name), "run {seed}: part of a model is listed: {stderr}");
    }
    panic!("run {seed}: {} is incomplete after {PULLS} pulls", model.name);
}
