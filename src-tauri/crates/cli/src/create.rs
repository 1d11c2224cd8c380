//! `cairn create`: creates a model from a Modelfile, or from the weights in the current folder.
//!
//! Files that the Modelfile names are uploaded first, as [`gather`] finds them. So this works with any server that has
//! Ollama's API, also on another machine.

mod gather;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cairn_app::library::hash_file;
use cairn_convert::{Modelfile, Recipe};
use cairn_wire::ollama::{CreateRequest, Licenses, Message, PullLine};

use crate::client::Client;
use crate::progress::Progress;
use crate::pull::{self, PullOutput};
use crate::{CliContext, args, daemon, output};
use gather::{ModelSources, SourceFile};

/// Path of the Modelfile if none is named.
const MODELFILE: &str = "Modelfile";

/// Upper limit for a Modelfile, which is text; weights are in other files.
const MAX_MODELFILE_BYTES: u64 = 8 << 20;

/// Time between two updates of the hashing progress.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Output of the steps.
struct CreateOutput {
    json: bool,
    progress: Progress,
    /// Output of the pull of the base model, while it runs.
    pull: Option<Box<dyn PullOutput>>,
    last_status: String,
}

impl CreateOutput {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        let is_pull = line.status.starts_with("pulling ") || line.problem.is_some();
        if is_pull && !self.json {
            return self.pull.get_or_insert_with(|| pull::show(false)).line(line);
        }
        self.end_pull();
        if self.json {
            output::json(line)?;
        } else if self.last_status != line.status {
            self.progress.clear();
            output::note(&line.status);
        }
        if line.total > 0 && !self.json {
            self.progress.show(&line.status, line.completed, line.total);
        }
        self.last_status.clone_from(&line.status);
        Ok(())
    }

    fn end_pull(&mut self) {
        if let Some(mut pull) = self.pull.take() {
            pull.end();
        }
    }

    fn end(&mut self) {
        self.end_pull();
        self.progress.clear();
    }
}

pub(crate) async fn create(cli: &CliContext, args: &args::Create) -> anyhow::Result<()> {
    let path = args.file.as_deref().unwrap_or(Path::new(MODELFILE));
    // As in `ollama create`, a folder with weights needs no Modelfile.
    let has_only_weights = args.file.is_none() && !path.exists();
    let recipe = match has_only_weights {
        true => Recipe { from: vec![".".to_owned()], ..Recipe::default() },
        false => recipe(path)?,
    };
    for warning in &recipe.warnings {
        output::note(&format!("warning: {warning}"));
    }
    if recipe.draft.is_some() {
        bail!(
            "this version of Cairn does not support DRAFT yet; remove the line: the answers stay the same and only \
             take longer"
        );
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let sources = gather::gather(&recipe, &folder, cli.home.as_deref());
    let sources = match has_only_weights {
        true => sources.context("there is no Modelfile in this folder, and no model; `-f` names a Modelfile")?,
        false => sources?,
    };
    let client = daemon::connect_or_start(cli).await?;
    let missing_file = sources.from.clone().filter(|name| looks_like_a_file(name));
    let (progress, last_status) = (Progress::new(), String::new());
    let mut output = CreateOutput { json: args.json, progress, pull: None, last_status };
    let created = send_request(&client, args, recipe, sources, &mut output).await;
    output.end();
    match missing_file {
        Some(name) => created.with_context(|| format!("cannot find a file or a model {name:?}")),
        None => created,
    }
}

/// Whether a name in FROM that is no existing file still looks like a path.
fn looks_like_a_file(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.starts_with(['.', '/', '~', '\\']) || [".gguf", ".safetensors", ".bin"].iter().any(|end| lower.ends_with(end))
}

fn recipe(path: &Path) -> anyhow::Result<Recipe> {
    let bytes = read_modelfile(path)?;
    let file = Modelfile::parse(&bytes).with_context(|| path.display().to_string())?;
    Recipe::of(&file).with_context(|| path.display().to_string())
}

/// Reads a Modelfile, or standard input for `-`. Does not open another pipe or a device, because opening or reading it
/// may never end.
fn read_modelfile(path: &Path) -> anyhow::Result<Vec<u8>> {
    let unread = || format!("cannot read {}", path.display());
    if path == Path::new("-") {
        return read_limited(std::io::stdin(), path).with_context(unread);
    }
    let metadata = path.metadata().with_context(unread)?;
    ensure!(
        metadata.is_file() || metadata.is_dir(),
        "cannot read {}: it is a pipe or a device, and a Modelfile must be a file (`-f -` reads standard input)",
        path.display()
    );
    read_limited(File::open(path).with_context(unread)?, path).with_context(unread)
}

fn read_limited(from: impl Read, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_MODELFILE_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= MAX_MODELFILE_BYTES,
        "{} is longer than {} MiB, the limit for a Modelfile",
        path.display(),
        MAX_MODELFILE_BYTES >> 20
    );
    Ok(bytes)
}

