//! Memory, open files and threads of a process.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// Maximum time after a load until tasks and connections have ended.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Growth that is acceptable: allocators keep some freed memory, and pools keep some threads and connections.
const MOST_GROWN: Size = Size { memory_bytes: 64 << 20, files: 16, threads: 16 };

/// Resources that a process uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Anonymous memory. Mapped model files are not counted.
    pub(crate) memory_bytes: u64,
    files: u64,
    threads: u64,
}

impl Size {
    pub(crate) fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel reports it");
            line.split_whitespace().nth(0).and_then(|number| number.parse::<u64>().ok()).expect("a number")
        };
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the daemon runs").count() as u64;
        Self { memory_bytes: number("RssAnon:") << 10, files, threads: number("Threads:") }
    }

    /// Whether this is at most an acceptable growth of `before`.
    pub(crate) fn is_within(&self, before: &Self) -> bool {
        self.memory_bytes <= before.memory_bytes + MOST_GROWN.memory_bytes
            && self.files <= before.files + MOST_GROWN.files
            && self.threads <= before.threads + MOST_GROWN.threads
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB, {} open files, {} threads", self.memory_bytes >> 20, self.files, self.threads)
    }
}

/// Waits until a process is as small as before, with a timeout.
pub(crate) fn settle(before: &Size, pid: u32) -> Size {
    let until = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let size = Size::of(pid);
        if size.is_within(before) || Instant::now() > until {
            return size;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
