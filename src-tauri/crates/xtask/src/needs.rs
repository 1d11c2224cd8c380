//! Programs and libraries that building, running and testing need, and their installation on Debian and Ubuntu.
//!
//! Cargo downloads all crates, so few are left: a C compiler as the linker, Python for the Node.js that builds the
//! interface, and the web view for the window. The integration tests also need Docker's registry, a virtual display and
//! some client programs.

use std::process::Command;

use anyhow::bail;

use crate::process;

/// Use of the machine. Each use needs everything that the uses before it need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum For {
    /// Building and running.
    Running,
    /// Building the interface.
    Page,
    /// Building the desktop app.
    Desktop,
    /// Running all tests.
    Tests,
}

/// A program or library that the machine must have.
pub(crate) struct Need {
    pub(crate) what: &'static str,
    pub(crate) since: For,
    /// Debian packages, as `NAME:ARCHITECTURE` for another architecture than the machine's.
    pub(crate) packages: &'static [&'static str],
    /// A command that succeeds if it is installed.
    pub(crate) proof: &'static [&'static str],
}

const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler (the linker)",
        since: For::Running,
        packages: &["gcc", "libc6-dev"],
        proof: &["cc", "--version"],
    },
    Need {
        what: "Python 3 with virtual environments (for Node.js; for client libraries, in tests)",
        since: For::Page,
        packages: &["python3", "python3-venv"],
        proof: &["python3", "-c", "import ensurepip, venv"],
    },
    Need {
        what: "WebKitGTK (the web view of the window)",
        since: For::Desktop,
        packages: &["libwebkit2gtk-4.1-dev", "pkg-config"],
        proof: &["pkg-config", "--exists", "webkit2gtk-4.1"],
    },
    Need {
        what: "Ayatana's library for tray icons",
        since: For::Desktop,
        packages: &["libayatana-appindicator3-dev", "pkg-config"],
        proof: &["pkg-config", "--exists", "ayatana-appindicator3-0.1"],
    },
    Need {
        what: "Xvfb, a virtual display (the window, in tests)",
        since: For::Tests,
        packages: &["xvfb"],
        proof: &["sh", "-c", "command -v Xvfb"],
    },
    Need {
        what: "D-Bus daemon and client (the window, in tests)",
        since: For::Tests,
        packages: &["dbus-daemon", "dbus-bin"],
        proof: &["sh", "-c", "command -v dbus-daemon && command -v dbus-send"],
    },
    Need {
        what: "a window manager and a client for it (the window, in tests)",
        since: For::Tests,
        packages: &["openbox", "wmctrl"],
        proof: &["sh", "-c", "command -v openbox && command -v wmctrl"],
    },
    Need {
        what: "WebKitWebDriver, which drives the window (in tests)",
        since: For::Tests,
        packages: &["webkit2gtk-driver"],
        proof: &["sh", "-c", "command -v WebKitWebDriver"],
    },
    Need {
        what: "Chromium (the interface, in tests)",
        since: For::Tests,
        packages: &["chromium"],
        proof: &["sh", "-c", "command -v chromium || command -v chromium-browser || command -v google-chrome"],
    },
    Need {
        what: "a Chinese font (screenshots of the interface, in tests)",
        since: For::Tests,
        packages: &["fonts-wqy-microhei", "fontconfig"],
        proof: &["sh", "-c", "fc-list :lang=zh-cn | grep -q ."],
    },
    Need {
        what: "docker-registry (a real registry, in tests)",
        since: For::Tests,
        packages: &["docker-registry"],
        proof: &["docker-registry", "--version"],
    },
    Need {
        what: "faketime (sets the daemon's clock, in tests)",
        since: For::Tests,
        packages: &["faketime"],
        proof: &["faketime", "--version"],
    },
    Need {
        what: "git (lists the files of the project, in tests)",
        since: For::Tests,
        packages: &["git"],
        proof: &["git", "--version"],
    },
    Need {
        what: "skopeo (another client of registries, in tests)",
        since: For::Tests,
        packages: &["skopeo"],
        proof: &["skopeo", "--version"],
    },
];

/// Installs all missing packages for a purpose.
///
/// # Errors
/// The missing packages, if they cannot be installed.
pub(crate) fn ensure(purpose: For) -> anyhow::Result<()> {
    provide(NEEDS.iter().filter(|need| need.since <= purpose))
}

