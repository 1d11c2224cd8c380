//! Compares converted checkpoints with those of llama.cpp's converter: `cargo xtask convert [--record]`.
//!
//! Both programs convert each checkpoint. Keys, names, types, dimensions and bytes of tensors must be equal. `--record`
//! writes llama.cpp's results to `tests/fixtures`, which another test compares with Cairn's.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use cairn_testkit::checkpoint::checkpoint;
use it::checkpoints::{self, Case, NOT_RECORDED};
use it::peer::Peer;
use serde_json::json;

fn main() -> anyhow::Result<()> {
    let mut folder = PathBuf::from("target/convert");
    let (mut python, mut source, mut record) = (None, None, false);
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--folder" => folder = value()?.into(),
            "--python" => python = Some(PathBuf::from(value()?)),
            "--source" => source = Some(value()?),
            "--record" => record = true,
            _ => bail!("unknown option {flag}; options: --folder, --python, --source, --record"),
        }
    }
    let needed = "`cargo xtask convert` sets it up and passes it";
    let python = python.with_context(|| format!("--python PATH is needed; {needed}"))?;
    let source = source.with_context(|| format!("--source FOLDER is needed; {needed}"))?;
    let mut peer = Peer::start_with(&python, "convert/llama.py", &[&source])?;
    let (mut lines, mut failed) = (Vec::new(), 0);
    for case in checkpoints::all() {
        let Case { name, spec, target } = &case;
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let files = checkpoints::open(&checkpoint(spec).files, &folder)?;
        let all = checkpoints::convert_all(name, &files, *target)?;
        for (name, ours) in all.into_iter().filter(|(name, _)| !NOT_RECORDED.contains(&name.as_str())) {
            let is_tower = name != case.name;
            let job = json!({"folder": folder, "type": target.name(), "pre": spec.model.family.pre_tokenizer, "tower": is_tower});
            let theirs = match peer.ask_for_file(job, &folder.with_extension("gguf")) {
                Ok((_, theirs)) => theirs,
                Err(error) => {
                    println!("{name}: {error:#}");
                    failed += 1;
                    continue;
                }
            };
            let theirs = checkpoints::describe(&name, &theirs)?;
            let ours = checkpoints::describe(&name, &ours)?;
            let differences: Vec<String> = ours
                .difference(&theirs)
                .map(|line| format!("ours:      {line}"))
                .chain(theirs.difference(&ours).map(|line| format!("llama.cpp: {line}")))
                .collect();
            failed += usize::from(!differences.is_empty());
            println!("{name}: {} lines, {} differences", theirs.len(), differences.len());
            differences.iter().for_each(|line| println!("  {line}"));
            lines.extend(theirs);
        }
    }
    ensure!(failed == 0, "{failed} checkpoints differ or fail");
    if record {
        std::fs::write(checkpoints::recording(), lines.join("\n") + "\n")?;
    }
    Ok(())
}
