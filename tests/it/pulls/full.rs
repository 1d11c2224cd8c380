//! A disk that becomes full in the middle: a real one, small enough to be filled.
//!
//! It is a file system in memory that only this test sees, mounted in a namespace of its own, for which no rights are needed on
//! most systems. Where even that is not allowed, these tests say so and end.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cairn_testkit::registry::Faults;
use cairn_testkit::{ModelSpec, Types, tiny_llama};

use super::published::{Published, walk};
use super::{downloads, registry, until};
use crate::cairn::{Home, kill, refused, succeeded, text};

/// A mounted file system, gone when it is dropped.
struct SmallDisk {
    /// A program that keeps the namespace.
    holder: Child,
    /// The mount point, as those in the namespace see it.
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts one, and puts a home's library on it; everything that is run in that home sees it. `None` where that is not
    /// allowed.
    fn under(home: Home, size_bytes: u64) -> Option<(Self, Home)> {
        let folder = home.folder.path().join("small");
        std::fs::create_dir(&folder).expect("the home is writable");
        let script = format!("mount -t tmpfs -o size={size_bytes} small \"$0\" && echo mounted && exec cat");
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(&folder);
        let spawned = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut said = String::new();
        let Ok(mut holder) = spawned else { return skipped() };
        BufReader::new(holder.stdout.take().expect("it is piped")).read_line(&mut said).expect("it is text");
        let disk = Self { holder, folder };
        if said.trim() != "mounted" {
            return skipped();
        }
        let words = ["nsenter", "--preserve-credentials", "--user", "--mount", "--target"];
        let words = words.iter().map(ToString::to_string).chain([disk.holder.id().to_string()]).collect();
        let library = disk.folder.join("models").to_string_lossy().into_owned();
        let home = home.through(words).with("OLLAMA_MODELS", library).with("CAIRN_DISK_RESERVE", "0");
        Some((disk, home))
    }

