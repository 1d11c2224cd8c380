//! Graphics processors: `Documentation/gpu/drm-uapi.rst` for the cards, `amdgpu`'s `mem_info_vram_total`, and the files of
//! NVIDIA's driver under `/proc/driver/nvidia`.

use super::Read;
use crate::Gpu;

/// Maximum number of cards: more than any board has slots.
const MAX_CARDS: usize = 32;
/// Vendors by PCI id (<https://pcisig.com/membership/member-companies>).
const VENDORS: [(&str, &str, &str); 3] =
    [("0x10de", "nvidia", "NVIDIA"), ("0x1002", "amd", "AMD"), ("0x8086", "intel", "Intel")];

pub(super) fn gpus(read: Read<'_>) -> Vec<Gpu> {
    (0..MAX_CARDS).filter_map(|card| gpu(read, &format!("/sys/class/drm/card{card}/device"))).collect()
}

/// Reads the card whose files are in a folder. Returns `None` for a missing card or an unlisted vendor, such as a virtual display.
fn gpu(read: Read<'_>, folder: &str) -> Option<Gpu> {
    let line = |name: &str| Some(read(&format!("{folder}/{name}"))?.trim().to_owned()).filter(|text| !text.is_empty());
    let (number, device) = (line("vendor")?, line("device")?);
    let (_, vendor, vendor_name) = *VENDORS.iter().find(|(id, ..)| *id == number)?;
    let event = line("uevent").unwrap_or_default();
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let nvidia = field("PCI_SLOT_NAME").and_then(|slot| read(&format!("/proc/driver/nvidia/gpus/{slot}/information")));
    let model = nvidia.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Model:")));
    let driver = field("DRIVER").map(|driver| match nvidia_version(read).filter(|_| driver == "nvidia") {
        Some(version) => format!("{driver} {version}"),
        None => driver.to_owned(),
    });
    Some(Gpu {
        name: model.map_or_else(|| format!("{vendor_name} {device}"), |model| model.trim().to_owned()),
        vendor: vendor.to_owned(),
        driver,
        memory_bytes: line("mem_info_vram_total").and_then(|bytes| bytes.parse().ok()),
    })
}

/// Returns the first number with dots of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan ...`.
fn nvidia_version(read: Read<'_>) -> Option<String> {
    let text = read("/proc/driver/nvidia/version")?;
    let mut words = text.lines().next()?.split_whitespace();
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c == '.' || c.is_ascii_digit());
    words.find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_listed_vendors_are_found() {
        let files = [
            ("/sys/class/drm/card0/device/vendor", "0x1234\n"),
            ("/sys/class/drm/card0/device/device", "0x1111\n"),
            ("/sys/class/drm/card1/device/vendor", "0x10de\n"),
            ("/sys/class/drm/card1/device/device", "0x2786\n"),
            ("/sys/class/drm/card1/device/uevent", "DRIVER=nvidia\nPCI_SLOT_NAME=0000:01:00.0\n"),
            ("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA GeForce RTX 4070\nIRQ: 1\n"),
            ("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu\nGCC\n"),
            ("/sys/class/drm/card2/device/vendor", "0x1002\n"),
            ("/sys/class/drm/card2/device/device", "0x744c\n"),
            ("/sys/class/drm/card2/device/uevent", "DRIVER=amdgpu\n"),
            ("/sys/class/drm/card2/device/mem_info_vram_total", "25753026560\n"),
        ];
        let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        let found = gpus(&read);
        let gpu = |name: &str, vendor: &str, driver: &str, memory_bytes| Gpu {
            name: name.to_owned(),
            vendor: vendor.to_owned(),
            driver: Some(driver.to_owned()),
            memory_bytes,
        };
        let expected = [
            gpu("NVIDIA GeForce RTX 4070", "nvidia", "nvidia 570.86.15", None),
            gpu("AMD 0x744c", "amd", "amdgpu", Some(25_753_026_560)),
        ];
        assert_eq!(found, expected, "the first card is a virtual display");
    }
}