async fn send_request(
    client: &Client,
    args: &args::Create,
    recipe: Recipe,
    sources: ModelSources,
    output: &mut CreateOutput,
) -> anyhow::Result<()> {
    let mut request = request(args, recipe);
    request.from = sources.from.unwrap_or_default();
    request.files = upload_files(client, sources.files, output).await?;
    request.adapters = upload_files(client, sources.adapters, output).await?;
    if let Some(path) = &args.imatrix {
        gather::check_is_file(path)?;
        let file = SourceFile { name: "imatrix".to_owned(), path: path.clone() };
        let uploaded = upload_files(client, vec![file], output).await?;
        request.imatrix = uploaded.and_then(|files| files.into_values().next());
    }
    let mut lines = client.stream("/api/create", &request).await?;
    while let Some(line) = lines.next::<PullLine>().await? {
        output.line(&line)?;
    }
    ensure!(output.last_status == "success", "the server ended before the model {} was created", args.model);
    Ok(())
}

fn request(args: &args::Create, recipe: Recipe) -> CreateRequest {
    let message = |(role, content): (cairn_convert::modelfile::Role, String)| Message {
        role: role.name().to_owned(),
        content,
        ..Message::default()
    };
    let messages: Vec<Message> = recipe.messages.into_iter().map(message).collect();
    CreateRequest {
        model: args.model.clone(),
        template: recipe.template,
        system: recipe.system,
        license: (!recipe.licenses.is_empty()).then_some(Licenses::Many(recipe.licenses)),
        parameters: (!recipe.parameters.is_empty()).then_some(recipe.parameters),
        messages: (!messages.is_empty()).then_some(messages),
        renderer: recipe.renderer,
        parser: recipe.parser,
        requires: recipe.requires,
        quantize: args.quantize.clone(),
        insecure: args.insecure,
        ..CreateRequest::default()
    }
}

/// Returns the digest of a file, and shows the progress: hashing a large file takes minutes.
async fn hash_with_progress(path: &Path, size: u64, progress: &mut Progress) -> std::io::Result<String> {
    let (path, done) = (path.to_owned(), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&done);
    let mut reading = tokio::task::spawn_blocking(move || {
        let mut on_progress = |bytes| {
            counter.store(bytes, Ordering::Relaxed);
            true
        };
        let digest = hash_file(&File::open(path)?, &mut on_progress)?;
        Ok(digest.expect("the hashing is not cancelled").to_string())
    });
    let digest = loop {
        match tokio::time::timeout(REDRAW_INTERVAL, &mut reading).await {
            Ok(digest) => break digest.expect("hashing does not panic"),
            Err(_) => progress.show("hashing", done.load(Ordering::Relaxed), size),
        }
    };
    progress.clear();
    digest
}

/// Uploads the files that the server lacks. Returns the digest of each file by its name in the request.
async fn upload_files(
    client: &Client,
    files: Vec<SourceFile>,
    output: &mut CreateOutput,
) -> anyhow::Result<Option<BTreeMap<String, String>>> {
    let mut uploaded = BTreeMap::new();
    for file in files {
        let size = file.path.metadata().with_context(|| file.path.display().to_string())?.len();
        let digest = hash_with_progress(&file.path, size, &mut output.progress).await;
        let digest = digest.with_context(|| format!("cannot read {}", file.path.display()))?;
        let mut on_progress = |completed: u64| {
            let status = format!("copying file {digest}");
            output.line(&PullLine { status, digest: digest.clone(), total: size, completed, ..PullLine::default() })
        };
        if !client.has_blob(&digest).await? {
            client.send_blob(&digest, &file.path, size, &mut on_progress).await?;
        }
        uploaded.insert(file.name, digest);
    }
    Ok((!uploaded.is_empty()).then_some(uploaded))
}
