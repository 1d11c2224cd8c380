//! Pulls, imports and creates on a disk that becomes full.

use std::process::Stdio;

use cairn_testkit::registry::Faults;
use cairn_testkit::{ModelSpec, Types, tiny_llama};

use super::published::Published;
use super::{downloads, registry, until};
use crate::cairn::{kill, refused, succeeded, text};
use crate::small_disk::SmallDisk;

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
