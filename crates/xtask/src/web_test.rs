//! Browser tests of the console: installs what they need, and calls the program `accept`.

use crate::build::Programs;
use crate::control_plane::ControlPlane;
use crate::tool::Tool;
use crate::{call, up, web, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use terminal::say::{self, Count};

/// A copy of the lock file that the packages were installed from.
const INSTALLED: &str = "node_modules/.installed";
const LOCK: &str = "package-lock.json";
/// The output goes to the log.
const INSTALL: &str = "exec 1>&2; npm ci --no-audit --no-fund";
const CHECK: &str = "exec 1>&2; npm run check";

/// A step of `test`; skipped without Node or Chromium.
pub(crate) fn level() -> Result<Count> {
    if let Err(missing) = web::check_node().and_then(|()| check_chromium()) {
        say::skipped(&format!("{missing:#}"));
        return Ok(Count::default());
    }
    let tests = workspace::root().join("tests/web");
    let tool = Tool::new("console's tests", "steps", "web-tests")?;
    if read(&tests.join(INSTALLED)).ok() != Some(read(&tests.join(LOCK))?) {
        let installed = say::step("the tests' packages installed", || {
            web::run(&tool, &tests, INSTALL)?;
            Ok(std::fs::copy(tests.join(LOCK), tests.join(INSTALLED))?)
        });
        if let Err(error) = installed {
            say::skipped(&format!("{error:#}: nothing looks at the console"));
            return Ok(Count::default());
        }
    }
    // What could be installed here can be installed there: without a page something is wrong with it.
    ensure!(web::on_demand()?, "the console's page cannot be built");
    say::step("the tests' types agree", || web::run(&tool, &tests, CHECK))?;
    if !has_chinese_font() {
        say::skipped(
            "no font for Chinese, so nobody can look at the pictures of those pages: `apt-get install fontconfig fonts-noto-cjk`",
        );
    }
    up::prepare(&[Programs::ACCEPT], &ControlPlane::whole())?;
    call::level("web", "accept", &["web"])
}

/// Checks the browser that CHROMIUM names, else Debian's.
fn check_chromium() -> Result<()> {
    let program =
        std::env::var_os("CHROMIUM").map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
    let missing =
        "Chromium is needed to look at the console: `apt-get install chromium`, or name it in CHROMIUM";
    ensure!(program.exists(), missing);
    Ok(())
}

/// Without a Chinese font, all such characters are empty boxes, also in screenshots.
fn has_chinese_font() -> bool {
    let listed = Command::new("fc-list").args([":lang=zh", "family"]).output();
    listed.is_ok_and(|listed| listed.status.success() && !listed.stdout.trim_ascii().is_empty())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("read {}", file.display()))
}
