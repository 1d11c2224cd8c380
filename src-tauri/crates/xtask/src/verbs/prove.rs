//! `prove`: runs the stress tests at full scale. Continuous integration runs the same tests at a small scale.

use std::process::ExitCode;

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, llama, process, python};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "prove",
    about: "Run a stress test at full scale: `prove NAME`, or a slice: `prove NAME --from SEED --runs N`; without a name, lists them",
    run,
};

/// A test with two scales.
struct Proof {
    name: &'static str,
    about: &'static str,
    /// The package and its test program.
    program: [&'static str; 2],
    /// Filter for test names, and the variables that set the scale.
    test: &'static str,
    scale: &'static [(&'static str, &'static str)],
    /// The variables of the first seed and of the number of runs, if it can run in slices.
    slice: Option<[&'static str; 2]>,
    /// Whether it starts llama-server.
    llama_server: bool,
}

/// The integration tests.
const INTEGRATION: [&str; 2] = ["it", "it"];
/// The tests of KV cache correctness, and the slice variables of a test with seeds.
const KV: [&str; 2] = ["cairn-runtime", "kv"];
const KV_SLICE: Option<[&str; 2]> = Some(["CAIRN_PROVE_FROM", "CAIRN_PROVE_RUNS"]);

const PROOFS: &[Proof] = &[
    Proof {
        name: "chats",
        about: "100 conversations of five turns, eight at once, through the ollama package",
        program: INTEGRATION,
        test: "clients::concurrent_conversations",
        scale: &[("CAIRN_PROVE_CHATS", "100")],
        slice: None,
        llama_server: false,
    },
    Proof {
        name: "kv-crosstalk",
        about: "100,000 requests of eight concurrent clients to a toy model whose tokens are hashes of their prefix, 300 restarts; then injected faults",
        program: KV,
        test: "crosstalk::",
        scale: &[("CAIRN_PROVE_RUNS", "100")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-exact",
        about: "200 greedy prompts of 512 tokens in f16, q8_0 and q4_0: bit-equal logits from pages, RAM, disk and recomputation",
        program: KV,
        test: "exact::",
        scale: &[("CAIRN_PROVE_RUNS", "200")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-crash",
        about: "2,000 processes killed and 2,000 power cuts while chunks are written, renamed and removed",
        program: KV,
        test: "crash::",
        scale: &[("CAIRN_PROVE_RUNS", "2000")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-kept",
        about: "share of the rows on the disk when a process is killed 1, 5, 10 and 30 s after an answer, on an idle and on a busy machine",
        program: KV,
        test: "kept::",
        scale: &[("CAIRN_PROVE_RUNS", "3")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-corrupt",
        about: "each class of bytes in each file changed, truncated or swapped with another file, for each bit",
        program: KV,
        test: "corrupt::",
        scale: &[("CAIRN_PROVE_RUNS", "8")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-shared",
        about: "two processes share a folder; the second is killed 600 times",
        program: KV,
        test: "shared::",
        scale: &[("CAIRN_PROVE_RUNS", "600")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "kv-budgets",
        about: "10,000 prompts sent once: RAM tier, SSD tier and process memory stay within their budgets",
        program: KV,
        test: "budgets::",
        scale: &[("CAIRN_PROVE_RUNS", "10000")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "minilm",
        about: "500 sentences through all-MiniLM-L6-v2: cosines of at least 0.9999 with a reference implementation in float64",
        program: INTEGRATION,
        test: "embeddings::minilm_",
        scale: &[("CAIRN_PROVE_RUNS", "500")],
        slice: None,
        llama_server: false,
    },
    Proof {
        name: "openapi",
        about: "20,000 requests that schemathesis derives from the OpenAPI document: no undeclared error, every response as documented",
        program: INTEGRATION,
        test: "openapi::responses_match_the_document",
        scale: &[("CAIRN_PROVE_RUNS", "250")],
        slice: None,
        llama_server: false,
    },
    Proof {
        name: "pull",
        about: "1,000 pulls of 96 MiB from a registry that corrupts, stalls and disconnects; a third of them kill the daemon",
        program: INTEGRATION,
        test: "pulls::survive::pull_survives_injected_faults_and_kills",
        scale: &[("CAIRN_PROVE_PULLS", "1000"), ("CAIRN_PROVE_PULL_BYTES", "100663296")],
        slice: Some(["CAIRN_PROVE_FROM", "CAIRN_PROVE_PULLS"]),
        llama_server: false,
    },
    Proof {
        name: "remotes",
        about: "a real llama-server as a remote: all APIs, tools, vectors, errors, a disconnect, a kill and a restart",
        program: INTEGRATION,
        test: "remotes::llama_server::",
        scale: &[],
        slice: None,
        llama_server: true,
    },
    Proof {
        name: "requests",
        about: "30,000 valid and mutated requests to all routes: no undeclared error, no panic, always a response, bounded memory",
        program: INTEGRATION,
        test: "requests::",
        scale: &[("CAIRN_PROVE_RUNS", "30000")],
        slice: KV_SLICE,
        llama_server: false,
    },
    Proof {
        name: "routing",
        about: "simulation of 100,000 conversations with 64 remotes: prefix hits and time to the first token by routing policy and weight",
        program: ["cairn-upstream", "routing"],
        test: "routing_",
        scale: &[("CAIRN_PROVE_RUNS", "100000")],
        slice: None,
        llama_server: false,
    },
    Proof {
        name: "storm",
        about: "a chat during an attack by 2,000 slow readers, 5,000 idle connections, 200 half-sent bodies, a registry and a page",
        program: INTEGRATION,
        test: "storm::",
        scale: &[("CAIRN_PROVE_STORM", "full")],
        slice: None,
        llama_server: false,
    },
    Proof {
        name: "structured",
        about: "1,000 answers of Pebble at temperature 1.5 over 50 JSON schemas: all parse, and another validator accepts them",
        program: INTEGRATION,
        test: "structured::",
        scale: &[("CAIRN_PROVE_RUNS", "1000")],
        slice: KV_SLICE,
        llama_server: false,
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
        anyhow::bail!("unknown proof {name:?}; `cargo xtask prove` lists all");
    };
    let slice = slice(proof, options)?;
    if proof.program == INTEGRATION {
        ensure(For::Tests)?;
        python::for_tests(repo)?;
        process::run(&mut process::cargo(repo, &["build", "--release", "--workspace", "--bins", "--quiet"]))?;
    }
    let [package, program] = proof.program;
    let mut words = vec!["test", "--release", "--package", package, "--test", program, "--"];
    // Sequential, because tests measure the whole process.
    words.extend(["--nocapture", "--test-threads=1", proof.test]);
    let mut tests = process::cargo(repo, &words);
    tests.envs(proof.scale.iter().copied()).envs(slice);
    if proof.llama_server {
        tests.env(llama::SERVER_VARIABLE, llama::program(repo, llama::SERVER)?);
    }
    process::run(&mut tests)?;
    Ok(ExitCode::SUCCESS)
}

/// Variables that select a slice of a proof. They override those of its scale.
fn slice(proof: &Proof, options: &[String]) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut variables = Vec::new();
    for pair in options.chunks(2) {
        let (Some([from, runs]), [option, number]) = (proof.slice, pair) else {
            anyhow::bail!(
                "unexpected arguments {:?}: usage: `prove NAME [--from SEED] [--runs N]`; not every NAME has slices",
                pair.join(" ")
            );
        };
        let variable = match option.as_str() {
            "--from" => from,
            "--runs" => runs,
            other => anyhow::bail!("unknown option {other:?} of `prove`"),
        };
        let number: u64 = number.parse().map_err(|_| anyhow::anyhow!("{option} needs a number, not {number:?}"))?;
        variables.push((variable, number.to_string()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(name: &str) -> &'static Proof {
        PROOFS.iter().find(|proof| proof.name == name).expect("the proof exists")
    }

    #[test]
    fn slice_options_set_variables() {
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
