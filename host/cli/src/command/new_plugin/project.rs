//! The files of a project, and how they are written: all of them, or none.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Problem;

/// What a project is made of.
pub(super) struct Project<'a> {
    pub(super) name: &'a str,
    pub(super) sdk: &'a str,
    /// The command that writes it: an absolute path, or the name to look for on `PATH`.
    pub(super) command: &'a str,
    pub(super) is_c: bool,
}

/// A file's path in the project, its text, and whether it is a program.
type File = (&'static str, &'static str, bool);

const C: &[File] = &[
    ("Makefile", include_str!("templates/c/Makefile"), false),
    ("README.md", include_str!("templates/c/README.md"), false),
    (".gitignore", include_str!("templates/c/gitignore"), false),
    (
        ".github/workflows/ci.yml",
        include_str!("templates/ci.yml"),
        false,
    ),
    ("src/plugin.c", include_str!("templates/c/plugin.c"), false),
    ("tests/unit.c", include_str!("templates/c/unit.c"), false),
];

macro_rules! example {
    ($file:literal) => {
        include_str!(concat!("../../../../../examples/plugin-rust/src/", $file))
    };
}

const RUST: &[File] = &[
    (
        "Cargo.toml",
        include_str!("templates/rust/manifest.toml"),
        false,
    ),
    ("README.md", include_str!("templates/rust/README.md"), false),
    (
        ".gitignore",
        include_str!("templates/rust/gitignore"),
        false,
    ),
    (
        ".github/workflows/ci.yml",
        include_str!("templates/ci.yml"),
        false,
    ),
    ("src/lib.rs", example!("lib.rs"), false),
    ("src/memory.rs", example!("memory.rs"), false),
    ("src/ordering.rs", example!("ordering.rs"), false),
    ("src/queue.rs", example!("queue.rs"), false),
    (
        "src/tests.rs",
        include_str!("templates/rust/tests.rs"),
        false,
    ),
    (
        "tests/conform.rs",
        include_str!("templates/rust/conform.rs"),
        false,
    ),
    (
        "scripts/sanitize",
        include_str!("templates/rust/sanitize"),
        true,
    ),
];

impl Project<'_> {
    /// The paths in the project.
    pub(super) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.files().iter().map(|(path, ..)| *path)
    }

    /// Makes the folder in `into` with all files, or leaves nothing.
    ///
    /// # Errors
    /// That there is something already, or what the system says.
    pub(super) fn write(&self, into: &Path) -> Result<PathBuf, Problem> {
        let folder = into.join(self.name);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => Problem::new(
                format!("make the folder `{}`", folder.display()),
                "there is something of this name already",
                "take another name, or remove it",
            ),
            _ => Problem::file("make the folder", &folder, &error),
        };
        DirBuilder::new().create(&folder).map_err(failed)?;
        self.files()
            .iter()
            .try_for_each(|file| self.write_file(&folder, file))
            .map_err(|error| {
                // What is there is ours: the folder was made above.
                let _left = fs::remove_dir_all(&folder);
                Problem::file("write the project", &folder, &error)
            })?;
        Ok(folder)
    }

    const fn files(&self) -> &'static [File] {
        if self.is_c { C } else { RUST }
    }

    fn write_file(&self, folder: &Path, (path, text, is_program): &File) -> io::Result<()> {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = if *is_program { 0o777 } else { 0o666 };
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(self.filled(text).as_bytes())
    }

    /// A template with the names and paths of this project.
    fn filled(&self, text: &str) -> String {
        let (built, steps, sanitize) = if self.is_c {
            (
                "build",
                include_str!("templates/c/steps.yml"),
                "make sanitize",
            )
        } else {
            let steps = include_str!("templates/rust/steps.yml");
            ("target/release", steps, "scripts/sanitize")
        };
        let command = if self.is_c {
            in_makefile(self.command)
        } else {
            format!("{:?}", self.command)
        };
        let file = format!("libcrossdock_plugin_{}.so", self.name);
        replaced(
            text,
            &[
                ("__steps__\n", steps),
                ("__sanitize__", sanitize),
                ("__plugin__", &format!("{built}/{file}")),
                ("__name__", self.name),
                ("__folder__", self.name),
                ("__sdk__", &in_toml(self.sdk)),
                ("__command__", &command),
                (
                    "__include__",
                    &in_makefile(&format!("{}/include", self.sdk)),
                ),
                // Of the example, from whose files the plugin in Rust is made.
                ("\"Example\"", &format!("\"{}\"", self.name)),
                // The type, by a name that nothing else in the files has.
                ("Example", &format!("{}Plugin", camel_case(self.name))),
                ("mod queue;\n", "mod queue;\n#[cfg(test)]\nmod tests;\n"),
                ("libexample_plugin.so", &file),
                ("\"example\"", &format!("\"{}\"", self.name)),
            ],
        )
    }
}

/// A text with each of these words replaced, in one pass: a path can contain any of the words.
fn replaced(text: &str, words: &[(&str, &str)]) -> String {
    let (mut done, mut rest) = (String::new(), text);
    let first = |rest: &str| {
        let found = words
            .iter()
            .filter_map(|(word, new)| Some((rest.find(word)?, word.len(), *new)));
        found.min_by_key(|(at, ..)| *at)
    };
    while let Some((at, length, new)) = first(rest) {
        let (before, after) = rest.split_at(at);
        done.push_str(before);
        done.push_str(new);
        rest = after.split_at(length).1;
    }
    done + rest
}

/// A path as the value of a variable in the template of the `Makefile`.
fn in_makefile(path: &str) -> String {
    path.replace('$', "$$").replace('#', "$(HASH)")
}

/// A path as a string of a Cargo manifest.
fn in_toml(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The name of a type that is made of the name of a plugin.
fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}
