//! `cairn list`: the models that are here.

use std::time::SystemTime;

use cairn_wire::ollama::{TagsModel, TagsResponse};

use crate::table::{render, row};
use crate::{Setting, args, daemon, human, output};

/// Characters of a digest that lists show.
const ID_CHARACTERS: usize = 12;

pub(crate) async fn print(setting: &Setting, args: &args::List) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    let tags: TagsResponse = client.get("/api/tags").await?;
    output::print(&table(&tags.models, args.prefix.as_deref().unwrap_or_default(), setting.clock.now()))
}

fn table(models: &[TagsModel], prefix: &str, now: SystemTime) -> String {
    let prefix = prefix.to_lowercase();
    let mut rows = vec![row(["NAME", "ID", "SIZE", "MODIFIED"])];
    for model in models.iter().filter(|model| model.name.to_lowercase().starts_with(&prefix)) {
        // The built-in model is as old as the program, which tells nobody anything.
        let modified = model.origin.clone().unwrap_or_else(|| human::relative(model.modified_at, now));
        let id: String = model.digest.chars().take(ID_CHARACTERS).collect();
        rows.push(vec![model.name.clone(), id, human::bytes(model.size), modified]);
    }
    render(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::Timestamp;
    use cairn_wire::ollama::Details;
    use std::time::Duration;

    #[test]
    fn a_table_of_models() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let model = |name: &str, origin: Option<&str>| TagsModel {
            name: name.to_owned(),
            model: name.to_owned(),
            modified_at: Timestamp(now - Duration::from_secs(7200)),
            size: 4_661_211_424,
            digest: "0123456789abcdef".to_owned(),
            details: Details::default(),
            capabilities: Vec::new(),
            origin: origin.map(str::to_owned),
        };
        let models = [model("Llama3:latest", None), model("pebble:latest", Some("built in"))];
        let expected = "NAME             ID              SIZE      MODIFIED       \n\
                        Llama3:latest    0123456789ab    4.7 GB    2 hours ago    \n\
                        pebble:latest    0123456789ab    4.7 GB    built in       \n";
        assert_eq!(table(&models, "", now), expected, "all of them");
        assert!(!table(&models, "llama", now).contains("pebble"), "names that begin so, in any case");
    }
}
