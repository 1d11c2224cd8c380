//! `prove`: the hard tests at their full scale. Continuous integration runs the same ones smaller.

use std::process::ExitCode;

use super::Verb;
use super::setup::{For, ensure};
use crate::{Repo, process, python};

/// The row of this verb.
pub const VERB: Verb =
    Verb { name: "prove", about: "Run one hard test at full scale: `prove NAME`; without a name, lists them", run };

/// A test with two scales.
struct Proof {
    name: &'static str,
    about: &'static str,
    /// The journey, and the variables that set its scale.
    test: &'static str,
    scale: &'static [(&'static str, &'static str)],
}

const PROOFS: &[Proof] = &[
    Proof {
        name: "chats",
        about: "100 conversations of five turns, eight at once, through the ollama package",
        test: "clients::conversations_at_once",
        scale: &[("CAIRN_PROVE_CHATS", "100")],
    },
    Proof {
        name: "pull",
        about: "1,000 pulls of 96 MiB from a registry that lies, stalls and breaks, with the daemon killed in a third",
        test: "pulls::survive::survives_anything",
        scale: &[("CAIRN_PROVE_PULLS", "1000"), ("CAIRN_PROVE_PULL_BYTES", "100663296")],
    },
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let [name] = args else {
        for Proof { name, about, .. } in PROOFS {
            println!("{name:<12} {about}");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(proof) = PROOFS.iter().find(|proof| proof.name == name) else {
        anyhow::bail!("no proof is named {name:?}; `cargo xtask prove` lists them");
    };
    ensure(For::Tests)?;
    python::CLIENTS.python(repo)?;
    process::run(&mut process::cargo(repo, &["build", "--release", "--workspace", "--bins", "--quiet"]))?;
    let words = ["test", "--release", "--package", "it", "--", "--nocapture", proof.test];
    process::run(process::cargo(repo, &words).envs(proof.scale.iter().copied()))?;
    Ok(ExitCode::SUCCESS)
}
