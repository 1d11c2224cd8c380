//! The command `cairn`: `serve` is the daemon, every other verb is a client of it.
//!
//! A verb that needs the daemon starts one if none runs ([`daemon`]). Results go to standard output, all else to
//! standard error. An error is one line, `Error: ...`, with exit code 1.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod cache;
mod client;
mod completions;
mod cp;
mod create;
mod daemon;
mod desktop;
mod doctor;
mod downloads;
mod du;
mod extract;
mod gc;
mod gguf;
mod human;
mod imatrix;
mod import;
mod key;
mod list;
mod log;
mod login;
mod logs;
mod mirror;
mod model;
mod output;
mod progress;
mod ps;
mod pull;
mod push;
mod remote;
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
mod updates;
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

/// Context of every verb. Nothing else in this program reads the system's clock or environment.
struct CliContext {
    clock: Clock,
    places: Places,
    settings: Settings,
    /// Host name of this machine.
    host_name: Option<String>,
    /// Home folder, for `~`.
    home: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match execute(args) {
        Ok(code) => code,
        // A reader such as `head` may close the pipe early; that is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("Error: {}", one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Formats an error and its causes as one line. A cause that the text already ends with is not repeated.
///
/// Errors quote files, templates and servers, so control characters are replaced by their Unicode pictures even if the
/// output is not a terminal.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().map(ToString::to_string).fold(String::new(), |line, cause| match line {
        line if line.is_empty() => cause,
        line if line.ends_with(&cause) => line,
        line => format!("{line}: {cause}"),
    });
    output::replace_controls(&line, char::is_control).into_owned()
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

fn execute(args: Args) -> anyhow::Result<ExitCode> {
    // Reads no environment and starts no threads: a hostile document may control what this process does next.
    if let Some(Verb::ExtractDocument(args)) = &args.verb {
        return extract::extract(args).map(|()| ExitCode::SUCCESS);
    }
    let env = Env::real();
    let places = Places::of(&env, System::this())?;
    let flags = match &args.verb {
        Some(Verb::Serve(serve)) => serve.set.clone(),
        _ => Vec::new(),
    };
    let settings = Settings::of(Sources::new(&env, &places, flags));
    let cli =
        CliContext { clock: Clock::real(), places, settings, host_name: host_name(&env), home: env.home().cloned() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the I/O threads")?;
    let json = args.verb.as_ref().is_some_and(Verb::wants_json_failure);
    let result = match args.verb {
        None if args.version => runtime.block_on(version::print(&cli)),
        None if terminal::is_stdin_terminal() && terminal::is_stdout_terminal() => run::chat_again(&cli, &runtime),
        None => output::print(&args::help()),
        Some(Verb::Bench(args)) => runtime.block_on(bench::bench(&cli, &args)),
        Some(Verb::Cache(args)) => runtime.block_on(cache::cache(&cli, &args)),
        Some(Verb::Completions(args)) => completions::print(&args),
        Some(Verb::Cp(args)) => runtime.block_on(cp::copy(&cli, &args)),
        Some(Verb::Desktop) => runtime.block_on(desktop::print(&cli)),
        Some(Verb::Doctor(args)) => runtime.block_on(doctor::print(&cli, &args)),
        Some(Verb::ExtractDocument(_)) => unreachable!("it was executed above"),
        Some(Verb::Downloads(args)) => runtime.block_on(downloads::downloads(&cli, &args)),
        Some(Verb::Create(args)) => runtime.block_on(create::create(&cli, &args)),
        Some(Verb::Du(args)) => runtime.block_on(du::print(&cli, &args)),
        Some(Verb::Gc(args)) => runtime.block_on(gc::collect(&cli, &args)),
        Some(Verb::Gguf(args)) => gguf::gguf(&args),
        Some(Verb::Imatrix(args)) => runtime.block_on(imatrix::compute(&cli, &args)),
        Some(Verb::Import(args)) => runtime.block_on(import::import(&cli, &args)),
        Some(Verb::Key(args)) => runtime.block_on(key::key(&cli, &args)),
        Some(Verb::List(args)) => runtime.block_on(list::print(&cli, &args)),
        Some(Verb::Login(args)) => runtime.block_on(login::login(&cli, &args)),
        Some(Verb::Logout(args)) => runtime.block_on(login::logout(&cli, &args)),
        Some(Verb::Logs(args)) => runtime.block_on(logs::print(&cli, &args)),
        Some(Verb::Man(args)) => completions::man(&args),
        Some(Verb::Mirror(args)) => runtime.block_on(mirror::mirror(&cli, &args)),
        Some(Verb::Ps(args)) => runtime.block_on(ps::print(&cli, &args)),
        Some(Verb::Pull(args)) => runtime.block_on(pull::pull(&cli, &args)),
        Some(Verb::Push(args)) => runtime.block_on(push::push(&cli, &args)),
        Some(Verb::Remote(args)) => runtime.block_on(remote::remote(&cli, &args)),
        Some(Verb::Rm(args)) => runtime.block_on(rm::delete(&cli, &args)),
        Some(Verb::Run(args)) => run::run(&cli, &runtime, args),
        Some(Verb::Search(args)) => runtime.block_on(search::search(&cli, &args)),
        Some(Verb::Scan(args)) => runtime.block_on(scan::scan(&cli, &args)),
        Some(Verb::Serve(args)) => {
            let code = serve::serve(cli, &runtime, &args)?;
            // Tasks on other threads may hang. The shutdown deadline has passed, so do not wait for them.
            runtime.shutdown_background();
            return Ok(code);
        }
        Some(Verb::Show(args)) => runtime.block_on(show::print(&cli, &args)),
        Some(Verb::Stop(args)) => runtime.block_on(stop::stop(&cli, &args)),
        Some(Verb::Ui(args)) => runtime.block_on(ui::open(&cli, &args)),
        Some(Verb::Updates(args)) => runtime.block_on(updates::print(&cli, &args)),
        Some(Verb::Verify(args)) => runtime.block_on(verify::verify(&cli, &args)),
    };
    runtime.shutdown_background();
    several::report_failure(json, None, result).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_line_escapes_control_characters() {
        let error = anyhow::anyhow!("refused: a\nb\t\x1b[31mred\r\x07").context("x");
        assert_eq!(one_line(&error), "x: refused: a␊b␉␛[31mred␍␇", "text of a template cannot control the terminal");
    }

    #[test]
    fn error_line_omits_repeated_causes() {
        let error = anyhow::anyhow!("no such file").context("could not read x: no such file").context("the daemon");
        assert_eq!(
            one_line(&error),
            "the daemon: could not read x: no such file",
            "two of the three errors are the same"
        );
    }
}
