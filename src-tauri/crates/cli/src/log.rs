//! Logging: always to a rotating file, and to standard error for a daemon in the foreground.
//!
//! `cairn.log` is the newest file. When it is full it is renamed to `cairn.1.log`, and so on up to [`LOG_FILES`] files.
//! Prompts and answers are never logged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_app::system::{LOG_FILES, log_file};
use cairn_disk::{Disk, Mode, RealDisk};
use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::CliContext;

/// The size at which a file is full.
const FULL_BYTES: u64 = 10_000_000;

/// Longest message of a panic in the log.
const MAX_PANIC_CHARS: usize = 300;

/// Starts logging, also of panics. If the log file cannot be opened, the daemon warns on standard error and continues.
pub(crate) fn start(cli: &CliContext, to_stderr: bool) {
    let path = cli.places.log_file();
    let file = RealDisk
        .create_dir_all(&cli.places.logs)
        .map_err(|error| error.to_string())
        .and_then(|()| RotatingFile::open(&path, FULL_BYTES).map_err(|error| error.to_string()));
    let (file, failure) = match file {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(error)),
    };
    let stderr = (to_stderr || file.is_none()).then(|| {
        let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        // The layer respects NO_COLOR, but does not check for a terminal.
        if io::stderr().is_terminal() { layer } else { layer.with_ansi(false) }
    });
    let file = file.map(|file| tracing_subscriber::fmt::layer().with_ansi(false).with_writer(file));
    tracing_subscriber::registry().with(filter(&cli.settings.log.filter)).with(stderr).with(file).init();
    if let Some(error) = failure {
        tracing::warn!(path = %path.display(), error, "cannot open the log file");
    }
    // Replaces the default hook, which writes to standard error only.
    std::panic::set_hook(Box::new(log_panic));
    for warning in &cli.settings.warnings {
        tracing::warn!("{warning}");
    }
}

/// Parses the setting. A plain level applies to Cairn's crates; a filter is used unchanged. The library of tools (`rmcp`) logs URLs
/// and messages, which may have keys and contents.
fn filter(text: &str) -> EnvFilter {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let level = text.to_ascii_lowercase();
    let directives = if levels.contains(&&*level) { format!("warn,rmcp=off,cairn={level}") } else { text.to_owned() };
    EnvFilter::try_new(directives).unwrap_or_else(|error| {
        eprintln!("invalid value for CAIRN_LOG: {text:?}: {error}; using the default");
        EnvFilter::new("warn,rmcp=off,cairn=info")
    })
}

/// Logs a panic: where it happened, in which thread, and why.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().map(panic_message).unwrap_or_default();
    tracing::error!(thread = thread.name().unwrap_or("unnamed"), location, message, "panic");
}

/// Returns the message of a panic without all from the first to the last backtick. A failed slice of a text quotes the text
/// between backticks. It may be a part of a prompt or an answer, and have backticks itself.
fn panic_message(message: &str) -> String {
    let text = match (message.find('`'), message.rfind('`')) {
        (Some(first), Some(last)) => format!("{}`...`{}", &message[..first], &message[last + 1..]),
        _ => message.to_owned(),
    };
    text.chars().take(MAX_PANIC_CHARS).collect()
}

/// A log file that rotates when it is full. Clones write to the same file.
#[derive(Debug, Clone)]
struct RotatingFile(Arc<Mutex<LogFile>>);

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    full_bytes: u64,
}

impl RotatingFile {
    fn open(path: &Path, full_bytes: u64) -> io::Result<Self> {
        let file = append(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(LogFile { path: path.to_owned(), file, bytes, full_bytes }))))
    }
}

/// Opens a log file to append to it. Only this user may read it.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, Mode::Private.bits());
    options.open(path)
}

impl LogFile {
    fn rotate(&mut self) -> io::Result<()> {
        for number in (0..LOG_FILES - 1).rev() {
            match fs::rename(log_file(&self.path, number), log_file(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut open = self.0.lock();
        if open.bytes > 0 && open.bytes + line.len() as u64 > open.full_bytes {
            open.rotate()?;
        }
        open.file.write_all(line)?;
        open.bytes += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().file.flush()
    }
}

impl<'a> MakeWriter<'a> for RotatingFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_rotates_when_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.log");
        fs::write(&path, "old\n").unwrap();
        let mut log = RotatingFile::open(&path, 10).unwrap();
        for number in 0..20 {
            writeln!(log, "line {number:02}").unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["cairn.1.log", "cairn.2.log", "cairn.3.log", "cairn.4.log", "cairn.log"], "five files");
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 19\n", "the newest");
        assert_eq!(fs::read_to_string(folder.path().join("cairn.1.log")).unwrap(), "line 18\n", "the file before");
    }

    #[cfg(unix)]
    #[test]
    fn log_files_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut log = RotatingFile::open(&folder.path().join("cairn.log"), 1).unwrap();
        log.write_all(b"first").unwrap();
        log.write_all(b"second").unwrap();
        for name in ["cairn.log", "cairn.1.log"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn panic_is_logged_with_its_thread_and_location() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn.log");
        let file = RotatingFile::open(&path, FULL_BYTES).unwrap();
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(file);
            let subscriber = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(subscriber, || panic!("the number is {}", 42));
        });
        assert!(worker.unwrap().join().is_err(), "the thread panics");
        std::panic::set_hook(default);
        let log = fs::read_to_string(&path).unwrap();
        for part in ["ERROR", "thread=\"worker\"", "log.rs:", "the number is 42"] {
            assert!(log.contains(part), "{part}: {log}");
        }
    }

    #[test]
    fn panic_message_omits_quoted_text() {
        let secret = "start byte index 3 is not a char boundary; it is inside 'é' (bytes 2..4) of `my sécret`";
        let logged = "start byte index 3 is not a char boundary; it is inside 'é' (bytes 2..4) of `...`";
        assert_eq!(panic_message(secret), logged, "the text may be a prompt");
        let error = "called `Option::unwrap()` on a `None` value";
        assert_eq!(panic_message(error), "called `...` value");
        let code = "byte index 3 is out of bounds of `my `secret` text`";
        assert_eq!(panic_message(code), "byte index 3 is out of bounds of `...`", "text with backticks");
        assert_eq!(panic_message(&"x".repeat(1 << 20)).len(), MAX_PANIC_CHARS, "a limit");
    }

    #[test]
    fn filter_level_applies_to_cairn_crates() {
        assert_eq!(filter("debug").to_string(), "cairn=debug,rmcp=off,warn", "a level applies to Cairn's crates");
        assert_eq!(filter("cairn_http=trace").to_string(), "cairn_http=trace", "a filter is unchanged");
    }
}
