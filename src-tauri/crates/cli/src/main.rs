//! The command `cairn`: `serve` is the daemon, every other verb is a client of it.
//!
//! A verb that needs the daemon starts it when none runs ([`daemon`]). Answers go to standard output, all else to
//! standard error; an error is one line, `Error: ...`, and exit code 1.
#![forbid(unsafe_code)]

mod args;
mod cache;
mod client;
mod cp;
mod create;
mod daemon;
mod desktop;
mod downloads;
mod du;
mod gc;
mod gguf;
mod human;
mod import;
mod list;
mod log;
mod login;
mod mirror;
mod output;
mod progress;
mod ps;
mod pull;
mod push;
mod rm;
mod run;
mod scan;
mod search;
mod serve;
mod several;
mod show;
mod stop;
mod table;
mod terminal;
mod ui;
mod verify;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use cairn_app::Clock;
use cairn_app::settings::Sources;
use cairn_app::settings::{Env, Places, Settings, System};
use clap::Parser;

use args::{Args, Verb};

/// What every verb is given: nothing else in this program asks the system for the time or the environment.
struct Setting {
    clock: Clock,
    places: Places,
    settings: Settings,
    /// What a network may call this machine.
    host_name: Option<String>,
    /// What `~` means.
    home: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match begin(args) {
        Ok(code) => code,
        // Whoever reads only the beginning of an answer has what they wanted.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("Error: {}", one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error and its reasons in one line. Many an error's own text ends with its reason, which is then not repeated. Errors repeat
/// what files, templates and servers say, so control characters are shown as pictures, also where no terminal would obey them.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().map(ToString::to_string).fold(String::new(), |line, reason| match line {
        line if line.is_empty() => reason,
        line if line.ends_with(&reason) => line,
        line => format!("{line}: {reason}"),
    });
    output::pictured(&line, char::is_control).into_owned()
}

#[cfg(unix)]
fn host_name(_: &Env) -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn host_name(env: &Env) -> Option<String> {
    env.text("COMPUTERNAME").map(str::to_owned)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn begin(args: Args) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let places = Places::of(&env, System::this())?;
    let flags = match &args.verb {
        Some(Verb::Serve(serve)) => serve.set.clone(),
        _ => Vec::new(),
    };
    let settings = Settings::of(Sources::new(&env, &places, flags));
    let setting =
        Setting { clock: Clock::real(), places, settings, host_name: host_name(&env), home: env.home().cloned() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("could not start the threads that wait for input and output")?;
    let json = args.verb.as_ref().is_some_and(Verb::leaves_failure);
    let done = match args.verb {
        None if args.version => runtime.block_on(version::print(&setting)),
        None => output::print(&args::help()),
        Some(Verb::Cache(args)) => runtime.block_on(cache::cache(&setting, &args)),
        Some(Verb::Cp(args)) => runtime.block_on(cp::copy(&setting, &args)),
        Some(Verb::Desktop) => runtime.block_on(desktop::tell(&setting)),
        Some(Verb::Downloads(args)) => runtime.block_on(downloads::downloads(&setting, &args)),
        Some(Verb::Create(args)) => runtime.block_on(create::create(&setting, &args)),
        Some(Verb::Du(args)) => runtime.block_on(du::print(&setting, &args)),
        Some(Verb::Gc(args)) => runtime.block_on(gc::collect(&setting, &args)),
        Some(Verb::Gguf(args)) => gguf::gguf(&args),
        Some(Verb::Import(args)) => runtime.block_on(import::import(&setting, &args)),
        Some(Verb::List(args)) => runtime.block_on(list::print(&setting, &args)),
        Some(Verb::Login(args)) => runtime.block_on(login::login(&setting, &args)),
        Some(Verb::Logout(args)) => runtime.block_on(login::logout(&setting, &args)),
        Some(Verb::Mirror(args)) => runtime.block_on(mirror::mirror(&setting, &args)),
        Some(Verb::Ps(args)) => runtime.block_on(ps::print(&setting, &args)),
        Some(Verb::Pull(args)) => runtime.block_on(pull::pull(&setting, &args)),
        Some(Verb::Push(args)) => runtime.block_on(push::push(&setting, &args)),
        Some(Verb::Rm(args)) => runtime.block_on(rm::delete(&setting, &args)),
        Some(Verb::Run(args)) => run::run(&setting, &runtime, args),
        Some(Verb::Search(args)) => runtime.block_on(search::search(&setting, &args)),
        Some(Verb::Scan(args)) => runtime.block_on(scan::scan(&setting, &args)),
        Some(Verb::Serve(args)) => {
            let code = serve::serve(setting, &runtime, &args)?;
            // Work on other threads may hang; the daemon has had its time to end well.
            runtime.shutdown_background();
            return Ok(code);
        }
        Some(Verb::Show(args)) => runtime.block_on(show::print(&setting, &args)),
        Some(Verb::Stop(args)) => runtime.block_on(stop::stop(&setting, &args)),
        Some(Verb::Ui(args)) => runtime.block_on(ui::open(&setting, &args)),
        Some(Verb::Verify(args)) => runtime.block_on(verify::verify(&setting, &args)),
    };
    runtime.shutdown_background();
    several::told(json, None, done).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_it_repeats() {
        let error = anyhow::anyhow!("refused: a\nb\t\x1b[31mred\r\x07").context("x");
        assert_eq!(one_line(&error), "x: refused: a␊b␉␛[31mred␍␇", "a template's words are no commands to a terminal");
    }

    #[test]
    fn a_reason_is_said_once() {
        let error = anyhow::anyhow!("no such file").context("could not read x: no such file").context("the daemon");
        assert_eq!(
            one_line(&error),
            "the daemon: could not read x: no such file",
            "three errors, two of them the same"
        );
    }
}