    /// A path on it, as this test sees it from outside.
    fn outside(&self, path: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.strip_prefix("/").expect("it is a whole path")).join(path)
    }

    /// Fills it, but for so many bytes.
    fn fill(&self, but_bytes: u64) {
        let path = self.outside("filler");
        let mut filler = File::create(&path).expect("there is room for a name");
        while filler.write_all(&[1; 1 << 16]).is_ok() {}
        let length = filler.metadata().expect("it is there").len();
        filler.set_len(length.saturating_sub(but_bytes)).expect("less is always possible");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.outside("filler")).expect("it was filled");
    }

    /// Files in the library that are neither contents nor manifests, nor tell where a manifest came from.
    fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        walk(&self.outside("models/.cairn"), &mut left);
        left.retain(|path| !path.contains("/brought/"));
        left
    }

    /// How many contents there are.
    fn blobs(&self) -> usize {
        std::fs::read_dir(self.outside("models/blobs")).map_or(0, Iterator::count)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn skipped<T>() -> Option<T> {
    eprintln!(
        "skipped: this machine does not let a test mount a file system of its own (unshare --map-root-user --mount)"
    );
    None
}

#[test]
fn a_pull_survives_a_full_disk() {
    const LAYER: usize = 40 << 20;
    let registry = registry(Faults { bytes_per_second: Some(1 << 20), ..Faults::default() });
    let Some((disk, home)) = SmallDisk::under(super::home(), 56 << 20) else { return };
    let model = Published::of_noise(&registry, "m", 90, LAYER);
    let digest = model.large().digest.to_string();
    let mut daemon = home.serve();
    let kept = Published::tiny(&registry, "kept", 91);
    registry.set_faults(Faults::default());
    succeeded(&home.run(&["pull", &kept.name, "--insecure"]));
    registry.set_faults(Faults { bytes_per_second: Some(1 << 20), ..Faults::default() });

    let mut pull = home.command(&["pull", &model.name, "--insecure"]);
    let pull = pull.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    until("a good part of it came", || registry.sent_bytes(&digest) > LAYER as u64 / 2);
    disk.fill(0);
    let output = pull.wait_with_output().expect("it ends");
    let said = refused(&output, "What came is kept. Make room");
    assert!(said.contains("free") && !said.contains("panicked"), "{said}");
    let rows = downloads(&home);
    let row = rows.iter().find(|row| row["model"] == model.name).expect("it is listed");
    assert_eq!(row["state"], "failed", "{row}");
    assert!(row["held_bytes"].as_u64() > Some(LAYER as u64 / 4), "what came is kept: {row}");

    // Nothing of it is a model, and what was a model is one, also for a daemon that starts with the disk full.
    assert!(kill(daemon.child.id(), "-KILL"), "it is at work");
    daemon.child.wait().expect("it is our child");
    let _daemon = home.serve();
    let listed = succeeded(&home.run(&["list"]));
    assert!(listed.contains(&kept.name) && !listed.contains(&model.name), "{listed}");
    succeeded(&home.run(&["verify"]));
    assert_eq!(disk.blobs(), kept.blobs.len(), "no contents that are not whole");
    let sent = registry.sent_bytes(&digest);
    let asked = || registry.requests().iter().filter(|seen| seen.request.target.ends_with(&digest)).count();
    let before = asked();
    refused(&home.run(&["pull", &model.name, "--insecure"]), "Make room");
    assert_eq!(asked(), before, "nothing is asked for while there is no room for it");

    disk.make_room();
    registry.set_faults(Faults::default());
    succeeded(&home.run(&["pull", &model.name, "--insecure"]));
    let whole = std::fs::read(disk.outside(&format!("models/blobs/{}", model.large().digest.file_name())));
    assert!(whole.expect("it is there")[..] == model.large().bytes[..], "byte for byte");
    succeeded(&home.run(&["verify"]));
    assert_eq!(disk.leftovers(), [""; 0], "nothing stays beside it");
    let twice = registry.sent_bytes(&digest).saturating_sub(LAYER as u64);
    println!("{sent} bytes were sent before the disk was full, {twice} of all twice");
    // What was written since the journal last knew of it, and what was in the sockets.
    assert!(twice <= 16 << 20, "only the rest is fetched: {twice} bytes came twice");
}

#[test]
fn files_that_do_not_fit_leave_nothing() {
    let Some((disk, home)) = SmallDisk::under(super::home(), 80 << 20) else { return };
    let file = home.folder.path().join("m.gguf");
    let spec = ModelSpec { types: Types::All(cairn_gguf::DType::F16), layers: 16, ..tiny_llama() };
    cairn_testkit::write_file(&spec, &file).expect("the home is writable");
    let path = file.to_string_lossy();
    let modelfile = home.folder.path().join("Modelfile");
    std::fs::write(&modelfile, format!("FROM {path}\n")).expect("the home is writable");
    let modelfile = modelfile.to_string_lossy();
    let _daemon = home.serve();
    succeeded(&home.run(&["import", &path, "mine"]));
    let blobs = disk.blobs();
    disk.fill(1 << 20);
    std::fs::write(&file, cairn_testkit::write(&ModelSpec { seed: 7, ..spec })).expect("the home is writable");
    let check = |words: &[&str]| {
        let output = home.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("free") || said.contains("No space left"), "{words:?} does not say why: {said}");
        assert_eq!((disk.blobs(), disk.leftovers()), (blobs, vec![]), "{words:?} leaves something");
        println!("{}", said.lines().last().unwrap_or_default());
    };
    check(&["import", &path, "other"]);
    check(&["create", "other", "-f", &modelfile]);
    // It cannot be known before how large the result is.
    std::fs::write(&*modelfile, "FROM mine\n").expect("the home is writable");
    check(&["create", "small", "-f", &modelfile, "-q", "q8_0"]);
    assert!(!succeeded(&home.run(&["list"])).contains("small"), "it is no model");
    succeeded(&home.run(&["verify"]));
    disk.make_room();
    succeeded(&home.run(&["create", "small", "-f", &modelfile, "-q", "q8_0"]));
    succeeded(&home.run(&["verify"]));
}
