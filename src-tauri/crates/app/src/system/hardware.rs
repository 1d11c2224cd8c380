//! Hardware of this machine, and its use by Cairn.

use std::path::PathBuf;

use cairn_disk::{Disk, RealDisk};
use cairn_hardware::{Cpu, Features, Gpu, Machine, Memory, Process};
use cairn_tier::TierKind;

use super::handle::SystemInfo;
use crate::settings::SettingProblem;

/// Current state of the machine.
#[derive(Debug, Clone)]
pub struct Hardware {
    /// The processor.
    pub cpu: Cpu,
    /// Main memory.
    pub memory: Memory,
    /// Memory of this process, if the system reports it.
    pub process: Option<Process>,
    /// Bytes of the RAM tier.
    pub kept_bytes: u64,
    /// Variants of the compute kernels, best first.
    pub kernels: Vec<Kernel>,
    /// Graphics processors. This version does not use them.
    pub gpus: Vec<Gpu>,
    /// Disks of Cairn's folders.
    pub disks: Vec<Stored>,
}

/// A variant of the compute kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The name.
    pub name: &'static str,
    /// Whether this processor can run it.
    pub usable: bool,
    /// Whether the engine uses it.
    pub in_use: bool,
    /// Features that the processor lacks.
    pub lacks: Vec<&'static str>,
}

/// A folder and its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Use of the folder.
    pub holds: DiskUse,
    /// The folder.
    pub path: PathBuf,
    /// Bytes of the disk, if the system reports them.
    pub total_bytes: Option<u64>,
    /// Bytes that this user may still write.
    pub free_bytes: Option<u64>,
}

/// Use of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// Cairn's own library.
    Models,
    /// A read-only library.
    Linked,
    /// The SSD tier.
    Cache,
    /// Other data of the user.
    Data,
}

impl SystemInfo {
    /// Checks that a kernel variant of this name exists and runs on this machine.
    pub(crate) fn check_kernel(&self, name: &str) -> Result<(), SettingProblem> {
        match self.kernels().iter().any(|kernel| kernel.usable && kernel.name == name) {
            true => Ok(()),
            false => Err(SettingProblem::NoKernel(name.to_owned())),
        }
    }

    /// Returns the current state of the machine. Blocks until all disks respond.
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

    /// Returns the variants of the compute kernels, best first.
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
    // A missing folder will be on the disk of its nearest existing ancestor.
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(&path);
    let total_bytes = cairn_disk::total_bytes(there).ok();
    let free_bytes = RealDisk.free_bytes(there).ok();
    Stored { holds, total_bytes, free_bytes, path }
}
