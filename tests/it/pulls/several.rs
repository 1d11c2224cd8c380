//! Several models at once, of which some do not come; what scripts are told of failures; and daemons that end meanwhile.

use std::process::Stdio;

use cairn_testkit::registry::Faults;
use serde_json::Value;

use super::published::Published;
use super::{downloads, home, listed, registry, until};
use crate::cairn::{kill, refused, text};

#[test]
fn one_that_does_not_come_or_go_is_named_and_stops_no_other() {
    let (home, registry) = (home(), registry(Faults::default()));
    let [a, c] = [("a", 500), ("c", 510)].map(|(name, seed)| Published::of_noise(&registry, name, seed, 20_000));
    let nobody = format!("{}/library/nobody:latest", registry.host());
    let said = refused(&home.run(&["pull", &a.name, "a b", &c.name, "--insecure"]), "invalid model name");
    assert!(said.contains("\"a b\"") && said.contains("nothing was pulled"), "{said}");
    assert!(!listed(&home).contains(&a.name), "the names are looked at first");

    let said = refused(&home.run(&["pull", &a.name, &nobody, &c.name, "--insecure"]), "1 of 3 models did not come");
    assert!(said.trim_end().ends_with(&nobody), "the last line names it: {said}");
    assert!(said.contains(&format!("{}: pulling manifest\n", c.name)), "lines say whose they are: {said}");
    a.assert_is_in(&home);
    c.assert_is_in(&home);

    let said = refused(&home.run(&["rm", &a.name, &nobody, &c.name]), "1 of 3 models were not deleted");
    assert!(said.trim_end().ends_with(&nobody), "{said}");
    assert!(!listed(&home).contains(&registry.host()), "the others are gone");
}

#[test]
fn scripts_are_told_of_failures() {
    let (home, registry) = (home(), registry(Faults::default()));
    let nobody = format!("{}/library/nobody", registry.host());
    let check = |words: &[&str], model: Option<&str>, part: &str| {
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?} fails");
        let said = text(&output.stdout);
        let last: Value = serde_json::from_str(said.lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"));
        assert!(last["error"].as_str().is_some_and(|error| error.contains(part)), "{words:?}: {last}");
        assert_eq!(last["model"].as_str(), model, "{words:?}: {last}");
    };
    check(&["pull", &nobody, "--insecure", "--json"], Some(&nobody), "file does not exist");
    check(&["push", &nobody, "--insecure", "--json"], Some(&nobody), "");
    check(&["rm", &nobody, "--json"], Some(&nobody), "not found");
    check(&["rm", &nobody, "nobody-else", "--json"], None, "2 of 2 models were not deleted");
    check(&["verify", "nobody", "--json"], Some("nobody"), "not found");
    check(&["cp", "nobody", "other", "--json"], None, "not found");
    check(&["show", "nobody", "--json"], None, "not found");
    check(&["create", "m", "-f", "/nowhere/Modelfile", "--json"], None, "Modelfile");
    check(&["import", "/nowhere/m.gguf", "--json"], None, "m.gguf");
    check(&["scan", "/nowhere", "--json"], None, "nowhere");
    check(&["downloads", "pause", "nobody", "--json"], None, "nobody");
    check(&["cache", "drop", "0000", "--json"], None, "no kept context");
}

#[test]
#[cfg(unix)]
fn a_daemon_that_is_killed_costs_nothing_and_that_is_said() {
    let (home, registry) = (home(), registry(Faults { bytes_per_second: Some(100_000), ..Faults::default() }));
    let model = Published::of_noise(&registry, "m", 520, 2_000_000);
    let mut daemon = home.serve();
    let pull = home.command(&["pull", &model.name, "--insecure"]).stderr(Stdio::piped()).spawn().expect("it starts");
    until("it is at work", || downloads(&home).first().is_some_and(|row| row["state"] == "running"));
    assert!(kill(daemon.child.id(), "-KILL"), "it is at work");
    daemon.child.wait().expect("it is our child");
    let said = refused(&pull.wait_with_output().expect("it ends"), "the daemon ended");
    assert!(
        said.contains("Nothing is lost") && said.contains(&format!("`cairn pull {} --insecure`", model.name)),
        "{said}"
    );
}

#[test]
fn what_is_done_can_neither_be_stopped_nor_resumed() {
    let (home, registry) = (home(), registry(Faults::default()));
    let model = Published::of_noise(&registry, "m", 530, 20_000);
    let _daemon = home.serve();
    home.run(&["pull", &model.name, "--insecure"]);
    for verb in ["pause", "cancel", "resume"] {
        refused(&home.run(&["downloads", verb, &model.name]), "its download is done");
    }
}
