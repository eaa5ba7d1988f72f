use anyhow::{Context, Result, bail};
use std::process::{Child, Command, Output};

/// A process that runs beside a step. It is killed when this is dropped, so that none outlives a step that fails.
#[derive(Debug)]
pub(super) struct Background(Option<Child>);

impl Background {
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        Ok(Self(Some(command.spawn().with_context(|| format!("start {program}"))?)))
    }

    pub(super) fn child(&mut self) -> Result<&mut Child> {
        self.0.as_mut().context("the process has ended")
    }

    /// Its output if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<Output>> {
        if self.child()?.try_wait()?.is_none() {
            return Ok(None);
        }
        self.output().map(Some)
    }

    /// Waits for its end.
    pub(super) fn output(&mut self) -> Result<Output> {
        let Some(child) = self.0.take() else { bail!("the process has ended") };
        Ok(child.wait_with_output()?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
