//! `prove`: the hard tests at their full scale. Continuous integration runs the same ones smaller.

use std::process::ExitCode;

use super::Verb;
use super::setup::{For, ensure};
use crate::{Repo, process, python};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "prove",
    about: "Run one hard test at full scale: `prove NAME`, or a slice of it: `prove NAME --from SEED --runs N`; without a name, lists them",
    run,
};

/// A test with two scales.
struct Proof {
    name: &'static str,
    about: &'static str,
    /// The journey, and the variables that set its scale.
    test: &'static str,
    scale: &'static [(&'static str, &'static str)],
    /// The variables of its first seed and of the number of its runs, where it can be run in slices.
    slice: Option<[&'static str; 2]>,
}

const PROOFS: &[Proof] = &[
    Proof {
        name: "chats",
        about: "100 conversations of five turns, eight at once, through the ollama package",
        test: "clients::conversations_at_once",
        scale: &[("CAIRN_PROVE_CHATS", "100")],
        slice: None,
    },
    Proof {
        name: "pull",
        about: "1,000 pulls of 96 MiB from a registry that lies, stalls and breaks, with the daemon killed in a third",
        test: "pulls::survive::survives_anything",
        scale: &[("CAIRN_PROVE_PULLS", "1000"), ("CAIRN_PROVE_PULL_BYTES", "100663296")],
        slice: Some(["CAIRN_PROVE_FROM", "CAIRN_PROVE_PULLS"]),
    },
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let [name, options @ ..] = args else {
        for Proof { name, about, .. } in PROOFS {
            println!("{name:<12} {about}");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(proof) = PROOFS.iter().find(|proof| proof.name == name) else {
        anyhow::bail!("no proof is named {name:?}; `cargo xtask prove` lists them");
    };
    let slice = slice(proof, options)?;
    ensure(For::Tests)?;
    python::CLIENTS.python(repo)?;
    process::run(&mut process::cargo(repo, &["build", "--release", "--workspace", "--bins", "--quiet"]))?;
    let words = ["test", "--release", "--package", "it", "--", "--nocapture", proof.test];
    process::run(process::cargo(repo, &words).envs(proof.scale.iter().copied()).envs(slice))?;
    Ok(ExitCode::SUCCESS)
}

/// Which runs of a proof are made: variables that go before those of its scale.
fn slice(proof: &Proof, options: &[String]) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut variables = Vec::new();
    for pair in options.chunks(2) {
        let (Some([from, runs]), [option, number]) = (proof.slice, pair) else {
            anyhow::bail!("{}: `prove NAME [--from SEED] [--runs N]`, where NAME can be run in slices", pair.join(" "));
        };
        let variable = match option.as_str() {
            "--from" => from,
            "--runs" => runs,
            other => anyhow::bail!("{other} is no option of `prove`"),
        };
        let number: u64 = number.parse().map_err(|_| anyhow::anyhow!("{option} wants a number, not {number:?}"))?;
        variables.push((variable, number.to_string()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(name: &str) -> &'static Proof {
        PROOFS.iter().find(|proof| proof.name == name).expect("there is one")
    }

    #[test]
    fn slices_are_seeds_and_numbers() {
        let check = |name: &str, words: &str, expected: Option<&[(&str, &str)]>| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let got = slice(proof(name), &words).ok();
            let got: Option<Vec<_>> = got.as_ref().map(|all| all.iter().map(|(a, b)| (*a, b.as_str())).collect());
            assert_eq!(got.as_deref(), expected, "{name} {words:?}");
        };
        check("pull", "", Some(&[]));
        check("chats", "", Some(&[]));
        let both = [("CAIRN_PROVE_FROM", "300"), ("CAIRN_PROVE_PULLS", "100")];
        check("pull", "--from 300 --runs 100", Some(&both));
        check("pull", "--from", None);
        check("pull", "--from x", None);
        check("pull", "--to 5", None);
        check("chats", "--from 1", None);
    }
}
