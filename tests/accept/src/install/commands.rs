//! Checks the commands in the documentation: their directories, values, subcommands and flags exist.

use instance::layout;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Pages, and folders of them.
const PAGES: [&str; 15] = [
    "README.md",
    "deploy/README.md",
    "docs/api.md",
    "docs/coming-from-tkestack.md",
    "docs/command-line.md",
    "docs/console.md",
    "docs/identity.md",
    "docs/install.md",
    "docs/operations.md",
    "docs/operations",
    "docs/runbooks",
    "docs/scaling.md",
    "docs/security.md",
    "docs/sizing.md",
    "docs/tasks",
];
const FLAGS: &str = "docs/reference/flags.md";
const VALUES: &str = "deploy/chart/values.schema.json";
const XTASK: &str = "crates/xtask/src";
/// Programs that are called by their names, in an image or beside it.
const PROGRAMS: [&str; 2] = ["business-api", "business-controller"];
/// With what code in the text begins that is a command.
const BEGINNINGS: [&str; 7] =
    ["--set ", "business-api ", "business-controller ", "cargo ", "helm ", "kubectl ", "podman "];
const ALWAYS: [&str; 3] = ["-h", "--help", "--version"];
const ALIASES: [(&str, &str); 2] = [("ns", "namespace"), ("prj", "project")];
/// Characters that mark a placeholder.
const OPEN: [char; 2] = ['$', '…'];

/// What the commands in the documents may use.
struct KnownCommands {
    /// The flags of each command of ours, by its words.
    flags: BTreeMap<String, BTreeSet<String>>,
    /// The schema of the chart's values.
    values: Value,
    /// The sources of `cargo xtask`.
    xtask: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(layout::workspace().join(path)).unwrap()
}

fn is_there(path: &str) -> bool {
    layout::workspace().join(path).exists()
}

/// The files of a folder with an ending.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(layout::workspace().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

fn pages() -> Vec<PathBuf> {
    let of = |page: &&str| {
        let path = layout::workspace().join(page);
        if path.is_file() { vec![path] } else { files(page, "md") }
    };
    PAGES.iter().flat_map(of).collect()
}

/// What is in blocks of `sh`, without their here-documents, and each piece of code in the text.
fn code(page: &str) -> (String, Vec<String>) {
    let (mut script, mut prose) = (String::new(), String::new());
    let (mut block, mut in_document) = (None, false);
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_none() { Some(language.trim()) } else { None };
            continue;
        }
        match block {
            None => prose.extend([line, " "]),
            Some("sh") if in_document => in_document = line.trim() != "EOF",
            Some("sh") => {
                in_document = line.contains("<<'EOF'");
                script.extend([line, "\n"]);
            }
            Some(_) => {}
        }
    }
    let pieces = prose.split('`').skip(1).step_by(2);
    // As tables write it.
    (script, pieces.map(|piece| piece.replace("\\|", "|")).collect())
}

/// The words of each command, as a shell takes a script apart, as far as these pages need it.
fn commands(script: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut quote) = (None::<String>, None);
    let mut letters = script.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            // The command goes on in the next line.
            (None, '\\') => {
                let _end = letters.next_if_eq(&'\n');
            }
            (None, '#') if word.is_none() => while letters.next_if(|next| *next != '\n').is_some() {},
            (None, '|' | ';' | '&' | '(' | ')' | '\n') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (_, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    all.push(words);
    all.retain(|words| !words.is_empty());
    all
}

fn flags() -> BTreeMap<String, BTreeSet<String>> {
    let (text, mut name) = (read(FLAGS), String::new());
    let mut flags: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ").or_else(|| line.strip_prefix("## ")) {
            heading.clone_into(&mut name);
            flags.insert(name.clone(), BTreeSet::new());
        } else if let Some(cell) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
            let named = cell.split([' ', ',']).filter(|word| word.starts_with('-')).map(str::to_owned);
            flags.entry(name.clone()).or_default().extend(named);
        }
    }
    flags
}

impl KnownCommands {
    fn new() -> Self {
        let sources = files(XTASK, "rs").into_iter().map(|path| std::fs::read_to_string(path).unwrap());
        Self {
            flags: flags(),
            values: serde_json::from_str(&read(VALUES)).unwrap(),
            xtask: sources.collect(),
        }
    }

