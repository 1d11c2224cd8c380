//! The process that reads a document: it gets the bytes at its standard input and writes [`Line`]s to its standard output.
//!
//! A document may crash, stop or flood that process. Time and output are limited here, memory and computing time by the process
//! itself. It gets no environment. Its errors are not logged, because they may quote the document.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use cairn_documents::{Error as DocumentError, Extracted, Limits, Line};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::error::Error;

/// Time to read a document, for the slowest machines.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of JSON for each character of text, and for each part.
const MAX_BYTES_PER_CHAR: u64 = 6;
/// Longest extension that is passed on.
const MAX_EXTENSION_CHARS: usize = 16;

/// Program that reads one document.
#[derive(Debug, Clone)]
pub struct Extractor {
    program: PathBuf,
    arguments: Vec<OsString>,
    timeout: Duration,
    max_output_bytes: u64,
}

impl Extractor {
    /// The verb `extract-document` of this `cairn` program.
    #[must_use]
    pub fn of_cairn(program: PathBuf) -> Self {
        Self::new(program, ["extract-document".into()], TIMEOUT)
    }

    pub(crate) fn new(program: PathBuf, arguments: impl IntoIterator<Item = OsString>, timeout: Duration) -> Self {
        let max_output_bytes = Limits::default().chars as u64 * MAX_BYTES_PER_CHAR;
        Self { program, arguments: arguments.into_iter().collect(), timeout, max_output_bytes }
    }

    /// Reads a document. Dropping the future kills the process.
    pub(super) async fn extract(&self, extension: &str, bytes: Vec<u8>) -> Result<Extracted, Error> {
        let is_plain =
            extension.len() <= MAX_EXTENSION_CHARS && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let extension = if is_plain { extension } else { "" };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--extension").arg(extension);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        #[cfg(unix)]
        command.env_clear().current_dir("/");
        #[cfg(windows)]
        {
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            command.creation_flags(CREATE_NO_WINDOW);
        }
        let mut child = command.spawn().map_err(|error| Error::Process(error.to_string()))?;
        let read = tokio::time::timeout(self.timeout, self.run(&mut child, bytes)).await;
        // The process has ended, or must end now. An error means that it has ended.
        let _ = child.kill().await;
        read.unwrap_or(Err(Error::Timeout(self.timeout)))
    }

    async fn run(&self, child: &mut Child, bytes: Vec<u8>) -> Result<Extracted, Error> {
        let missing = || Error::Process("its streams are closed".to_owned());
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        // A process that has seen enough closes its input: that is not an error.
        let write = async move {
            let _ = input.write_all(&bytes).await;
            drop((input, bytes));
            std::future::pending().await
        };
        let mut output = BufReader::new(output.take(self.max_output_bytes));
        let read = tokio::select! {
            read = read_lines(&mut output) => read?,
            () = write => None,
        };
        match read {
            Some(result) => Ok(result?),
            None if output.into_inner().limit() == 0 => {
                let limit = Limits::default().chars;
                Err(DocumentError::TooMany { what: "characters".to_owned(), limit }.into())
            }
            None => {
                let status = child.wait().await.map_err(|error| Error::Process(error.to_string()))?;
                Err(if is_cpu_limit(status) {
                    Error::Timeout(self.timeout)
                } else {
                    Error::Crashed(status.to_string())
                })
            }
        }
    }
}

/// Reads the lines of a process; `None` if they have no valid end.
async fn read_lines(
    output: &mut (impl AsyncBufRead + Unpin),
) -> Result<Option<Result<Extracted, DocumentError>>, Error> {
    let (mut parts, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let count = output.read_until(b'\n', &mut line).await.map_err(|error| Error::Process(error.to_string()))?;
        match serde_json::from_slice(&line) {
            _ if count == 0 => return Ok(None),
            Ok(Line::Part(part)) => parts.push(part),
            Ok(Line::Done { format, pages }) => return Ok(Some(Ok(Extracted { format, parts, pages }))),
            Ok(Line::Failed(error)) => return Ok(Some(Err(error))),
            Err(_) => return Ok(None),
        }
    }
}

/// Whether the process exceeded its limit of computing time.
#[cfg(unix)]
fn is_cpu_limit(status: ExitStatus) -> bool {
    const SIGXCPU: i32 = 24;
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGXCPU)
}

#[cfg(not(unix))]
fn is_cpu_limit(_: ExitStatus) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Runs a shell script as the process.
    async fn run(script: &str, bytes: &[u8], timeout: Duration) -> Result<Extracted, Error> {
        let mut extractor = Extractor::new("/bin/sh".into(), ["-c".into(), script.into()], timeout);
        extractor.max_output_bytes = 1 << 20;
        extractor.extract("pdf", bytes.to_vec()).await
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn lines_become_a_document() {
        let script = r#"read x; echo "{\"part\":{\"place\":{\"kind\":\"page\",\"number\":2},\"text\":\"$x\"}}"; echo '{"done":{"format":"pdf","pages":2}}'"#;
        let found = run(script, b"hello\n", LONG).await.expect("the process succeeds");
        assert_eq!((found.parts.len(), found.parts[0].text.as_str(), found.pages), (1, "hello", Some(2)));
    }

    #[tokio::test]
    async fn crash_hang_and_flood_are_errors() {
        let error = run("kill -SEGV $$", b"x", LONG).await.expect_err("a crash");
        assert!(matches!(&error, Error::Crashed(status) if status.contains("11")), "{error:?}");
        let error = run("exit 3", b"x", LONG).await.expect_err("no output");
        assert!(matches!(error, Error::Crashed(_)), "{error:?}");
        let error = run("echo garbage; exit 0", b"x", LONG).await.expect_err("no JSON");
        assert!(matches!(error, Error::Crashed(_)), "{error:?}");
        let error = run("kill -XCPU $$", b"x", LONG).await.expect_err("too much computing time");
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");

        let began = Instant::now();
        let error = run("exec sleep 50", b"x", Duration::from_millis(100)).await.expect_err("a hang");
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        // Nothing reads the input, which is larger than a pipe.
        let error = run("exec sleep 50", &[0; 1 << 20], Duration::from_millis(100)).await.expect_err("a hang");
        assert!(matches!(error, Error::Timeout(_)), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(40), "the process is killed, not waited for");

        let flood = r#"while :; do echo '{"part":{"place":{"kind":"whole"},"text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}'; done"#;
        let error = run(flood, b"x", LONG).await.expect_err("a flood");
        assert!(matches!(error, Error::Document(cairn_documents::Error::TooMany { .. })), "{error:?}");
        let error = run("exec tr -c x y </dev/zero", b"x", LONG).await.expect_err("one long line");
        assert!(matches!(error, Error::Document(cairn_documents::Error::TooMany { .. })), "{error:?}");
    }

    #[tokio::test]
    async fn process_gets_no_environment_and_must_exist() {
        let script = r#"echo "{\"part\":{\"place\":{\"kind\":\"whole\"},\"text\":\"$HOME$CARGO_MANIFEST_DIR\"}}"; echo '{"done":{"format":"text","pages":null}}'"#;
        assert_eq!(run(script, b"", LONG).await.expect("the process succeeds").parts[0].text, "");
        let missing = Extractor::new("/nonexistent/cairn".into(), [], LONG);
        let error = missing.extract("pdf", Vec::new()).await.expect_err("no such program");
        assert!(matches!(error, Error::Process(_)), "{error:?}");
    }
}
