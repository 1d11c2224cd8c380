//! `check-os`: type-checks Cairn for Windows and macOS on a Linux machine.
//!
//! Code behind `cfg(windows)` or `cfg(target_os = "macos")` is invisible to every other check. Debian has the sources of
//! the standard library for its own compiler (`rustc-web`), so that library is checked along for the target, which
//! takes `RUSTC_BOOTSTRAP`; nothing is linked and nothing of those systems is needed. Crates that bring C code along get a
//! C compiler that compiles nothing, because only Rust is checked.

use std::process::ExitCode;

use super::setup::{For, Need, provide};
use super::{Verb, no_arguments};
use crate::{Repo, process, workspace};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "check-os",
    about: "Type-check for Windows and macOS (minutes; Debian's rustc-web is installed)",
    run,
};

/// Debian's compiler. A compiler from elsewhere has no sources beside it.
const RUSTC: &str = "/usr/bin/rustc";

static NEED: Need = Need {
    what: "Debian's rustc with the sources of the standard library",
    since: For::Tests,
    packages: &["rustc-web", "rust-web-src"],
    proof: &["sh", "-c", "test -e \"$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/std/src/lib.rs\""],
};

/// What C code is compiled with, and what collects the results: it makes the library that it is asked for, empty.
const STUB: &str = r#"#!/bin/sh
for word; do
    case "$word" in
        -out:*) : >"${word#-out:}" ;;
        *.a) : >"$word" ;;
    esac
done
"#;

const TARGETS: &[&str] = &["x86_64-pc-windows-msvc", "aarch64-apple-darwin"];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    no_arguments(args)?;
    provide(std::iter::once(&NEED))?;
    let folder = workspace::target_folder(repo)?.join("check-os");
    std::fs::create_dir_all(&folder)?;
    let stub = folder.join("stub");
    std::fs::write(&stub, STUB)?;
    process::run(std::process::Command::new("chmod").arg("+x").arg(&stub))?;
    for target in TARGETS {
        // The desktop app is left out: its build script takes each system's own compiler for icons.
        let words = [
            "check",
            "--workspace",
            "--exclude",
            "cairn-desktop",
            "--quiet",
            "-Zbuild-std=std,panic_abort",
            "--target",
            target,
        ];
        let mut check = process::cargo(repo, &words);
        check.env("RUSTC", RUSTC).env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &folder);
        let suffix = target.replace('-', "_");
        for tool in ["CC", "AR"] {
            check.env(format!("{tool}_{suffix}"), &stub);
        }
        // The crate `cc` looks for Apple's headers otherwise.
        check.env("SDKROOT", "/");
        process::run(&mut check)?;
        println!("{target}: fine");
    }
    Ok(ExitCode::SUCCESS)
}
