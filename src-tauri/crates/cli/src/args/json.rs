//! Selects the command lines whose failure is printed as JSON.

use super::cache::CacheVerb;
use super::key::KeyVerb;
use super::remote::RemoteVerb;
use super::{DownloadsVerb, MirrorVerb, Verb};

impl Verb {
    /// Whether `main` prints a failure of this verb as JSON: `--json` is set and the verb does not print failures
    /// itself. Verbs with several models print one failure per model, and the results of `verify` and `doctor` list the damage.
    pub(crate) fn wants_json_failure(&self) -> bool {
        match self {
            Self::Bench(args) => args.json,
            Self::Cache(args) => args.json || args.verb.as_ref().is_some_and(in_cache),
            Self::Cp(args) => args.json,
            Self::Create(args) => args.json,
            Self::Downloads(args) => args.json || args.verb.as_ref().is_some_and(in_downloads),
            Self::Du(args) => args.json,
            Self::Gc(args) => args.json,
            Self::Gguf(args) => args.json,
            Self::Import(args) => args.json,
            Self::Key(args) => match &args.verb {
                KeyVerb::Create { json, .. } | KeyVerb::Revoke { json, .. } => *json,
                KeyVerb::List(args) => args.json,
            },
            Self::List(args) => args.json,
            Self::Login(args) => args.json,
            Self::Mirror(args) => match &args.verb {
                MirrorVerb::Serve(args) | MirrorVerb::Peers(args) | MirrorVerb::Stats(args) => args.json,
                MirrorVerb::Join { .. } | MirrorVerb::Allow { .. } | MirrorVerb::Forget { .. } => false,
            },
            Self::Ps(args) => args.json,
            Self::Remote(args) => match &args.verb {
                RemoteVerb::Add { json, .. } => *json,
                RemoteVerb::List(args) => args.json,
                // The list has the reason of each failure.
                RemoteVerb::Check { .. } | RemoteVerb::Remove { .. } => false,
            },
            Self::Scan(args) => args.json,
            Self::Search(args) => args.json,
            Self::Show(args) => args.json,
            Self::Updates(args) => args.json,
            Self::Doctor(_) | Self::Pull(_) | Self::Push(_) | Self::Rm(_) | Self::Verify(_) => false,
            Self::Completions(_) | Self::ExtractDocument(_) | Self::Imatrix(_) | Self::Logs(_) | Self::Man(_) => false,
            Self::Desktop | Self::Logout(_) | Self::Run(_) | Self::Serve(_) | Self::Stop(_) | Self::Ui(_) => false,
        }
    }
}

fn in_cache(verb: &CacheVerb) -> bool {
    match verb {
        CacheVerb::Status(args) => args.json,
        CacheVerb::Top(args) => args.json,
        CacheVerb::Pin(args) | CacheVerb::Unpin(args) => args.json,
        CacheVerb::Drop(args) => args.json,
        CacheVerb::Trace(args) => args.json,
        // The report lists the damage.
        CacheVerb::Fsck(_) => false,
        CacheVerb::Clear(args) => args.json,
    }
}

fn in_downloads(verb: &DownloadsVerb) -> bool {
    match verb {
        DownloadsVerb::Ls { json } => *json,
        DownloadsVerb::Pause(which)
        | DownloadsVerb::Resume(which)
        | DownloadsVerb::Cancel(which)
        | DownloadsVerb::Discard(which) => which.json,
    }
}
