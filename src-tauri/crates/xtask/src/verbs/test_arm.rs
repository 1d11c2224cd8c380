//! `test-arm`: runs the tests of crates with ARM code for 64-bit ARM under qemu.
//!
//! Other tests on this machine do not reach the ARM kernels. The compiler is the default one if it has the target
//! (`rustup target add aarch64-unknown-linux-gnu`), else Debian's, whose standard library for ARM is a package.
//! Programs are linked statically, so that no ARM system libraries are needed. A kernel variant that qemu cannot run is
//! a failure. Times under qemu are not meaningful.

use std::process::{Command, ExitCode};

use anyhow::bail;

use super::{Verb, no_arguments, test};
use crate::needs::{For, Need, provide};
use crate::{Repo, process, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "test-arm",
    about: "Run the tests of kernels and files for 64-bit ARM, under qemu (on Linux; minutes)",
    run: |repo, args| {
        no_arguments(args)?;
        run_all(repo, &tools()?)?;
        Ok(ExitCode::SUCCESS)
    },
};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The kernel variant that must not be skipped: the first in the table that qemu emulates.
const REQUIRED: &str = "dotprod,neon";

static LINKER: Need = Need {
    what: "a linker and qemu for 64-bit ARM",
    since: For::Tests,
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"],
    proof: &["sh", "-c", "aarch64-linux-gnu-gcc --version && qemu-aarch64-static --version"],
};

static DEBIANS_RUSTC: Need = Need {
    what: "Debian's rustc with the standard library for 64-bit ARM",
    since: For::Tests,
    packages: &["rustc-web", "libstd-rust-web-dev:arm64"],
    proof: &["sh", "-c", "test -e \"$(/usr/bin/rustc --print target-libdir --target aarch64-unknown-linux-gnu)\""],
};

/// Finds or installs the tools.
///
/// # Errors
/// A missing tool cannot be installed.
pub(super) fn tools() -> anyhow::Result<Tools> {
    if cfg!(target_arch = "aarch64") {
        return Ok(Tools::Own);
    }
    if !cfg!(target_os = "linux") {
        bail!("qemu runs programs for ARM only on Linux");
    }
    let has_target = |rustc: &str| {
        let script = format!("test -e \"$({rustc} --print target-libdir --target {TARGET})\"");
        process::succeeds(&["sh", "-c", &script])
    };
    let rustc = if has_target("rustc") {
        "rustc"
    } else if process::succeeds(&["sh", "-c", ". /etc/os-release && test \"$ID\" = debian"]) {
        provide(std::iter::once(&DEBIANS_RUSTC))?;
        "/usr/bin/rustc"
    } else {
        bail!("the compiler lacks the target {TARGET}: run `rustup target add {TARGET}`");
    };
    provide(std::iter::once(&LINKER))?;
    Ok(Tools::Emulated { rustc })
}

/// How ARM programs are built and run on this machine.
pub(super) enum Tools {
    /// The machine is ARM: `cargo xtask test` runs its tests.
    Own,
    /// Built with this compiler and run under qemu.
    Emulated { rustc: &'static str },
}

/// Runs the tests.
pub(super) fn run_all(repo: &Repo, tools: &Tools) -> anyhow::Result<()> {
    let Tools::Emulated { rustc } = tools else {
        println!("This machine is ARM: `cargo xtask test` runs these tests.");
        return Ok(());
    };
    let folder = workspace::target_folder(repo)?.join("test-arm");
    let cargo = |words: &[&str]| -> Command {
        let mut cargo = process::cargo(repo, &[&["test", "--target", TARGET], words].concat());
        cargo.env("RUSTC", rustc).env("CARGO_TARGET_DIR", &folder).env("KERNELS_REQUIRE", REQUIRED);
        let settings = [
            ("LINKER", "aarch64-linux-gnu-gcc"),
            ("RUNNER", "qemu-aarch64-static -cpu max"),
            ("RUSTFLAGS", "-Ctarget-feature=+crt-static"),
        ];
        for (name, value) in settings {
            cargo.env(format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_{name}"), value);
        }
        // These would override the flags above.
        cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo
    };
    let packages = ["--package", "cairn-gguf", "--package", "cairn-hardware", "--package", "cairn-kernels"];
    test::run(&mut cargo(&[&["--no-fail-fast", "--lib", "--tests"], packages.as_slice()].concat()))?;
    // Bit-exactness of each variant in a model. The other tests of that crate would take 15 minutes.
    let bits = test::run(&mut cargo(&["--package", "cairn-tensor", "--test", "suite", "bits::"]))?;
    if bits.passed == 0 { bail!("no test matched `bits::`: was it renamed?") } else { Ok(()) }
}
