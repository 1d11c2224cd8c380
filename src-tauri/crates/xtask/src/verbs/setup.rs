//! `setup`: installs what running and testing need and this machine lacks.
//!
//! Cargo fetches every crate by itself, so little is left: the C compiler as a linker, Python for the Node.js that builds the page,
//! the system's web view for the window, and for the journeys Docker's registry, a screen that nobody sees, and the clients that
//! they drive. Nothing is done, quickly, where all is there.

use std::process::{Command, ExitCode};

use anyhow::bail;

use super::{Verb, no_arguments};
use crate::{process, python};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "setup",
    about: "Install what is missing here to run and test Cairn (Debian, Ubuntu), or say what is",
    run: |repo, args| {
        no_arguments(args)?;
        ensure(For::Tests)?;
        python::CLIENTS.python(repo)?;
        println!("Everything that Cairn needs to be built, run and tested is here.");
        Ok(ExitCode::SUCCESS)
    },
};

/// What the machine is to be ready for; the later one includes the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// Building and running.
    Running,
    /// The page that the daemon serves and the window shows.
    Page,
    /// The window.
    Desktop,
    /// The tests too.
    Tests,
}

/// Something the machine must have.
pub(crate) struct Need {
    pub(crate) what: &'static str,
    pub(crate) since: For,
    /// Debian's names for it; `NAME:ARCHITECTURE` where it belongs to another architecture than the machine's.
    pub(crate) packages: &'static [&'static str],
    /// A command that succeeds where it is there.
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
        what: "Python 3 with virtual environments (it brings Node.js; real clients, in tests)",
        since: For::Page,
        packages: &["python3", "python3-venv"],
        proof: &["python3", "-c", "import ensurepip, venv"],
    },
    Need {
        what: "WebKitGTK, which shows the window's page",
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
        what: "Xvfb, a screen that nobody sees (the window, in tests)",
        since: For::Tests,
        packages: &["xvfb"],
        proof: &["sh", "-c", "command -v Xvfb"],
    },
    Need {
        what: "a message bus of one's own (the window, in tests)",
        since: For::Tests,
        packages: &["dbus-daemon", "dbus-bin"],
        proof: &["sh", "-c", "command -v dbus-daemon && command -v dbus-send"],
    },
    Need {
        what: "a window manager, and a program that speaks to it (the window, in tests)",
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
        what: "Chromium (the page, in tests)",
        since: For::Tests,
        packages: &["chromium"],
        proof: &["sh", "-c", "command -v chromium || command -v chromium-browser || command -v google-chrome"],
    },
    Need {
        what: "a font with Chinese letters (pictures of the page, in tests)",
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
        what: "skopeo (another client of registries, in tests)",
        since: For::Tests,
        packages: &["skopeo"],
        proof: &["skopeo", "--version"],
    },
];

/// Makes the machine ready.
///
/// # Errors
/// What is missing, where it cannot be installed.
pub fn ensure(purpose: For) -> anyhow::Result<()> {
    provide(NEEDS.iter().filter(|need| need.since <= purpose))
}

/// Installs those of `needs` that are missing.
pub(crate) fn provide(needs: impl Iterator<Item = &'static Need>) -> anyhow::Result<()> {
    let lacking: Vec<_> = needs.filter(|need| !process::succeeds(need.proof)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let Some(rights) = Rights::find() else { bail!("{}", explain(&lacking)) };
    let packages: Vec<&str> = lacking.iter().flat_map(|need| need.packages).copied().collect();
    println!("Installing {}", packages.join(" "));
    for architecture in architectures(&packages) {
        rights.run(&["dpkg", "--add-architecture", architecture])?;
    }
    rights.apt_get(&["update", "-qq"])?;
    rights.apt_get(&[&["install", "-qq", "-y", "--no-install-recommends"], packages.as_slice()].concat())?;
    let still: Vec<_> = lacking.into_iter().filter(|need| !process::succeeds(need.proof)).collect();
    if still.is_empty() { Ok(()) } else { bail!("{}", explain(&still)) }
}

/// How packages may be installed here.
enum Rights {
    Root,
    /// `sudo` that asks for no password.
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

    /// Runs `apt-get`, waiting while another one is at work.
    fn apt_get(&self, args: &[&str]) -> anyhow::Result<()> {
        let apt_get = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"];
        self.run(&[&apt_get, args].concat())
    }

    /// Runs a command as root. What it prints matters only when it fails.
    fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let sudo: &[&str] = match self {
            Self::Root => &[],
            Self::Sudo => &["sudo", "-n"],
        };
        let words = [sudo, words].concat();
        process::output(Command::new(words[0]).args(&words[1..])).map(drop)
    }
}

/// The other architectures that packages belong to.
fn architectures<'a>(packages: &[&'a str]) -> impl Iterator<Item = &'a str> {
    packages.iter().filter_map(|package| Some(package.split_once(':')?.1))
}

fn explain(lacking: &[&Need]) -> String {
    let whats: Vec<&str> = lacking.iter().map(|need| need.what).collect();
    let packages: Vec<&str> = lacking.iter().flat_map(|need| need.packages).copied().collect();
    let architectures: String =
        architectures(&packages).map(|architecture| format!("dpkg --add-architecture {architecture}, ")).collect();
    format!(
        "this machine lacks {}. On Debian and Ubuntu: {architectures}apt-get install {} (done for you as root, or where sudo asks for \
         no password). On other systems, install the same under the names it has there.",
        whats.join(" and "),
        packages.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        static HERE: Need =
            Need { what: "a shell", since: For::Running, packages: &["no-such-package"], proof: &["true"] };
        provide(std::iter::once(&HERE)).expect("nothing is missing, so nothing is installed");
    }

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        let lacking: Vec<_> = NEEDS.iter().collect();
        let said = explain(&lacking);
        for need in NEEDS {
            assert!(said.contains(need.what), "{} is missing from {said:?}", need.what);
            assert!(need.packages.iter().all(|package| said.contains(package)), "packages are missing from {said:?}");
        }
    }

    #[test]
    fn packages_of_another_architecture_take_that_architecture() {
        static ABROAD: Need =
            Need { what: "a library", since: For::Tests, packages: &["here", "there:arm64"], proof: &["false"] };
        let said = explain(&[&ABROAD]);
        assert!(said.contains("dpkg --add-architecture arm64, apt-get install here there:arm64"), "{said}");
    }

    #[test]
    fn tests_need_all_that_running_needs() {
        let count = |purpose| NEEDS.iter().filter(|need| need.since <= purpose).count();
        let counts = [For::Running, For::Page, For::Desktop, For::Tests].map(count);
        assert!(
            counts.is_sorted_by(|fewer, more| fewer < more),
            "each purpose needs more than the one before: {counts:?}"
        );
        assert_eq!(count(For::Tests), NEEDS.len(), "tests need everything");
    }
}
