//! `check-os`: type-checks Cairn for Windows and macOS on a Linux machine.
//!
//! No other check compiles code under `cfg(windows)` or `cfg(target_os = "macos")`. Debian packages the sources of the
//! standard library for its compiler (`rustc-web`), so `-Zbuild-std` with `RUSTC_BOOTSTRAP` can check that library for
//! the target. Nothing is linked, so no files of those systems are needed. Crates with C code get a stub compiler,
//! because only Rust is checked.

use std::process::ExitCode;

use super::{Verb, no_arguments};
use crate::needs::{For, Need, provide};
use crate::{Repo, process, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "check-os",
    about: "Type-check for Windows and macOS (minutes; Debian's rustc-web is installed)",
    run,
};

/// Debian's compiler. Others lack the sources of the standard library.
const RUSTC: &str = "/usr/bin/rustc";

static NEED: Need = Need {
    what: "Debian's rustc with the sources of the standard library",
    since: For::Tests,
    packages: &["rustc-web", "rust-web-src"],
    proof: &["sh", "-c", "test -e \"$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/std/src/lib.rs\""],
};

/// Stub C compiler and archiver: creates an empty output file.
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
        // The build script of the desktop app needs the target system's resource compiler for icons.
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
        // Otherwise the crate `cc` searches for Apple's SDK.
        check.env("SDKROOT", "/");
        process::run(&mut check)?;
        println!("{target}: no errors");
    }
    Ok(ExitCode::SUCCESS)
}
