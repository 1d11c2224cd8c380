//! A coding agent that repairs a program, with a model that recites its commands.

use std::path::Path;
use std::process::Command;

use cairn_testkit::{Script, scripted};
use serde_json::{Value, json};

use crate::cairn::{Home, succeeded, text};
use crate::clients::installed;

/// A program that subtracts instead of adding, and the same after its repair.
const BROKEN: &str = "echo $(($1 - $2))\n";
const REPAIRED: &str = "echo $(($1 + $2))\n";

/// Answers with a text and a command. The first two commands print -1 and 5; the last one ends the agent.
const ANSWERS: [(&str, &str); 3] = [
    ("I test it.", "sh sum.sh 2 3"),
    ("I repair it.", "sed -i s/-/+/ sum.sh && sh sum.sh 2 3"),
    ("Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
];

/// A template in the style of Hermes. The output of the last command chooses the script. Without the tool there is none.
const TEMPLATE: &str = "{% for tool in tools %}<tools>{{ tool | tojson }}</tools>{% endfor %}\
    {% for message in messages %}<|im_start|>{{ message.role }} {{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>{% endfor %}\
    {% if tools[0].function.name != 'bash' %}{% elif messages[-1].role != 'tool' %}<|script0|>\
    {% elif '\"output\": \"-1' in messages[-1].content %}<|script1|>\
    {% elif '\"output\": \"5' in messages[-1].content %}<|script2|>{% endif %}";

/// Returns the file of a model that calls the tool `bash` for each command.
fn model() -> Vec<u8> {
    let answer = |(text, command): (&str, &str)| {
        let call = json!({"name": "bash", "arguments": {"command": command}});
        format!("{text}\n<tool_call>\n{call}\n</tool_call>")
    };
    let texts = ANSWERS.map(answer);
    let begins = ["<|script0|>", "<|script1|>", "<|script2|>"];
    let scripts: Vec<Script<'_>> = begins.into_iter().zip(&texts).map(|(begin, text)| Script { begin, text }).collect();
    scripted(TEMPLATE, &scripts, &[])
}

#[test]
fn mini_swe_agent_repairs_a_program_over_every_protocol() {
    let home = Home::new().with("OLLAMA_CONTEXT_LENGTH", "16384");
    let file = home.folder.path().join("agent.gguf");
    std::fs::write(&file, model()).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &file.to_string_lossy(), "agent"]));
    let work = home.folder.path().join("work");
    let protocols = ["chat", "responses", "ollama", "anthropic"];
    for protocol in protocols {
        let folder = work.join(protocol);
        std::fs::create_dir_all(&folder).expect("the home is writable");
        std::fs::write(folder.join("sum.sh"), BROKEN).expect("the home is writable");
    }

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/packages/mini_swe_agent_package.py");
    let mut agent = Command::new(installed("packages/bin/python"));
    agent.arg(script).arg(format!("http://127.0.0.1:{}", home.port)).arg("agent").arg(&work);
    let output = agent.env("DO_NOT_TRACK", "1").output().expect("Python starts");
    let log = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{log}");
    for protocol in protocols {
        let read = |name: &str| std::fs::read_to_string(work.join(protocol).join(name)).expect("the agent has run");
        assert_eq!(read("sum.sh"), REPAIRED, "{protocol}: {log}");
        let trajectory: Value = serde_json::from_str(&read("trajectory.json")).expect("JSON");
        let info = &trajectory["info"];
        assert_eq!(info["exit_status"], "Submitted", "{protocol}: {info}");
        assert_eq!(info["model_stats"]["api_calls"], 3, "{protocol}: one call for each command: {info}");
    }
    let log = daemon.log();
    assert!(!log.contains("panicked") && !log.contains("the context is full"), "the model sees all of a prompt: {log}");
}
