use crate::world::{PROGRAM, World};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::io::Read as _;
use std::num::NonZeroU16;

const ROWS: NonZeroU16 = NonZeroU16::new(45).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();
/// Columns of a terminal by default.
pub(crate) const NARROW: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// The contents of a terminal after a command.
pub(crate) struct TerminalOutput {
    pub(crate) screen: String,
    /// With the escape sequences.
    pub(crate) raw: String,
    pub(crate) code: u32,
}

impl World {
    /// Runs the program on a terminal.
    pub(crate) fn on_terminal(
        &self,
        who: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> TerminalOutput {
        self.on_terminal_of(COLUMNS, who, args, environment)
    }

    /// Runs the program on a terminal with this many columns.
    pub(crate) fn on_terminal_of(
        &self,
        columns: NonZeroU16,
        who: &str,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> TerminalOutput {
        let size = PtySize { rows: ROWS.get(), cols: columns.get(), pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(PROGRAM);
        command.args(["--context", who]);
        command.args(args);
        command.env("KUBECONFIG", &self.kubeconfig);
        command.env("LC_ALL", "C.UTF-8");
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        command.env_remove("COLUMNS");
        for (name, value) in environment {
            command.env(name, value);
        }
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let mut bytes = Vec::new();
        // A terminal whose program has ended answers with an error.
        let _ended = reader.read_to_end(&mut bytes);
        let code = child.wait().unwrap().exit_code();
        let mut parser = vt100::Parser::new(ROWS, columns, 0);
        parser.process(&bytes);
        let lines: Vec<String> =
            parser.screen().rows(0, columns.get()).map(|line| line.trim_end().to_owned()).collect();
        let screen = lines.join("\n").trim_end().to_owned() + "\n";
        TerminalOutput { screen, raw: String::from_utf8_lossy(&bytes).into_owned(), code }
    }
}

/// Compares with the recorded output.
#[track_caller]
pub(crate) fn assert_recorded(name: &str, text: &str) {
    let file = format!("{}/tests/output/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(recorded == text, "{name} has changed; look at it, then record it with UPDATE_OUTPUT=1:\n{text}");
}
