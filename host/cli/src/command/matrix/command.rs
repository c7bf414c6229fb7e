//! `crossdock matrix`: every device to every device, as a table, as JSON, as a page and for CI.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::command::{
    matrix::process::{self, Ran},
    matrix::required::RequiredRoute,
    matrix::run::{Matrix, Pair},
    matrix::shown::{Form, Shown},
    route::RouteArgument,
};
use crate::{
    exit::Exit,
    failure::{Failure, Problem},
    globals::Globals,
    outputs::Outputs,
    screen,
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Files with the tensors: .npy, .npz, .safetensors. Without any, a few are made up.
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Take this route only, or one after another; a pair without it says why, which is no failure
    /// [default: best, and for a page best,direct,staged].
    #[arg(long, value_name = "ROUTE,..", value_delimiter = ',')]
    route: Vec<RouteArgument>,
    /// End with exit code 1 where this pair has no route, or with `=direct` none but through host
    /// memory (`=alias`: none without a copy) (repeatable).
    #[arg(long, value_name = "FROM,TO[=direct]")]
    pub(super) require_route: Vec<RequiredRoute>,
    /// End a pair that takes longer; the pairs after it run in a new process.
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) limit: u64,
    /// Write JSON into this file, or to stdout for `-` (schema in docs/command.md).
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write a page for the browser into this file, or to stdout for `-`.
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
    /// Write a table in Markdown into this file, or to stdout for `-`: for the summary of a CI job.
    #[arg(long, value_name = "F")]
    md: Option<PathBuf>,
}

impl Arguments {
    /// The routes that are tried, one after another.
    pub(super) fn routes(&self) -> Vec<RouteArgument> {
        let mut routes: Vec<RouteArgument> = Vec::new();
        let default: &[RouteArgument] = match self.html {
            Some(_) => &[
                RouteArgument::Best,
                RouteArgument::Direct,
                RouteArgument::Staged,
            ],
            None => &[RouteArgument::Best],
        };
        let asked = if self.route.is_empty() {
            default
        } else {
            &self.route
        };
        for route in asked {
            if !routes.contains(route) {
                routes.push(*route);
            }
        }
        routes
    }
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let is_stdout = |path: &Path| path == Path::new("-");
    let asked = [
        (Form::Json, &arguments.json),
        (Form::Page, &arguments.html),
        (Form::Markdown, &arguments.md),
    ];
    let asked = asked.iter();
    let asked = asked.filter_map(|(form, path)| Some((*form, path.as_deref()?)));
    let on_stdout = asked.clone().map(|(form, path)| (form, is_stdout(path)));
    let on_stdout = Outputs::stdout_of(on_stdout)?;
    let mut outputs = Outputs::beside(arguments.files.iter().map(PathBuf::as_path));
    let mut files: Vec<(Form, PathBuf)> = Vec::new();
    for (form, path) in asked.filter(|(_, path)| !is_stdout(path)) {
        outputs.claim(path)?;
        // Nothing is moved for results that cannot be written.
        drop(outputs.begin(path)?);
        files.push((form, path.to_owned()));
    }
    let mut shown = Shown {
        quiet: globals.quiet,
        on_stdout,
        outputs,
        files,
        written: None,
        progress: None,
    };
    let Ran {
        mut matrix,
        plugins,
    } = process::run(arguments, globals, &mut shown)?;
    let required = arguments.require_route.iter();
    let missing: Vec<_> = required
        .filter_map(|route| route.problem(&matrix, globals))
        .collect();
    matrix.problems.extend(missing);
    shown.finish(&matrix)?;
    let bad = matrix.pairs.iter().filter(|pair| pair.outcome.is_bad());
    let bad = bad.map(|pair| {
        let what = format!("move {} to {} by route {}", pair.from, pair.to, pair.asked);
        Problem::new(what, &pair.why, conform(pair, &matrix, &plugins))
    });
    let problems: Vec<Problem> = bad.chain(matrix.problems.iter().cloned()).collect();
    for problem in &problems {
        screen::problem(problem);
    }
    Ok(Exit::broken_if(!problems.is_empty()))
}

/// What to do about a pair: to check the plugins of both of its devices.
fn conform(pair: &Pair, matrix: &Matrix, plugins: &[String]) -> String {
    let mut commands: Vec<String> = Vec::new();
    for (row, plugin) in matrix.devices.iter().zip(plugins) {
        let command = format!("`crossdock conform {plugin}`");
        if [&pair.from, &pair.to].contains(&&row.id) && !commands.contains(&command) {
            commands.push(command);
        }
    }
    format!("run {}", commands.join(" and "))
}
