//! Discover: models to pull, by words. A catalogue that comes with the program is searched, and Hugging Face's index, or
//! whatever `CAIRN_HUB` names; nobody else is asked, and nobody before somebody searches.
//!
//! The index may be out of reach, slow or broken: then the catalogue's answers come with a line that says so. Its words
//! are a stranger's, and bounded by [`Hub`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_registry::{DiscoveredModel, Hub, ModelIndex, Variant, catalogue};
use cairn_store::ModelRef;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;

/// Models that are told when nobody says how many.
const DEFAULT_LIMIT: usize = 10;
/// Models that are told at most.
const MAX_LIMIT: usize = 50;
/// Characters of a search.
const MAX_QUERY_CHARS: usize = 200;
/// How long the index may take to answer, twice: for its models, and for what can be pulled of them.
const PATIENCE: Duration = Duration::from_secs(15);
/// Questions to the index at the same time.
const AT_ONCE: usize = 8;
/// Characters of a line about what went wrong.
const MAX_TROUBLE_CHARS: usize = 400;
/// Quantisations that suit most machines, the best first.
const SUITABLE: [&str; 6] = ["Q4_K_M", "MXFP4", "Q4_K_S", "Q4_0", "IQ4_XS", "Q8_0"];

/// What somebody looks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discover {
    /// Words; all of them must be found. None finds the whole catalogue.
    pub query: String,
    /// How many models are wanted.
    pub limit: Option<usize>,
    /// Only the catalogue that comes with the program is searched: nobody else is asked.
    pub own: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Models: those of the catalogue, then those of the index, which it fetched most often first.
    pub found: Vec<Hit>,
    /// What is missing from them and why, in one line.
    pub trouble: Option<String>,
}

/// A model that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The model.
    pub model: DiscoveredModel,
    /// The name to pull it by: of a variant that suits most machines, where one is known.
    pub name: String,
    /// Names of it, or of its variants, that are models here already.
    pub here: Vec<String>,
}

impl Transfers {
    /// Models to pull that a search means.
    ///
    /// # Errors
    /// When the search is too long. An index that cannot be asked is no failure: the catalogue answers.
    pub async fn discover(&self, discover: Discover) -> Result<Discovery, Error> {
        let query = discover.query.trim();
        if query.chars().count() > MAX_QUERY_CHARS {
            return Err(Error::LongQuery(MAX_QUERY_CHARS));
        }
        let limit = discover.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut models = catalogue(query);
        let (mut far, trouble) = match &self.settings.downloads.hub {
            _ if discover.own => (Vec::new(), None),
            None => (Vec::new(), None),
            Some(address) => match self.search(address, query).await {
                Ok((hub, mut far)) => {
                    far.truncate(limit - own_share(models.len(), far.len(), limit));
                    let trouble = self.fill(&hub, &mut far).await;
                    (far, trouble)
                }
                Err(reason) => {
                    (Vec::new(), Some(format!("only the catalogue that comes with Cairn was searched: {reason}")))
                }
            },
        };
        models.truncate(own_share(models.len(), far.len(), limit));
        models.append(&mut far);
        let transfers = self.clone();
        let here = spawn_blocking(move || transfers.here()).await.expect("listing does not panic");
        let found = models.into_iter().map(|model| found(model, &here)).collect();
        Ok(Discovery { found, trouble: trouble.map(|line| one_line(&line)) })
    }

    /// The index, and the models of it that a search means; or why there are none.
    async fn search(&self, address: &str, query: &str) -> Result<(Hub, Vec<DiscoveredModel>), String> {
        let (transfers, address) = (self.clone(), address.to_owned());
        let opened = spawn_blocking(move || {
            let transport = transfers.pulls.outside().transport().map_err(|error| error.to_string())?;
            Hub::new(transport, &address).map_err(|error| format!("CAIRN_HUB: {error}"))
        });
        let hub = opened.await.expect("opening does not panic")?;
        let patience = self.patience();
        match timeout(patience, hub.search(query)).await {
            Ok(Ok(models)) => Ok((hub, models)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} did not answer within {patience:?}", hub.host())),
        }
    }

