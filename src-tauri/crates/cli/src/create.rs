//! `cairn create`: makes a model of what a Modelfile says.
//!
//! Files that it names are sent to the server first, as [`gather`] finds them, so that this works with any server of Ollama's
//! interface, on whatever machine it runs.

mod gather;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cairn_convert::{Modelfile, Recipe};
use cairn_wire::ollama::{CreateRequest, Licenses, Message, PullLine};

use crate::client::Client;
use crate::progress::Progress;
use crate::pull::{self, Show};
use crate::{Setting, args, daemon, output};
use gather::{Found, Gathered};

/// A Modelfile holds words; weights are in files of their own.
const MAX_MODELFILE_BYTES: u64 = 8 << 20;

/// Between two looks at how far a file was read.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// How steps are told.
struct Told {
    json: bool,
    progress: Progress,
    /// How the model is told of that this one is made of, while it comes.
    pulled: Option<Box<dyn Show>>,
    last: String,
}

impl Told {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        let pulls = line.status.starts_with("pulling ") || line.trouble.is_some();
        if pulls && !self.json {
            return self.pulled.get_or_insert_with(|| pull::show(false)).line(line);
        }
        self.end_pull();
        if self.json {
            output::json(line)?;
        } else if self.last != line.status {
            self.progress.clear();
            output::note(&line.status);
        }
        if line.total > 0 && !self.json {
            self.progress.show(&line.status, line.completed, line.total);
        }
        self.last.clone_from(&line.status);
        Ok(())
    }

    fn end_pull(&mut self) {
        if let Some(mut pulled) = self.pulled.take() {
            pulled.end();
        }
    }

    fn end(&mut self) {
        self.end_pull();
        self.progress.clear();
    }
}

pub(crate) async fn create(setting: &Setting, args: &args::Create) -> anyhow::Result<()> {
    let path = args.file.as_deref().unwrap_or(Path::new("Modelfile"));
    let recipe = recipe(path)?;
    for warning in &recipe.warnings {
        output::note(&format!("warning: {warning}"));
    }
    if recipe.draft.is_some() {
        bail!(
            "DRAFT is not supported yet by this version of Cairn; leave the line out: the model's answers are the same, and \
             only take longer"
        );
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let gathered = gather::gather(&recipe, &folder, setting.home.as_deref())?;
    let client = daemon::reach(setting).await?;
    if client.is_ours() && gathered.files.iter().any(|file| file.name.ends_with(".safetensors")) {
        bail!(
            "making a model of safetensors files is not supported yet by this version of Cairn; make one GGUF file of them \
             first (llama.cpp's convert_hf_to_gguf.py does), or pull a GGUF version of the model (`cairn search` finds some)"
        );
    }
    let absent = gathered.from.clone().filter(|name| looks_like_a_file(name));
    let mut told = Told { json: args.json, progress: Progress::new(), pulled: None, last: String::new() };
    let made = make(&client, args, recipe, gathered, &mut told).await;
    told.end();
    match absent {
        Some(name) => made.with_context(|| format!("there is no file {name}, and no such model was found")),
        None => made,
    }
}

/// Whoever writes such a name most likely means a file.
fn looks_like_a_file(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.starts_with(['.', '/', '~', '\\']) || [".gguf", ".safetensors", ".bin"].iter().any(|end| lower.ends_with(end))
}

fn recipe(path: &Path) -> anyhow::Result<Recipe> {
    let bytes = words(path)?;
    let file = Modelfile::parse(&bytes).with_context(|| path.display().to_string())?;
    Recipe::of(&file).with_context(|| path.display().to_string())
}

/// The bytes of a Modelfile, or of what is sent here by `-`. A pipe or a device is not even opened otherwise: that may wait
/// forever, and reading it may never end.
fn words(path: &Path) -> anyhow::Result<Vec<u8>> {
    let unread = || format!("could not read {}", path.display());
    if path == Path::new("-") {
        return bounded(std::io::stdin(), path).with_context(unread);
    }
    let found = path.metadata().with_context(unread)?;
    ensure!(
        found.is_file() || found.is_dir(),
        "{}: it is a pipe or a device, and a Modelfile must be a file (`-f -` reads what is piped here)",
        path.display()
    );
    bounded(File::open(path).with_context(unread)?, path).with_context(unread)
}

fn bounded(from: impl Read, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_MODELFILE_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= MAX_MODELFILE_BYTES,
        "{} is longer than {} MiB, which no Modelfile is",
        path.display(),
        MAX_MODELFILE_BYTES >> 20
    );
    Ok(bytes)
}

async fn make(
    client: &Client,
    args: &args::Create,
    recipe: Recipe,
    gathered: Gathered,
    told: &mut Told,
) -> anyhow::Result<()> {
    let mut request = request(args, recipe);
    request.from = gathered.from.unwrap_or_default();
    request.files = send_all(client, gathered.files, told).await?;
    request.adapters = send_all(client, gathered.adapters, told).await?;
    let mut lines = client.stream("/api/create", &request).await?;
    while let Some(line) = lines.next::<PullLine>().await? {
        told.line(&line)?;
    }
    ensure!(told.last == "success", "the server went away before {} was made", args.model);
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

/// The digest of a file, and meanwhile how far it was read: that takes minutes for a large one.
async fn hashed(path: &Path, size: u64, progress: &mut Progress) -> std::io::Result<String> {
    let (path, done) = (path.to_owned(), Arc::new(AtomicU64::new(0)));
    let read = Arc::clone(&done);
    let mut reading =
        tokio::task::spawn_blocking(move || gather::digest(&path, &mut |bytes| read.store(bytes, Ordering::Relaxed)));
    let digest = loop {
        match tokio::time::timeout(SHOW_EVERY, &mut reading).await {
            Ok(digest) => break digest.expect("hashing does not panic"),
            Err(_) => progress.show("hashing", done.load(Ordering::Relaxed), size),
        }
    };
    progress.clear();
    digest
}

/// Sends what the server does not have, and tells what everything is called there.
async fn send_all(
    client: &Client,
    files: Vec<Found>,
    told: &mut Told,
) -> anyhow::Result<Option<BTreeMap<String, String>>> {
    let mut sent = BTreeMap::new();
    for file in files {
        let size = file.path.metadata().with_context(|| file.path.display().to_string())?.len();
        let digest = hashed(&file.path, size, &mut told.progress).await;
        let digest = digest.with_context(|| format!("could not read {}", file.path.display()))?;
        let mut copied = |completed: u64| {
            let status = format!("copying file {digest}");
            told.line(&PullLine { status, digest: digest.clone(), total: size, completed, ..PullLine::default() })
        };
        if !client.has_blob(&digest).await? {
            client.send_blob(&digest, &file.path, size, &mut copied).await?;
        }
        sent.insert(file.name, digest);
    }
    Ok((!sent.is_empty()).then_some(sent))
}
