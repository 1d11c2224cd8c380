//! Restarts this program in place. A process can create only one event loop, so a failed start needs a new process
//! image.

/// Most consecutive restarts.
#[cfg(unix)]
const TRIES: u32 = 5;
/// Environment variable with the number of restarts so far.
#[cfg(unix)]
const VARIABLE: &str = "CAIRN_APP_TRIES";

/// Restarts the program. Returns only if that fails or after [`TRIES`] restarts.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the variable is internal to this program, not a setting")]
pub(crate) fn restart(reason: &str) -> anyhow::Error {
    use std::os::unix::process::CommandExt;
    let tries: u32 = std::env::var(VARIABLE).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    if tries >= TRIES {
        return anyhow::anyhow!("{reason}");
    }
    eprintln!("the running app does not answer; retrying: {reason}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    match std::env::current_exe() {
        Ok(program) => {
            let mut next = std::process::Command::new(program);
            next.args(std::env::args_os().skip(1)).env(VARIABLE, (tries + 1).to_string()).exec().into()
        }
        Err(error) => error.into(),
    }
}

/// Returns the reason. Other systems detect a running app without a message to it, so they never need a restart.
#[cfg(not(unix))]
pub(crate) fn restart(reason: &str) -> anyhow::Error {
    anyhow::anyhow!("{reason}")
}
