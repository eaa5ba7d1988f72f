//! `cargo run --release -p fuzz -- --inputs 10000000`: feeds every parser, in turn, with inputs made from the corpus.
//!
//! The work is done block by block in a child process, each block with a seed of its own: a block whose process dies
//! is run again with every input written down before it is fed.

use anyhow::{Context, Result, bail};
use clap::Parser;
use fuzz::run::{Pool, feed, silence_panics};
use fuzz::targets::TARGETS;
use fuzz::{FuzzTarget, corpus, mutate};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Inputs of a block.
const BLOCK: u64 = 20_000;
/// One of so many inputs is made large.
const LARGE: u32 = 4_000;
/// How long a block may take before it counts as hanging.
const BLOCK_TIME: Duration = Duration::from_mins(10);
/// Exit code of a block that found something.
const FOUND: i32 = 3;
/// Bytes of an input that is worth keeping.
const KEPT_BYTES_MAX: usize = 400;

#[derive(Clone, Debug, Parser)]
#[command(about = "Feeds every parser with what nobody should send.")]
struct Args {
    /// Inputs in all.
    #[arg(long, default_value_t = 200_000)]
    inputs: u64,
    /// Seed of everything; printed, and another one each time when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
    /// Adds inputs with new outcomes to the corpus, at most so many a target.
    #[arg(long, default_value_t = 0)]
    keep: usize,
    /// Runs one block in this process.
    #[arg(long, hide = true)]
    block: Option<u64>,
    /// Writes each input to this file before it is fed.
    #[arg(long, hide = true)]
    careful: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    match args.block {
        Some(block) => one_block(&args, block),
        None => all_blocks(&args),
    }
}

#[expect(clippy::print_stdout, reason = "the program's result")]
fn say(text: &str) {
    println!("{text}");
}

fn chosen(args: &Args) -> Vec<&'static FuzzTarget> {
    TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|name| name == target.name)).collect()
}

fn all_blocks(args: &Args) -> Result<ExitCode> {
    let seed = args.seed.unwrap_or_else(|| rand::random_range(0..1_000_000_000));
    let targets = chosen(args);
    if targets.is_empty() {
        bail!("there is no such target");
    }
    say(&format!("seed {seed}, {} targets", targets.len()));
    let start = Instant::now();
    let (mut fed, mut found, mut round) = (0_u64, 0_u64, 0_u64);
    while fed < args.inputs {
        for target in &targets {
            let (block, careful) = (round, None);
            if !run_block(args, target, seed, block, careful)? {
                found += 1;
            }
            fed += BLOCK;
        }
        round += 1;
        let seconds = start.elapsed().as_secs();
        say(&format!("{fed} inputs in {seconds} s, {found} blocks found something"));
    }
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a block in a process of its own; whether nothing was found.
fn run_block(
    args: &Args,
    target: &FuzzTarget,
    seed: u64,
    block: u64,
    careful: Option<&Path>,
) -> Result<bool> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--seed", &seed.to_string(), "--target", target.name, "--block", &block.to_string()]);
    command.args(["--keep", &args.keep.to_string()]);
    if let Some(file) = careful {
        command.arg("--careful").arg(file);
    }
    let mut child = command.spawn().context("start a block")?;
    let end = Instant::now() + BLOCK_TIME;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if status.is_some_and(|status| status.success()) {
        return Ok(true);
    }
    if status.is_some_and(|status| status.code() == Some(FOUND)) {
        return Ok(false);
    }
    let how = status.map_or_else(|| "hangs".to_owned(), |status| status.to_string());
    if let Some(file) = careful {
        let path = corpus::save(target, "found", &std::fs::read(file)?)?;
        say(&format!("{}: {how}: {}", target.name, path.display()));
        return Ok(false);
    }
    let file = std::env::temp_dir().join(format!("fuzz-{}", std::process::id()));
    if run_block(args, target, seed, block, Some(&file))? {
        say(&format!("{}: {how} in block {block} of seed {seed}, but not again", target.name));
    }
    if file.exists() {
        std::fs::remove_file(file)?;
    }
    Ok(false)
}

fn one_block(args: &Args, block: u64) -> Result<ExitCode> {
    silence_panics();
    let target = *chosen(args).first().context("no target")?;
    let seed = args.seed.context("no seed")?;
    let mut random = StdRng::seed_from_u64(seed ^ (block << 32) ^ fuzz::shape(target.name));
    let mut pool = Pool::default();
    let mut found = 0;
    let kept = corpus::load(target)?;
    let mut room = args.keep.saturating_sub(kept.len());
    let mut try_one = |input: &[u8], pool: &mut Pool, room: &mut usize| -> Result<()> {
        if let Some(file) = &args.careful {
            std::fs::write(file, input)?;
        }
        match feed(target, input) {
            Ok(outcome) => {
                if pool.offer(input, outcome) && *room > 0 && input.len() <= KEPT_BYTES_MAX {
                    corpus::save(target, "kept", input)?;
                    *room -= 1;
                }
            }
            Err(broken) => {
                let path = corpus::save(target, "found", input)?;
                say(&format!("{}: {broken}: {}", target.name, path.display()));
                found += 1;
            }
        }
        Ok(())
    };
    // What is in the corpus is no news.
    let mut nothing = 0;
    for input in kept.iter().map(Vec::as_slice).chain(target.words.iter().map(|word| word.as_bytes())) {
        try_one(input, &mut pool, &mut nothing)?;
    }
    for _ in 0..BLOCK {
        let (base, other) =
            (pool.get(random.random_range(0..65_536)), pool.get(random.random_range(0..65_536)));
        let input = if target.large && random.random_range(0..LARGE) == 0 {
            mutate::enlarged(base, &mut random)
        } else {
            mutate::mutated(base, other, target.words, &mut random)
        };
        try_one(&input, &mut pool, &mut room)?;
    }
    // The exit code tells the parent.
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(u8::try_from(FOUND)?) })
}
