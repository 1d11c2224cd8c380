//! Search for models to pull, in the built-in catalogue and in the index of Hugging Face (or `CAIRN_HUB`). The index is
//! contacted only for a search.
//!
//! If the index is unreachable, slow or broken, the result has the catalogue's hits and a warning. Texts of the index
//! are untrusted; [`Hub`] limits their size.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_registry::{DiscoveredModel, Hub, ModelIndex, Variant, catalogue};
use cairn_store::ModelRef;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout, timeout_at};

use crate::transfers::Transfers;
use crate::transfers::error::Error;

/// Number of models if the request does not set it.
const DEFAULT_LIMIT: usize = 10;
/// Maximum number of models.
const MAX_LIMIT: usize = 50;
/// Maximum length of a search text in characters.
const MAX_QUERY_CHARS: usize = 200;
/// Timeout of the index, applied twice: to the search, and to the lookup of variants.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of parallel requests to the index.
const MAX_PARALLEL: usize = 8;
/// Maximum length of a warning in characters.
const MAX_TROUBLE_CHARS: usize = 400;
/// Quantisations that suit most machines, in order of preference.
const SUITABLE: [&str; 6] = ["Q4_K_M", "MXFP4", "Q4_K_S", "Q4_0", "IQ4_XS", "Q8_0"];

/// Parameters of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discover {
    /// Words, all of which must match. An empty query matches the whole catalogue.
    pub query: String,
    /// Maximum number of models.
    pub limit: Option<usize>,
    /// Whether only the built-in catalogue is searched, without network access.
    pub own: bool,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Hits: those of the catalogue, then those of the index in descending order of downloads.
    pub found: Vec<Hit>,
    /// A warning about missing results, in one line.
    pub problem: Option<String>,
}

/// A model that matches a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The model.
    pub model: DiscoveredModel,
    /// The name to pull: that of a variant that suits most machines, if one is listed.
    pub name: String,
    /// Names of the model or its variants that are in a library.
    pub here: Vec<String>,
}

impl Transfers {
    /// Searches for models to pull.
    ///
    /// # Errors
    /// If the search text is too long. An unreachable index is a warning, not an error.
    pub async fn discover(&self, discover: Discover) -> Result<Discovery, Error> {
        let query = discover.query.trim();
        if query.chars().count() > MAX_QUERY_CHARS {
            return Err(Error::LongQuery(MAX_QUERY_CHARS));
        }
        let limit = discover.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let mut models = catalogue(query);
        let (mut indexed, problem) = match &self.settings.downloads.hub {
            _ if discover.own => (Vec::new(), None),
            None => (Vec::new(), None),
            Some(address) => match self.search(address, query).await {
                Ok((hub, mut indexed)) => {
                    indexed.truncate(limit - catalogue_share(models.len(), indexed.len(), limit));
                    let problem = self.fill(&hub, &mut indexed).await;
                    (indexed, problem)
                }
                Err(reason) => {
                    (Vec::new(), Some(format!("only the catalogue that comes with Cairn was searched: {reason}")))
                }
            },
        };
        models.truncate(catalogue_share(models.len(), indexed.len(), limit));
        models.append(&mut indexed);
        let transfers = self.clone();
        let here = spawn_blocking(move || transfers.local_names()).await.expect("listing does not panic");
        let found = models.into_iter().map(|model| found(model, &here)).collect();
        Ok(Discovery { found, problem: problem.map(|line| one_line(&line)) })
    }

    /// Searches the index. Returns the index and its models, or the cause of the failure.
    async fn search(&self, address: &str, query: &str) -> Result<(Hub, Vec<DiscoveredModel>), String> {
        let (transfers, address) = (self.clone(), address.to_owned());
        let opened = spawn_blocking(move || {
            let transport = transfers.pulls.registry_access().transport().map_err(|error| error.to_string())?;
            Hub::new(transport, &address).map_err(|error| format!("CAIRN_HUB: {error}"))
        });
        let hub = opened.await.expect("opening does not panic")?;
        let search_timeout = self.search_timeout();
        match timeout(search_timeout, hub.search(query)).await {
            Ok(Ok(models)) => Ok((hub, models)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} did not answer within {search_timeout:?}", hub.host())),
        }
    }

    /// Looks up the variants of models until the timeout. Returns a warning if some are missing.
    async fn fill(&self, hub: &Hub, models: &mut [DiscoveredModel]) -> Option<String> {
        let slots = Arc::new(Semaphore::new(MAX_PARALLEL));
        let mut lookups = JoinSet::new();
        for (index, model) in models.iter().enumerate() {
            let (hub, slots, title) = (hub.clone(), Arc::clone(&slots), model.title.clone());
            lookups.spawn(async move {
                let _slot = slots.acquire().await;
                (index, hub.variants(&title).await)
            });
        }
        let search_timeout = self.search_timeout();
        let deadline = Instant::now() + search_timeout;
        let (mut unknown, mut reason) = (models.len(), None);
        while let Some(lookup) = timeout_at(deadline, lookups.join_next()).await.transpose() {
            match lookup {
                Ok(result) => match result.expect("a lookup does not panic") {
                    (index, Ok(variants)) => {
                        models[index].variants = variants;
                        unknown -= 1;
                    }
                    (_, Err(error)) => reason = reason.or_else(|| Some(error.to_string())),
                },
                Err(_) => {
                    reason = Some(format!("{} did not answer within {search_timeout:?}", hub.host()));
                    break;
                }
            }
        }
        reason.map(|reason| format!("the sizes of {unknown} of {} models are unknown: {reason}", models.len()))
    }

    fn search_timeout(&self) -> Duration {
        self.settings.downloads.stall.map_or(SEARCH_TIMEOUT, |stall| stall.min(SEARCH_TIMEOUT))
    }

    /// Names of the models in the libraries. Unreadable libraries are reported elsewhere.
    fn local_names(&self) -> HashSet<ModelRef> {
        let listed = self.library.list().unwrap_or_default();
        listed.iter().filter_map(|model| model.name.parse().ok()).collect()
    }
}

/// Number of hits from the catalogue, so that neither source fills the list while the other has hits.
fn catalogue_share(own: usize, indexed: usize, limit: usize) -> usize {
    own.min(limit - indexed.min(limit / 2))
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

/// Returns the variant that suits most machines.
fn suitable(variants: &[Variant]) -> Option<&Variant> {
    let suitable =
        SUITABLE.iter().find_map(|wanted| variants.iter().find(|v| v.quantization.as_deref() == Some(*wanted)));
    suitable.or_else(|| variants.first())
}

fn one_line(text: &str) -> String {
    let printable = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    printable.take(MAX_TROUBLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_and_index_share_the_list() {
        let check = |own: usize, indexed: usize, limit: usize, expected: (usize, usize)| {
            let own_shown = catalogue_share(own, indexed, limit);
            assert_eq!((own_shown, indexed.min(limit - own_shown)), expected, "{own} and {indexed} in {limit}");
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
    fn suitable_variant_is_first_preferred_quantization() {
        let check = |quantizations: &[&str], expected: Option<&str>| {
            let variant = |quantization: &&str| Variant {
                name: format!("hf.co/me/M:{quantization}"),
                parameters: None,
                active_parameters: None,
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
    fn problem_is_one_short_line() {
        assert_eq!(one_line("a\nb\x1b[2J"), "a b [2J", "no line breaks or escape sequences");
        assert_eq!(one_line(&"é".repeat(1_000)).chars().count(), MAX_TROUBLE_CHARS, "truncated");
    }
}
