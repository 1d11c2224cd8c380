//! Faults that are none of ours, each in a process of its own, since they are meant to end it.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use super::*;

/// Tells the child process of a test from its parent.
const CHILD: &str = "CAIRN_TEST_BUS_ERROR";

/// Runs this test again in a child process, which does `act`, and returns how that ended; the child itself never returns.
fn in_child(test: &str, act: impl FnOnce()) -> ExitStatus {
    #[expect(clippy::disallowed_methods, reason = "the parent process of this test sets it")]
    if std::env::var_os(CHILD).is_some() {
        act();
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("a running test has a program");
    let name = format!("mapping::bus_error::tests::{test}");
    let output = Command::new(program).args(["--exact", &name]).env(CHILD, "1").output().expect("it starts again");
    output.status
}

/// Maps a page of an empty file without registering it, and reads.
fn fault_elsewhere() {
    let file = tempfile::tempfile().expect("a temporary file can be made");
    file.set_len(1).expect("it can grow");
    // SAFETY: the mapping is read as bytes only; the fault that follows is what the test is about.
    let foreign = unsafe { memmap2::Mmap::map(&file) }.expect("it can be mapped");
    file.set_len(0).expect("it can shrink");
    assert_eq!(std::hint::black_box(&foreign)[0], 0, "nothing is there to be read");
}

/// A registered mapping, cut and read.
fn fault_of_ours() {
    let path = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    path.as_file().set_len(1 << 16).expect("it can grow");
    let mapping =
        crate::mapping::Mapping::new(&File::open(path.path()).expect("it is there")).expect("it can be mapped");
    path.as_file().set_len(0).expect("it can shrink");
    assert_eq!(mapping.as_ref().iter().map(|&byte| u32::from(byte)).sum::<u32>(), 0, "zeros take its place");
    assert!(mapping.poisoned(), "and it is marked");
}

#[test]
fn a_fault_outside_our_mappings_still_ends_the_process() {
    let status = in_child("a_fault_outside_our_mappings_still_ends_the_process", || {
        fault_of_ours();
        fault_elsewhere();
    });
    assert_eq!(status.signal(), Some(libc::SIGBUS), "as it would without us: {status}");
}

#[test]
fn a_fault_outside_our_mappings_goes_to_the_handler_before_us() {
    extern "C" fn before_us(_: c_int) {
        // SAFETY: `_exit` is allowed in a handler.
        unsafe { libc::_exit(42) }
    }
    let status = in_child("a_fault_outside_our_mappings_goes_to_the_handler_before_us", || {
        // SAFETY: the handler only ends the process.
        unsafe { libc::signal(libc::SIGBUS, before_us as *const () as usize) };
        fault_of_ours();
        fault_elsewhere();
    });
    assert_eq!(status.code(), Some(42), "it was called for the foreign fault only: {status}");
}
