//! What this machine has, and what of it Cairn uses, for people.

use std::path::PathBuf;

use cairn_disk::{Disk, RealDisk};
use cairn_hardware::{Cpu, Features, Gpu, Machine, Memory, Process};
use cairn_tier::TierKind;

use super::handle::SystemInfo;

/// The machine now.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// The processor.
    pub cpu: Cpu,
    /// Main memory.
    pub memory: Memory,
    /// What this process has of it, where the system says.
    pub process: Option<Process>,
    /// Bytes of kept prefixes in RAM.
    pub kept_bytes: u64,
    /// Variants of the compute kernels, the best first.
    pub kernels: Vec<Kernel>,
    /// Graphics processors. This version computes on none.
    pub gpus: Vec<Gpu>,
    /// Disks, by what is on them.
    pub disks: Vec<Stored>,
}

/// A variant of the compute kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: &'static str,
    /// Whether this processor can run it.
    pub usable: bool,
    /// Whether it is the one that computes.
    pub in_use: bool,
    /// What the processor lacks for it.
    pub lacks: Vec<&'static str>,
}

/// A folder and its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What is there.
    pub holds: DiskUse,
    /// The folder.
    pub path: PathBuf,
    /// Bytes of the disk, where the system says.
    pub total_bytes: Option<u64>,
    /// Bytes that this user may still write.
    pub free_bytes: Option<u64>,
}

/// What is on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// The library that is written.
    Models,
    /// A library that is only read.
    Linked,
    /// Kept prefixes.
    Cache,
    /// What else is the user's.
    Data,
}

impl SystemInfo {
    /// Checks that a kernel variant of this name exists and runs on this machine.
    pub(crate) fn check_kernel(&self, name: &str) -> Result<(), String> {
        match self.kernels().iter().any(|kernel| kernel.usable && kernel.name == name) {
            true => Ok(()),
            false => Err("this machine has no such variant; /app/hardware lists them".to_owned()),
        }
    }

    /// The machine now: memory and disks are asked anew. Blocks for as long as disks take to answer.
    #[must_use]
    pub fn hardware(&self) -> Hardware {
        let cache = self.cache.status();
        let kept = cache.iter().flat_map(|cache| &cache.tiers.tiers).find(|status| status.kind == TierKind::Ram);
        let library = std::iter::once((DiskUse::Models, self.settings.library.clone()));
        let found = self.settings.ollama_library.iter().filter(|library| library.exists());
        let linked = self.settings.models.linked.iter().chain(found).map(|root| (DiskUse::Linked, root.clone()));
        let folder = cache.as_ref().and_then(|cache| cache.folder.clone()).map(|folder| (DiskUse::Cache, folder));
        let data = (DiskUse::Data, self.settings.places().data.clone());
        let folders = library.chain(linked).chain(folder).chain([data]);
        Hardware {
            // Affinity and the kernels' features are those that the engine started with.
            cpu: self.machine.cpu.clone(),
            memory: Machine::probe().memory,
            process: Process::probe(),
            kept_bytes: kept.map_or(0, |status| status.used_bytes),
            kernels: self.kernels(),
            gpus: cairn_hardware::gpus(),
            disks: folders.map(|(holds, path)| stored(holds, path)).collect(),
        }
    }

    /// The variants of the compute kernels, the best first.
    #[must_use]
    pub fn kernels(&self) -> Vec<Kernel> {
        let features = &self.machine.cpu.features;
        let in_use = self.engine.variant();
        cairn_kernels::all()
            .iter()
            .map(|variant| Kernel {
                name: variant.name,
                usable: (variant.usable)(features),
                in_use: variant.name == in_use,
                lacks: features
                    .named()
                    .into_iter()
                    .filter(|(name, has)| !has && !(variant.usable)(&Features::all_but(name)))
                    .map(|(name, _)| name)
                    .collect(),
            })
            .collect()
    }
}

fn stored(holds: DiskUse, path: PathBuf) -> Stored {
    // A folder that is not made yet will be on the disk of the nearest one that is.
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(&path);
    let total_bytes = cairn_disk::total_bytes(there).ok();
    let free_bytes = RealDisk.free_bytes(there).ok();
    Stored { holds, total_bytes, free_bytes, path }
}
