//! Begins this program anew in its place: a program has one event loop in its life, and the first may have come to nothing.

/// How often, at most, one after the other.
#[cfg(unix)]
const TRIES: u32 = 5;
/// How often that was, for the program that begins.
#[cfg(unix)]
const VARIABLE: &str = "CAIRN_APP_TRIES";

/// Begins anew; returns where that cannot be done, or was done often enough, and with which reason.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "what a program hands on to itself is nobody's setting")]
pub(crate) fn begin(why: &str) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    let tries: u32 = std::env::var(VARIABLE).ok().and_then(|said| said.parse().ok()).unwrap_or(0);
    if tries >= TRIES {
        return anyhow::anyhow!("{why}");
    }
    eprintln!("the app that ran before does not answer, and is looked for again: {why}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    match std::env::current_exe() {
        Ok(program) => {
            let mut next = std::process::Command::new(program);
            next.args(std::env::args_os().skip(1)).env(VARIABLE, (tries + 1).to_string()).exec().into()
        }
        Err(error) => error.into(),
    }
}

/// Nothing but the reason: there, a second start does not find a first one by speaking to it.
#[cfg(not(unix))]
pub(crate) fn begin(why: &str) -> anyhow::Error {
    anyhow::anyhow!("{why}")
}