    /// Asks what can be pulled of models. Of those that nobody tells of in time it stays unknown, and that is said.
    async fn fill(&self, hub: &Hub, models: &mut [DiscoveredModel]) -> Option<String> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut asking = JoinSet::new();
        for (index, model) in models.iter().enumerate() {
            let (hub, turns, title) = (hub.clone(), Arc::clone(&turns), model.title.clone());
            asking.spawn(async move {
                let _turn = turns.acquire().await;
                (index, hub.variants(&title).await)
            });
        }
        let patience = self.patience();
        let deadline = Instant::now() + patience;
        let (mut unknown, mut reason) = (models.len(), None);
        while let Some(asked) = timeout_at(deadline, asking.join_next()).await.transpose() {
            match asked {
                Ok(answered) => match answered.expect("asking does not panic") {
                    (index, Ok(variants)) => {
                        models[index].variants = variants;
                        unknown -= 1;
                    }
                    (_, Err(error)) => reason = reason.or_else(|| Some(error.to_string())),
                },
                Err(_) => {
                    reason = Some(format!("{} did not answer within {patience:?}", hub.host()));
                    break;
                }
            }
        }
        reason.map(|reason| format!("the sizes of {unknown} of {} models are unknown: {reason}", models.len()))
    }

    fn patience(&self) -> Duration {
        self.settings.downloads.stall.map_or(PATIENCE, |stall| stall.min(PATIENCE))
    }

    /// Names of the models that are here. A library that cannot be read is said elsewhere.
    fn here(&self) -> HashSet<ModelRef> {
        let listed = self.library.list().unwrap_or_default();
        listed.iter().filter_map(|model| model.name.parse().ok()).collect()
    }
}

/// How many models of our own are told, beside those of the index. Neither fills the list while the other has something.
fn own_share(own: usize, far: usize, limit: usize) -> usize {
    own.min(limit - far.min(limit / 2))
}

fn found(model: DiscoveredModel, here: &HashSet<ModelRef>) -> Hit {
    let is_here = |name: &str| name.parse().is_ok_and(|name: ModelRef| here.contains(&name));
    let names = std::iter::once(model.name()).chain(model.variants.iter().map(|variant| variant.name.clone()));
    let here = names.filter(|name| is_here(name)).collect();
    let name = match model.index {
        ModelIndex::Library => model.name(),
        ModelIndex::HuggingFace => suitable(&model.variants).map_or_else(|| model.name(), |v| v.name.clone()),
    };
    Hit { model, name, here }
}

/// The variant that suits most machines.
fn suitable(variants: &[Variant]) -> Option<&Variant> {
    let known = SUITABLE.iter().find_map(|wanted| variants.iter().find(|v| v.quantization.as_deref() == Some(*wanted)));
    known.or_else(|| variants.first())
}

fn one_line(text: &str) -> String {
    let printable = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    printable.take(MAX_TROUBLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_index_fills_the_list_alone() {
        let check = |own: usize, far: usize, limit: usize, expected: (usize, usize)| {
            let own_shown = own_share(own, far, limit);
            assert_eq!((own_shown, far.min(limit - own_shown)), expected, "{own} and {far} in {limit}");
        };
        check(23, 50, 10, (5, 5));
        check(3, 50, 10, (3, 7));
        check(23, 2, 10, (8, 2));
        check(23, 0, 10, (10, 0));
        check(0, 50, 10, (0, 10));
        check(1, 1, 1, (1, 0));
        check(0, 1, 1, (0, 1));
    }

    #[test]
    fn a_variant_that_suits() {
        let check = |quantizations: &[&str], expected: Option<&str>| {
            let variant = |quantization: &&str| Variant {
                name: format!("hf.co/me/M:{quantization}"),
                parameters: None,
                quantization: Some((*quantization).to_owned()),
                architecture: None,
                size_bytes: 1,
                is_approximate: false,
            };
            let variants: Vec<Variant> = quantizations.iter().map(variant).collect();
            let chosen = suitable(&variants).and_then(|variant| variant.quantization.as_deref());
            assert_eq!(chosen, expected, "{quantizations:?}");
        };
        check(&["Q2_K", "Q4_0", "Q4_K_M", "Q8_0"], Some("Q4_K_M"));
        check(&["IQ2_XXS", "Q8_0", "F16"], Some("Q8_0"));
        check(&["IQ2_XXS", "F16"], Some("IQ2_XXS"));
        check(&[], None);
    }

    #[test]
    fn trouble_is_one_line() {
        assert_eq!(one_line("a\nb\x1b[2J"), "a b [2J", "no line breaks and no commands");
        assert_eq!(one_line(&"é".repeat(1_000)).chars().count(), MAX_TROUBLE_CHARS, "and not a long one");
    }
}
