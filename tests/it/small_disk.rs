//! A small disk that a test can fill: a tmpfs in a mount namespace of its own, which most systems allow without privileges.
//! On other systems the tests that need it are skipped with a message.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cairn::Home;
use crate::pulls::published::walk;

/// A mounted tmpfs, unmounted when dropped.
pub(crate) struct SmallDisk {
    /// Process that keeps the namespace alive.
    holder: Child,
    /// Mount point inside the namespace.
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs and places the home's library on it; all commands of the home see it. `None` if mounting is not
    /// allowed.
    pub(crate) fn under(home: Home, size_bytes: u64) -> Option<(Self, Home)> {
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
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.strip_prefix("/").expect("the path is absolute")).join(path)
    }

    /// Fills the disk except for this many bytes.
    pub(crate) fn fill(&self, free_bytes: u64) {
        let path = self.outside("filler");
        let mut filler = File::create(&path).expect("the disk has space for a directory entry");
        while filler.write_all(&[1; 1 << 16]).is_ok() {}
        let length = filler.metadata().expect("the file exists").len();
        filler.set_len(length.saturating_sub(free_bytes)).expect("a file can shrink");
    }

    pub(crate) fn free_space(&self) {
        std::fs::remove_file(self.outside("filler")).expect("the filler exists");
    }

    /// Returns the files in `.cairn`, except the records of manifest sources.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        walk(&self.outside("models/.cairn"), &mut left);
        left.retain(|path| !path.contains("/brought/"));
        left
    }

    /// Returns the number of blobs.
    pub(crate) fn blobs(&self) -> usize {
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
