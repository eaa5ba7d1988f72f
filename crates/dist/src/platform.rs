use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// A platform that programs are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Platform {
    #[value(name = "linux/amd64")]
    Amd64,
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The name in images.
    pub(crate) const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The name for people.
    pub(crate) fn name(self) -> String {
        format!("linux/{}", self.architecture())
    }

    /// Rust's target triple.
    pub(crate) const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Whether it is this machine's platform.
    pub(crate) fn is_here(self) -> bool {
        let here = std::env::consts::ARCH;
        self.triple().split('-').next() == Some(here) && std::env::consts::OS == "linux"
    }

    /// The compiler that also links.
    pub(crate) fn cc(self) -> String {
        if self.is_here() { "cc".to_owned() } else { format!("{}-gcc", self.gnu()) }
    }

    pub(crate) fn objcopy(self) -> String {
        if self.is_here() { "objcopy".to_owned() } else { format!("{}-objcopy", self.gnu()) }
    }

    /// GNU's target name.
    const fn gnu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The path of a file of the compiler.
    pub(crate) fn file_of_cc(self, name: &str) -> Result<String> {
        let output = Command::new(self.cc()).arg(format!("-print-file-name={name}")).output();
        let output = output.with_context(|| format!("start {}", self.cc()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Fails if a tool for this platform is missing, and says how to get it.
    pub(crate) fn check(self) -> Result<()> {
        let (platform, triple, cc) = (self.name(), self.triple(), self.cc());
        let rustc = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output()?;
        let std = String::from_utf8_lossy(&rustc.stdout).trim().to_owned();
        let install = format!("`rustup target add {triple}`");
        ensure!(
            rustc.status.success() && Path::new(&std).exists(),
            "{platform} needs Rust's library for it: {install}"
        );
        let package =
            if self.is_here() { "gcc".to_owned() } else { format!("gcc-{}", self.gnu().replace('_', "-")) };
        let has = |program: &str| {
            Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
        };
        ensure!(
            has(&cc),
            "{platform} needs {cc}: install the package {package}, or what your system calls it"
        );
        ensure!(has(&self.objcopy()), "{platform} needs {}: install binutils", self.objcopy());
        // Where the file is not, the compiler gives the bare name.
        let libc = self.file_of_cc("libc.a")?;
        ensure!(
            Path::new(&libc).is_absolute(),
            "{platform} needs the static C library, libc.a: install the development files of glibc for it (libc6-dev)"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_needs_no_cross_compiler() {
        let here: Vec<Platform> = Platform::ALL.into_iter().filter(|platform| platform.is_here()).collect();
        assert!(here.len() <= 1);
        for platform in here {
            assert_eq!(platform.cc(), "cc");
        }
        assert_eq!(Platform::Arm64.name(), "linux/arm64");
    }
}
