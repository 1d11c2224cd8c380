//! Restore bandwidth compared with raw disk and memory bandwidth: `cargo xtask bench kv-bandwidth [--shape 0.6b]`.
//!
//! The chunks of one prompt are written. Then two variants alternate: the files are read with 16 concurrent requests of
//! 1 MiB past the page cache, as `fio --rw=read --bs=1m --iodepth=16 --direct=1` does, and the prompt is restored from
//! them into the pages of a backend. The RAM tier is compared with one thread that copies the same number of bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cairn_disk::{AlignedBuffer, BlockReader, Disk, RealDisk};
use cairn_tier::{Packing, SsdOptions};

use super::bars::{Bar, median, report};
use super::pages::{BYTES, Pages};
use super::{Options, place};

const ROUNDS: usize = 7;
const READ_BYTES: usize = 1 << 20;
const READS_AT_ONCE: usize = 16;

pub(crate) fn run(folder: &Path, options: &Options) -> anyhow::Result<()> {
    let shape = super::shape(options.shape.as_deref().unwrap_or("0.6b"))?;
    let mut pages = Pages::new(folder, &shape)?;
    let tokens = options.tokens.unwrap_or((BYTES / pages.token_bytes()) as usize / 256 * 256) + 1;
    let prompt = shape.prompt(3, tokens);
    println!("{}: {tokens} tokens of {} KiB, {ROUNDS} rounds by turns", shape.name, pages.token_bytes() >> 10);
    let mut bars = Vec::new();
    let forms = [("raw", Packing::Raw, 0.8), ("split planes", Packing::Lossless, 0.6)];
    for (name, packing, bar) in forms {
        let options = SsdOptions { packing, ..SsdOptions::default() };
        let chunks = folder.join("kv-bandwidth");
        if chunks.exists() {
            fs::remove_dir_all(&chunks)?;
        }
        pages.write(&chunks, options, &prompt)?;
        let (mut bare, mut back) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(read_bare(&files(&chunks)?)?);
            let tiers = place::open(&chunks, 0, options, false)?;
            back.push(pages.restore(&tiers, &prompt)?);
            place::close(&tiers);
        }
        fs::remove_dir_all(&chunks)?;
        let ratio = median(&back) / median(&bare);
        // Unpacking is for slow disks.
        let applies = packing == Packing::Raw || median(&bare) <= 3e9;
        let figure = format!("{ratio:.2} ({:.2} of {:.2} GB/s)", median(&back) / 1e9, median(&bare) / 1e9);
        let bar_said = if applies { format!(">= {bar:.2} of bare reads") } else { "none above 3 GB/s".to_owned() };
        bars.push(Bar::new(format!("disk to pages, {name}"), bar_said, figure, !applies || ratio >= bar));
    }
    bars.push(from_ram(&mut pages, folder, &prompt)?);
    report(&bars)
}

/// Bytes per second of reading whole files in random order, with one blocking read per thread.
fn read_bare(files: &[PathBuf]) -> anyhow::Result<f64> {
    let mut pieces = Vec::new();
    for path in files {
        let blocks: Arc<dyn BlockReader> = RealDisk.open_blocks(path)?.into();
        let bytes = blocks.len_bytes()?;
        pieces.extend((0..bytes).step_by(READ_BYTES).map(|offset| (Arc::clone(&blocks), offset)));
    }
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let read = || -> anyhow::Result<u64> {
        let mut buffer = AlignedBuffer::new(READ_BYTES);
        let mut bytes = 0;
        while let Some((blocks, offset)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += blocks.read_at(*offset, &mut buffer)? as u64;
        }
        Ok(bytes)
    };
    let bytes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..READS_AT_ONCE).map(|_| scope.spawn(read)).collect();
        threads.into_iter().map(|thread| thread.join().expect("reading does not panic")).sum::<anyhow::Result<u64>>()
    })?;
    Ok(bytes as f64 / began.elapsed().as_secs_f64())
}

/// Returns the paths of all chunk files in a folder and its subfolders.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|end| end == "kvc") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Restores from the RAM tier compared with a copy.
fn from_ram(pages: &mut Pages, folder: &Path, prompt: &[u32]) -> anyhow::Result<Bar> {
    let chunks = folder.join("kv-bandwidth");
    let tiers = place::open(&chunks, 2 * BYTES, SsdOptions::default(), false)?;
    pages.fill(&tiers, prompt)?;
    let bytes = (prompt.len() as u64 * pages.token_bytes()) as usize;
    let (from, mut to) = (vec![1_u8; bytes], vec![2_u8; bytes]);
    let (mut bare, mut back) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        // As much at a time as there are rows of one layer in a page.
        to.chunks_mut(READ_BYTES).zip(from.chunks(READ_BYTES)).for_each(|(to, from)| to.copy_from_slice(from));
        bare.push(std::hint::black_box(&to).len() as f64 / began.elapsed().as_secs_f64());
        back.push(pages.restore(&tiers, prompt)?);
    }
    place::close(&tiers);
    fs::remove_dir_all(&chunks)?;
    let ratio = median(&back) / median(&bare);
    let figure = format!("{ratio:.2} ({:.2} of {:.2} GB/s)", median(&back) / 1e9, median(&bare) / 1e9);
    Ok(Bar::new("RAM to pages", ">= 0.70 of memcpy", figure, ratio >= 0.7))
}
