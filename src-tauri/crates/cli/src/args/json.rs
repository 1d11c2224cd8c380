//! Which command lines ask for JSON, so that a failure is told as JSON too.

use super::{DownloadsVerb, MirrorVerb, Verb};
use crate::cache::args::CacheVerb;

impl Verb {
    /// Whether scripts read what this prints, and it leaves the telling of a failure to whoever called it. Verbs that are told of
    /// models tell of each by themselves, and damage is a finding.
    pub(crate) fn leaves_failure(&self) -> bool {
        match self {
            Self::Cache(args) => args.json || args.verb.as_ref().is_some_and(in_cache),
            Self::Cp(args) => args.json,
            Self::Create(args) => args.json,
            Self::Downloads(args) => args.json || args.verb.as_ref().is_some_and(in_downloads),
            Self::Du(args) => args.json,
            Self::Gc(args) => args.json,
            Self::Gguf(args) => args.json,
            Self::Import(args) => args.json,
            Self::List(args) => args.json,
            Self::Login(args) => args.json,
            Self::Mirror(args) => match &args.verb {
                MirrorVerb::Serve(args) | MirrorVerb::Peers(args) | MirrorVerb::Stats(args) => args.json,
                MirrorVerb::Join { .. } | MirrorVerb::Allow { .. } | MirrorVerb::Forget { .. } => false,
            },
            Self::Ps(args) => args.json,
            Self::Scan(args) => args.json,
            Self::Search(args) => args.json,
            Self::Show(args) => args.json,
            Self::Pull(_) | Self::Push(_) | Self::Rm(_) | Self::Verify(_) => false,
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
        // What it found says it.
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
