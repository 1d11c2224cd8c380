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
    /// Where the test is: a package and one of its test programs.
    program: [&'static str; 2],
    /// The test or tests whose names have this, and the variables that set their scale.
    test: &'static str,
    scale: &'static [(&'static str, &'static str)],
    /// The variables of its first seed and of the number of its runs, where it can be run in slices.
    slice: Option<[&'static str; 2]>,
}

/// The program of the journeys.
const JOURNEYS: [&str; 2] = ["it", "it"];
/// That of the proofs that what is kept is never wrong, and how those are run in slices.
const KV: [&str; 2] = ["cairn-runtime", "kv"];
const KV_SLICE: Option<[&str; 2]> = Some(["CAIRN_PROVE_FROM", "CAIRN_PROVE_RUNS"]);

const PROOFS: &[Proof] = &[
    Proof {
        name: "chats",
        about: "100 conversations of five turns, eight at once, through the ollama package",
        program: JOURNEYS,
        test: "clients::conversations_at_once",
        scale: &[("CAIRN_PROVE_CHATS", "100")],
        slice: None,
    },
    Proof {
        name: "kv-crosstalk",
        about: "100,000 requests to a toy whose tokens are hashes of all before them, eight people at once, 300 restarts; then each mistake on purpose",
        program: KV,
        test: "crosstalk::",
        scale: &[("CAIRN_PROVE_RUNS", "100")],
        slice: KV_SLICE,
    },
    Proof {
        name: "kv-exact",
        about: "200 greedy prompts of 512 tokens in f16, q8_0 and q4_0: the same logits to the last bit from pages, RAM, disk and anew",
        program: KV,
        test: "exact::",
        scale: &[("CAIRN_PROVE_RUNS", "200")],
        slice: KV_SLICE,
    },
    Proof {
        name: "kv-crash",
        about: "2,000 processes killed and 2,000 power cuts while chunks are written, renamed and removed",
        program: KV,
        test: "crash::",
        scale: &[("CAIRN_PROVE_RUNS", "2000")],
        slice: KV_SLICE,
    },
    Proof {
        name: "kv-corrupt",
        about: "every class of bytes of every file changed, cut, or under another's name, once for each bit",
        program: KV,
        test: "corrupt::",
        scale: &[("CAIRN_PROVE_RUNS", "8")],
        slice: KV_SLICE,
    },
    Proof {
        name: "kv-shared",
        about: "two processes over one folder, whose second is killed 600 times",
        program: KV,
        test: "shared::",
        scale: &[("CAIRN_PROVE_RUNS", "600")],
        slice: KV_SLICE,
    },
    Proof {
        name: "kv-budgets",
        about: "10,000 prompts that are sent once: RAM, disk and memory within their bounds",
        program: KV,
        test: "budgets::",
        scale: &[("CAIRN_PROVE_RUNS", "10000")],
        slice: KV_SLICE,
    },
    Proof {
        name: "pull",
        about: "1,000 pulls of 96 MiB from a registry that lies, stalls and breaks, with the daemon killed in a third",
        program: JOURNEYS,
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
    if proof.program == JOURNEYS {
        ensure(For::Tests)?;
        python::CLIENTS.python(repo)?;
        process::run(&mut process::cargo(repo, &["build", "--release", "--workspace", "--bins", "--quiet"]))?;
    }
    let [package, program] = proof.program;
    let mut words = vec!["test", "--release", "--package", package, "--test", program, "--"];
    // One after the other: each may look at the process as a whole.
    words.extend(["--nocapture", "--test-threads=1", proof.test]);
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
