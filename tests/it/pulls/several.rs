//! Pulls of several models with failures, errors as JSON, and a daemon killed during a pull.

use std::process::Stdio;

use cairn_testkit::registry::Faults;
use serde_json::Value;

use super::published::Published;
use super::{downloads, home, listed, registry, until};
use crate::cairn::{kill, refused, text};

#[test]
fn failed_model_is_named_and_does_not_stop_others() {
    let (home, registry) = (home(), registry(Faults::default()));
    let [a, c] = [("a", 500), ("c", 510)].map(|(name, seed)| Published::of_noise(&registry, name, seed, 20_000));
    let missing = format!("{}/library/missing:latest", registry.host());
    let stderr = refused(&home.run(&["pull", &a.name, "a b", &c.name, "--insecure"]), "invalid model name");
    assert!(stderr.contains("\"a b\"") && stderr.contains("nothing was pulled"), "{stderr}");
    assert!(!listed(&home).contains(&a.name), "names are checked before the first pull");

    let stderr =
        refused(&home.run(&["pull", &a.name, &missing, &c.name, "--insecure"]), "1 of 3 models were not pulled");
    assert!(stderr.trim_end().ends_with(&missing), "the last line names it: {stderr}");
    assert!(stderr.contains(&format!("{}: pulling manifest\n", c.name)), "lines name their model: {stderr}");
    a.assert_is_in(&home);
    c.assert_is_in(&home);

    let stderr = refused(&home.run(&["rm", &a.name, &missing, &c.name]), "1 of 3 models were not deleted");
    assert!(stderr.trim_end().ends_with(&missing), "{stderr}");
    assert!(!listed(&home).contains(&registry.host()), "the other models are deleted");
}

#[test]
fn json_output_reports_failures() {
    let (home, registry) = (home(), registry(Faults::default()));
    let missing = format!("{}/library/missing", registry.host());
    let check = |words: &[&str], model: Option<&str>, part: &str| {
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?} must fail");
        let stdout = text(&output.stdout);
        let last: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {stdout:?}"));
        assert!(last["error"].as_str().is_some_and(|error| error.contains(part)), "{words:?}: {last}");
        assert_eq!(last["model"].as_str(), model, "{words:?}: {last}");
    };
    check(&["pull", &missing, "--insecure", "--json"], Some(&missing), "file does not exist");
    check(&["push", &missing, "--insecure", "--json"], Some(&missing), "");
    check(&["rm", &missing, "--json"], Some(&missing), "not found");
    check(&["rm", &missing, "missing-too", "--json"], None, "2 of 2 models were not deleted");
    check(&["verify", "missing", "--json"], Some("missing"), "not found");
    check(&["cp", "missing", "other", "--json"], None, "not found");
    check(&["show", "missing", "--json"], None, "not found");
    check(&["create", "m", "-f", "/nowhere/Modelfile", "--json"], None, "Modelfile");
    check(&["import", "/nowhere/m.gguf", "--json"], None, "m.gguf");
    check(&["scan", "/nowhere", "--json"], None, "nowhere");
    check(&["downloads", "pause", "missing", "--json"], None, "missing");
    check(&["cache", "drop", "0000", "--json"], None, "no cached context");
}

#[test]
#[cfg(unix)]
fn daemon_kill_keeps_progress_and_explains_how_to_resume() {
    let (home, registry) = (home(), registry(Faults { bytes_per_second: Some(100_000), ..Faults::default() }));
    let model = Published::of_noise(&registry, "m", 520, 2_000_000);
    let mut daemon = home.serve();
    let pull =
        home.command(&["pull", &model.name, "--insecure"]).stderr(Stdio::piped()).spawn().expect("the command starts");
    until("the download runs", || downloads(&home).first().is_some_and(|row| row["state"] == "running"));
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    let stderr = refused(&pull.wait_with_output().expect("the command ends"), "the daemon ended");
    assert!(
        stderr.contains("Nothing is lost") && stderr.contains(&format!("`cairn pull {} --insecure`", model.name)),
        "{stderr}"
    );
}

#[test]
fn completed_download_cannot_be_stopped_or_resumed() {
    let (home, registry) = (home(), registry(Faults::default()));
    let model = Published::of_noise(&registry, "m", 530, 20_000);
    let _daemon = home.serve();
    home.run(&["pull", &model.name, "--insecure"]);
    for verb in ["pause", "cancel", "resume"] {
        refused(&home.run(&["downloads", verb, &model.name]), "its download is done");
    }
}
