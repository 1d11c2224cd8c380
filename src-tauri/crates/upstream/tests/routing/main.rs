//! Simulation of routing: many conversations, 64 servers with KV caches of limited size, and several ways to choose a server.
//!
//! The servers have continuous batching: prefills one after another, decoding slower with each further answer. Only the choice of
//! the server and the list of prefixes are Cairn's own code. `CAIRN_PROVE_RUNS` sets the number of conversations.

mod cluster;
mod workload;

use cairn_upstream::route::LOAD_BLOCKS;
use cluster::{Policy, Report, simulate};
use workload::Workload;

/// Conversations of a run in continuous integration.
const FEW: usize = 3_000;

fn conversations() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the scale of a test is set in the environment")]
    let runs = std::env::var("CAIRN_PROVE_RUNS").ok();
    runs.map_or(FEW, |text| text.parse().expect("CAIRN_PROVE_RUNS is a number"))
}

fn print(workload: &Workload, reports: &[(String, Report)]) {
    println!("{} ({} conversations, {} servers)", workload.name, workload.conversations, workload.servers);
    println!("  {:<24} {:>10} {:>14} {:>14} {:>10}", "policy", "hits", "mean TTFT", "99 % TTFT", "max load");
    for (name, report) in reports {
        println!(
            "  {name:<24} {:>8.1} % {:>11.0} ms {:>11.0} ms {:>10}",
            100.0 * report.hit_share(),
            report.mean_ttft_ms(),
            report.p99_ttft_ms(),
            report.max_outstanding
        );
    }
}

fn run(workload: &Workload, policies: &[(&str, Policy)]) -> Vec<(String, Report)> {
    let reports: Vec<_> =
        policies.iter().map(|(name, policy)| ((*name).to_owned(), simulate(workload, *policy))).collect();
    print(workload, &reports);
    reports
}

#[test]
fn routing_finds_almost_all_prefixes_that_caches_can_have() {
    for workload in [Workload::chats(conversations()), Workload::agents(conversations() / 4)] {
        let reports = run(
            &workload,
            &[
                ("random", Policy::Random),
                ("least outstanding", Policy::LeastOutstanding),
                ("consistent hashing", Policy::ConsistentHashing),
                ("Cairn", Policy::Cairn(LOAD_BLOCKS)),
                ("greedy oracle", Policy::Oracle),
                ("endless shared cache", Policy::Endless),
            ],
        );
        let share = |at: usize| reports[at].1.hit_share();
        let (random, cairn, oracle, endless) = (share(0), share(3), share(4), share(5));
        let name = workload.name;
        assert!(cairn > random + 0.5 * (endless - random), "{name}: {cairn:.3} of {random:.3} to {endless:.3}");
        assert!(cairn > oracle - 0.03, "{name}: the oracle sees the real caches: {cairn:.3} and {oracle:.3}");
        assert!(cairn <= endless && oracle <= endless, "{name}: no cache has more than all prefixes");
        let ttft = |at: usize| reports[at].1.mean_ttft_ms();
        assert!(ttft(3) < ttft(0) && ttft(3) < ttft(1) && ttft(3) < ttft(2), "{name}: the first token comes sooner");
    }
}

#[test]
fn routing_weight_of_load_is_near_the_best_on_both_workloads() {
    const WEIGHTS: [usize; 8] = [0, 1, 2, 4, 8, 16, 32, 64];
    for workload in [Workload::chats(conversations()), Workload::agents(conversations() / 4)] {
        let names: Vec<String> = WEIGHTS.iter().map(|weight| format!("weight {weight}")).collect();
        let policies: Vec<_> =
            names.iter().zip(WEIGHTS).map(|(name, weight)| (name.as_str(), Policy::Cairn(weight))).collect();
        let reports = run(&workload, &policies);
        let best = reports.iter().map(|(_, report)| report.mean_ttft_ms()).fold(f64::INFINITY, f64::min);
        let at = WEIGHTS.iter().position(|weight| *weight == LOAD_BLOCKS).expect("the weight in use is measured");
        let chosen = reports[at].1.mean_ttft_ms();
        assert!(
            chosen <= 1.35 * best,
            "{}: {chosen:.0} ms with the weight in use, {best:.0} ms at best",
            workload.name
        );
    }
}