/// Installs those of `needs` that are missing.
pub(crate) fn provide(needs: impl Iterator<Item = &'static Need>) -> anyhow::Result<()> {
    let missing: Vec<_> = needs.filter(|need| !process::succeeds(need.proof)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let Some(rights) = Rights::find() else { bail!("{}", explain(&missing)) };
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    println!("Installing {}", packages.join(" "));
    for architecture in architectures(&packages) {
        rights.run(&["dpkg", "--add-architecture", architecture])?;
    }
    rights.apt_get(&["update", "-qq"])?;
    rights.apt_get(&[&["install", "-qq", "-y", "--no-install-recommends"], packages.as_slice()].concat())?;
    let still: Vec<_> = missing.into_iter().filter(|need| !process::succeeds(need.proof)).collect();
    if still.is_empty() { Ok(()) } else { bail!("{}", explain(&still)) }
}

/// How packages can be installed.
enum Rights {
    Root,
    /// `sudo` without a password.
    Sudo,
}

impl Rights {
    fn find() -> Option<Self> {
        if !process::succeeds(&["apt-get", "--version"]) {
            None
        } else if process::succeeds(&["sh", "-c", r#"[ "$(id -u)" = 0 ]"#]) {
            Some(Self::Root)
        } else {
            process::succeeds(&["sudo", "-n", "true"]).then_some(Self::Sudo)
        }
    }

    /// Runs `apt-get`. Waits while another process holds its lock.
    fn apt_get(&self, args: &[&str]) -> anyhow::Result<()> {
        let apt_get = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"];
        self.run(&[&apt_get, args].concat())
    }

    /// Runs a command as root. Its output is shown only if it fails.
    fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let sudo: &[&str] = match self {
            Self::Root => &[],
            Self::Sudo => &["sudo", "-n"],
        };
        let words = [sudo, words].concat();
        process::output(Command::new(words[0]).args(&words[1..])).map(drop)
    }
}

/// The other architectures of packages.
fn architectures<'a>(packages: &[&'a str]) -> impl Iterator<Item = &'a str> {
    packages.iter().filter_map(|package| Some(package.split_once(':')?.1))
}

/// The error for missing packages, with the command that installs them.
fn explain(missing: &[&Need]) -> String {
    let whats: Vec<&str> = missing.iter().map(|need| need.what).collect();
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let architectures: String =
        architectures(&packages).map(|architecture| format!("dpkg --add-architecture {architecture}, ")).collect();
    format!(
        "not installed: {}. On Debian and Ubuntu: {architectures}apt-get install {} (this command does it as root, or if sudo needs \
         no password). On other systems, install the packages of the same purpose.",
        whats.join(" and "),
        packages.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provide_skips_present_packages() {
        static PRESENT: Need =
            Need { what: "a shell", since: For::Running, packages: &["no-such-package"], proof: &["true"] };
        provide(std::iter::once(&PRESENT)).expect("nothing is missing, so nothing is installed");
    }

    #[test]
    fn explain_names_needs_and_packages() {
        let missing: Vec<_> = NEEDS.iter().collect();
        let message = explain(&missing);
        for need in NEEDS {
            assert!(message.contains(need.what), "{} is missing from {message:?}", need.what);
            assert!(
                need.packages.iter().all(|package| message.contains(package)),
                "packages are missing from {message:?}"
            );
        }
    }

    #[test]
    fn explain_adds_foreign_architectures() {
        static FOREIGN: Need =
            Need { what: "a library", since: For::Tests, packages: &["here", "there:arm64"], proof: &["false"] };
        let message = explain(&[&FOREIGN]);
        assert!(message.contains("dpkg --add-architecture arm64, apt-get install here there:arm64"), "{message}");
    }

    #[test]
    fn purposes_include_earlier_ones() {
        let count = |purpose| NEEDS.iter().filter(|need| need.since <= purpose).count();
        let counts = [For::Running, For::Page, For::Desktop, For::Tests].map(count);
        assert!(
            counts.is_sorted_by(|fewer, more| fewer < more),
            "each purpose needs more than the one before: {counts:?}"
        );
        assert_eq!(count(For::Tests), NEEDS.len(), "tests need everything");
    }
}