    /// Names in a command that do not exist.
    fn wrong(&self, words: &[String]) -> Vec<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut wrong = Vec::new();
        for word in words.iter().filter(|word| word.starts_with("deploy/") && !word.contains(OPEN)) {
            if !is_there(word) {
                wrong.push(format!("there is no {word}"));
            }
        }
        for pair in words.windows(2) {
            match pair {
                ["-k", directory]
                    if !directory.contains(OPEN) && !is_there(&format!("{directory}/kustomization.yaml")) =>
                {
                    wrong.push(format!("nothing is rendered from {directory}"));
                }
                ["--set", values] if ["helm", "--set"].contains(&words[0]) => {
                    let names = values.split(',').filter_map(|value| value.split('=').next());
                    let unknown = names.filter(|name| !self.has_value(name));
                    wrong.extend(unknown.map(|name| format!("the chart has no value {name}")));
                }
                _ => {}
            }
        }
        match words.as_slice() {
            ["kubectl", "business", rest @ ..] => wrong.extend(self.wrong_call("kubectl business", rest)),
            ["cargo", "xtask", command, ..] => {
                if !self.xtask.contains(&format!("\"{command}\"")) {
                    wrong.push(format!("there is no cargo xtask {command}"));
                }
            }
            _ => {
                let called = words.iter().enumerate().find_map(|(at, word)| Some((at, program(at, word)?)));
                if let Some((at, program)) = called {
                    wrong.extend(self.wrong_call(program, &words[at + 1..]));
                }
            }
        }
        wrong
    }

    /// Accepts any name below the end of the schema.
    fn has_value(&self, name: &str) -> bool {
        let mut schema = &self.values;
        for part in name.split('.') {
            let Some(known) = schema.get("properties") else { return true };
            let Some(value) = known.get(part.split('[').next().unwrap_or(part)) else { return false };
            schema = value;
        }
        true
    }

    /// The flags of those above hold below.
    fn wrong_call(&self, program: &str, args: &[&str]) -> Vec<String> {
        let (mut name, mut at) = (program.to_owned(), 0);
        let mut flags: BTreeSet<&str> = self.flags[program].iter().map(String::as_str).collect();
        flags.extend(ALWAYS);
        while let Some(word) = args.get(at) {
            let alias = ALIASES.iter().find(|(alias, _)| alias == word);
            let longer = format!("{name} {}", alias.map_or(*word, |(_, word)| *word));
            let Some(more) = self.flags.get(&longer) else { break };
            flags.extend(more.iter().map(String::as_str));
            (name, at) = (longer, at + 1);
        }
        let rest = &args[at..];
        let below = format!("{name} ");
        let mut wrong = Vec::new();
        let has_commands = self.flags.keys().any(|other| other.starts_with(&below));
        let command = rest.first().filter(|word| has_commands && !word.starts_with('-'));
        wrong.extend(command.map(|word| format!("there is no {name} {word}")));
        let given = rest.iter().filter(|word| word.len() > 1 && word.starts_with('-') && **word != "--");
        for flag in given.filter_map(|word| word.split('=').next()) {
            if !flags.contains(flag) {
                wrong.push(format!("{name} has no flag {flag}"));
            }
        }
        wrong
    }
}

/// The program that a word calls: by its name, by its path in an image, or as an image.
fn program(at: usize, word: &str) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| {
        (at == 0 && word == *program)
            || word.strip_prefix('/') == Some(*program)
            || word.contains(&format!("/{program}:"))
    })
}

#[test]
fn what_commands_of_the_pages_name_is_there() {
    let known = KnownCommands::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        let (script, pieces) = code(&std::fs::read_to_string(&page).unwrap());
        let in_text = pieces.iter().filter(|piece| BEGINNINGS.iter().any(|with| piece.starts_with(*with)));
        for command in commands(&script).into_iter().chain(in_text.flat_map(|piece| commands(piece))) {
            count += 1;
            let told = known.wrong(&command).into_iter();
            wrong.extend(told.map(|why| format!("{}: {why}: {}", page.display(), command.join(" "))));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count > 200, "{count} commands were read");
}

#[test]
fn what_nobody_has_is_found() {
    let known = KnownCommands::new();
    for (script, told) in [
        ("kubectl apply -k deploy/nowhere", "there is no deploy/nowhere"),
        ("kubectl apply -k deploy/chart", "nothing is rendered from deploy/chart"),
        ("helm install x deploy/chart --set image.tag=1,api.replica=3", "the chart has no value api.replica"),
        ("kubectl business create projects shop", "there is no kubectl business create projects"),
        ("kubectl get mc | x; kubectl business tree --ful 95", "kubectl business tree has no flag --ful"),
        ("kubectl exec x -- /business-api audits", "there is no business-api audits"),
        ("podman run x/business-api:1 audit --repairs", "business-api audit has no flag --repairs"),
        ("business-controller adopt \\\n  --dry", "business-controller adopt has no flag --dry"),
        ("cargo xtask fly", "there is no cargo xtask fly"),
    ] {
        let wrong: Vec<String> = commands(script).iter().flat_map(|command| known.wrong(command)).collect();
        assert!(wrong.contains(&told.to_owned()), "{script}: {wrong:?}");
    }
    for sound in [
        "kubectl business explain ns front -n shop --set requests.cpu=2 # would it fit? --no",
        "kubectl --context x apply -k \"deploy/$part\" || echo 'kubectl business fly'",
        "helm upgrade x deploy/chart --set api.extraEnv[0].name=X,commonLabels.team=y",
    ] {
        let wrong: Vec<String> = commands(sound).iter().flat_map(|command| known.wrong(command)).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{sound}");
    }
}

#[test]
fn only_what_is_typed_is_read() {
    let page =
        "`kubectl a` and\n```sh\nb <<'EOF'\nc\nEOF\nd \\\n  -e    # f\n```\n```text\ng\n```\n`h \\| i`\n";
    let (script, pieces) = code(page);
    assert_eq!(pieces, ["kubectl a", "h | i"]);
    assert_eq!(commands(&script), [vec!["b", "<<EOF"], vec!["d", "-e"]]);
}
