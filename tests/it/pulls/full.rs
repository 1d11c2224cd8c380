//! Pulls, imports and creates on a disk that becomes full.
//!
//! The disk is a small tmpfs in a separate mount namespace, which most systems allow without privileges. On other
//! systems these tests are skipped with a message.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cairn_testkit::registry::Faults;
use cairn_testkit::{ModelSpec, Types, tiny_llama};

use super::published::{Published, walk};
use super::{downloads, registry, until};
use crate::cairn::{Home, kill, refused, succeeded, text};

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk {
    /// Process that keeps the namespace alive.
    holder: Child,
    /// Mount point inside the namespace.
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs and places the home's library on it; all commands of the home see it. `None` if mounting is not
    /// allowed.
    fn under(home: Home, size_bytes: u64) -> Option<(Self, Home)> {
        let folder = home.folder.path().join("small");
        std::fs::create_dir(&folder).expect("the home is writable");
        let script = format!("mount -t tmpfs -o size={size_bytes} small \"$0\" && echo mounted && exec cat");
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(&folder);
        let spawned = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut line = String::new();
        let Ok(mut holder) = spawned else { return skipped() };
        BufReader::new(holder.stdout.take().expect("the stream is piped")).read_line(&mut line).expect("UTF-8");
        let disk = Self { holder, folder };
        if line.trim() != "mounted" {
            return skipped();
        }
        let words = ["nsenter", "--preserve-credentials", "--user", "--mount", "--target"];
        let words = words.iter().map(ToString::to_string).chain([disk.holder.id().to_string()]).collect();
        let library = disk.folder.join("models").to_string_lossy().into_owned();
        let home = home.through(words).with("OLLAMA_MODELS", library).with("CAIRN_DISK_RESERVE", "0");
        Some((disk, home))
    }

    /// Returns a path on the disk, as seen from outside the namespace.
    fn outside(&self, path: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.strip_prefix("/").expect("the path is absolute")).join(path)
    }

    /// Fills the disk except for this many bytes.
    fn fill(&self, free_bytes: u64) {
        let path = self.outside("filler");
        let mut filler = File::create(&path).expect("the disk has space for a directory entry");
        while filler.write_all(&[1; 1 << 16]).is_ok() {}
        let length = filler.metadata().expect("the file exists").len();
        filler.set_len(length.saturating_sub(free_bytes)).expect("a file can shrink");
    }

    fn free_space(&self) {
        std::fs::remove_file(self.outside("filler")).expect("the filler exists");
    }

    /// Returns the files in `.cairn`, except the records of manifest sources.
    fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        walk(&self.outside("models/.cairn"), &mut left);
        left.retain(|path| !path.contains("/brought/"));
        left
    }

    /// Returns the number of blobs.
    fn blobs(&self) -> usize {
        std::fs::read_dir(self.outside("models/blobs")).map_or(0, Iterator::count)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The process may have exited already.
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
fn pull_resumes_after_a_full_disk() {
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
    let pull = pull.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command starts");
    until("half of the bytes were sent", || registry.sent_bytes(&digest) > LAYER as u64 / 2);
    disk.fill(0);
    let output = pull.wait_with_output().expect("the command ends");
    let stderr = refused(&output, "downloaded data is kept; free space");
    assert!(stderr.contains("free") && !stderr.contains("panicked"), "{stderr}");
    let rows = downloads(&home);
    let row = rows.iter().find(|row| row["model"] == model.name).expect("the row exists");
    assert_eq!(row["state"], "failed", "{row}");
    assert!(row["held_bytes"].as_u64() > Some(LAYER as u64 / 4), "downloaded bytes are kept: {row}");

    // A daemon that starts on the full disk lists the complete model only.
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    let _daemon = home.serve();
    let listed = succeeded(&home.run(&["list"]));
    assert!(listed.contains(&kept.name) && !listed.contains(&model.name), "{listed}");
    succeeded(&home.run(&["verify"]));
    assert_eq!(disk.blobs(), kept.blobs.len(), "no incomplete blobs");
    let sent = registry.sent_bytes(&digest);
    let requests = || registry.requests().iter().filter(|seen| seen.request.target.ends_with(&digest)).count();
    let before = requests();
    refused(&home.run(&["pull", &model.name, "--insecure"]), "downloaded data is kept; free space");
    assert_eq!(requests(), before, "no requests while the disk is full");

    disk.free_space();
    registry.set_faults(Faults::default());
    succeeded(&home.run(&["pull", &model.name, "--insecure"]));
    let whole = std::fs::read(disk.outside(&format!("models/blobs/{}", model.large().digest.file_name())));
    assert!(whole.expect("the file exists")[..] == model.large().bytes[..], "the blob is correct");
    succeeded(&home.run(&["verify"]));
    assert_eq!(disk.leftovers(), [""; 0], "no leftovers");
    let twice = registry.sent_bytes(&digest).saturating_sub(LAYER as u64);
    println!("{sent} bytes were sent before the disk was full, {twice} of all twice");
    // Bytes written since the last journal sync, and bytes in socket buffers.
    assert!(twice <= 16 << 20, "only the rest is downloaded: {twice} bytes twice");
}

#[test]
fn files_larger_than_free_space_leave_no_leftovers() {
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
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {stderr}");
        assert!(
            stderr.contains("free") || stderr.contains("No space left"),
            "{words:?}: the reason is missing: {stderr}"
        );
        assert_eq!((disk.blobs(), disk.leftovers()), (blobs, vec![]), "{words:?}: leftovers");
        println!("{}", stderr.lines().last().unwrap_or_default());
    };
    check(&["import", &path, "other"]);
    check(&["create", "other", "-f", &modelfile]);
    // The size of the result is unknown in advance.
    std::fs::write(&*modelfile, "FROM mine\n").expect("the home is writable");
    check(&["create", "small", "-f", &modelfile, "-q", "q8_0"]);
    assert!(!succeeded(&home.run(&["list"])).contains("small"), "the model is not listed");
    succeeded(&home.run(&["verify"]));
    disk.free_space();
    succeeded(&home.run(&["create", "small", "-f", &modelfile, "-q", "q8_0"]));
    succeeded(&home.run(&["verify"]));
}
