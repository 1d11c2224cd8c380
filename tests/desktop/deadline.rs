//! Waiting with a deadline; a timeout names the expected condition.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Maximum wait on a busy machine. Starting a web view takes seconds there, and chunks are flushed at low priority.
const WITHIN: Duration = Duration::from_secs(240);
/// Polling interval.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until a condition holds.
pub(crate) fn until(expected: &str, mut condition: impl FnMut() -> bool) {
    until_some(expected, || condition().then_some(()));
}

/// Waits until `poll` returns a value, and returns it.
pub(crate) fn until_some<T>(expected: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(began.elapsed() < WITHIN, "timeout after {} s: {expected}", WITHIN.as_secs());
        std::thread::sleep(PAUSE);
    }
}

/// Returns the output of a program. After the deadline, kills it and panics with its stderr.
pub(crate) fn output(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program is installed");
    let [stdout, stderr] = [
        read_all(child.stdout.take().expect("the stream is piped")),
        read_all(child.stderr.take().expect("the stream is piped")),
    ];
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child process can be polled") {
            break status;
        }
        if began.elapsed() > WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} did not exit within {} s: {}", WITHIN.as_secs(), collect(&stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: collect(&stdout).into_bytes(), stderr: collect(&stderr).into_bytes() }
}

/// Reads a stream on a separate thread.
fn read_all(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns all bytes that were read. A child of the program may still hold its output open, so the wait is limited.
fn collect(receiver: &Receiver<Vec<u8>>) -> String {
    let mut bytes = Vec::new();
    while let Ok(more) = receiver.recv_timeout(Duration::from_secs(1)) {
        bytes.extend(more);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
