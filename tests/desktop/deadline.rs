//! Waiting that ends: nothing here waits for ever, and what was waited for is told when it did not come.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long things may take on a machine with other work. Starting a web view takes seconds there, and what is written for later while
/// something is computed takes what time others leave.
const WITHIN: Duration = Duration::from_secs(240);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    until_some(what, || so().then_some(()));
}

/// Waits until there is something, and returns it.
pub(crate) fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WITHIN, "not within {} s: {what}", WITHIN.as_secs());
        std::thread::sleep(PAUSE);
    }
}

/// What a program says that ends soon. One that does not is killed, and what it said until then is told.
pub(crate) fn output(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is installed");
    let [stdout, stderr] =
        [gather(child.stdout.take().expect("it is piped")), gather(child.stderr.take().expect("it is piped"))];
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if began.elapsed() > WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} did not end within {} s: {}", WITHIN.as_secs(), all(&stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: all(&stdout).into_bytes(), stderr: all(&stderr).into_bytes() }
}

/// Reads on a thread of its own.
fn gather(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (into, gathered) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if into.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    gathered
}

/// All that was read. A program that has ended may have left one behind that still holds its output open; it is not waited for.
fn all(gathered: &Receiver<Vec<u8>>) -> String {
    let mut bytes = Vec::new();
    while let Ok(more) = gathered.recv_timeout(Duration::from_secs(1)) {
        bytes.extend(more);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
