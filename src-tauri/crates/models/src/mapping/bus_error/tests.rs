//! Faults outside registered mappings, each in a separate process, because they end it.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use super::*;

/// Set in the child process of a test.
const CHILD: &str = "CAIRN_TEST_BUS_ERROR";

/// Runs this test in a child process, which calls `act`, and returns its exit status. Never returns in the child.
fn in_child(test: &str, act: impl FnOnce()) -> ExitStatus {
    #[expect(clippy::disallowed_methods, reason = "the parent process of this test sets it")]
    if std::env::var_os(CHILD).is_some() {
        act();
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("a running test has a program");
    let name = format!("mapping::bus_error::tests::{test}");
    let output = Command::new(program).args(["--exact", &name]).env(CHILD, "1").output().expect("the child starts");
    output.status
}

/// Reads a page of a truncated file in an unregistered mapping.
fn fault_in_unregistered_mapping() {
    let file = tempfile::tempfile().expect("a temporary file can be made");
    file.set_len(1).expect("it can grow");
    // SAFETY: the mapping is read as bytes only; the fault that follows is what the test is about.
    let unregistered = unsafe { memmap2::Mmap::map(&file) }.expect("it can be mapped");
    file.set_len(0).expect("it can shrink");
    assert_eq!(std::hint::black_box(&unregistered)[0], 0, "the read must not return");
}

/// Truncates and reads a registered mapping.
fn fault_in_registered_mapping() {
    let path = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    path.as_file().set_len(1 << 16).expect("it can grow");
    let mapping =
        crate::mapping::Mapping::new(&File::open(path.path()).expect("it is there")).expect("it can be mapped");
    path.as_file().set_len(0).expect("it can shrink");
    assert_eq!(mapping.as_ref().iter().map(|&byte| u32::from(byte)).sum::<u32>(), 0, "zeros replace the mapping");
    assert!(mapping.is_poisoned(), "the mapping is marked");
}

#[test]
fn unregistered_fault_ends_process() {
    let status = in_child("unregistered_fault_ends_process", || {
        fault_in_registered_mapping();
        fault_in_unregistered_mapping();
    });
    assert_eq!(status.signal(), Some(libc::SIGBUS), "the default action: {status}");
}

#[test]
fn unregistered_fault_calls_previous_handler() {
    extern "C" fn previous_handler(_: c_int) {
        // SAFETY: `_exit` is allowed in a handler.
        unsafe { libc::_exit(42) }
    }
    let status = in_child("unregistered_fault_calls_previous_handler", || {
        // SAFETY: the handler only ends the process.
        unsafe { libc::signal(libc::SIGBUS, previous_handler as *const () as usize) };
        fault_in_registered_mapping();
        fault_in_unregistered_mapping();
    });
    assert_eq!(status.code(), Some(42), "called only for the unregistered mapping: {status}");
}
