//! `crossdock copy`: tensors of files to a device and back, verified bit for bit.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use crossdock::{RouteChoice, Runtime, Target};
use crossdock_sdk::dlpack;

use crate::{
    exit::{self, Exit},
    failure::{Failure, Problem},
    files::{self, FileTensor, Part, TensorFile},
    globals::Globals,
    outputs::Outputs,
    progress::Progress,
    screen, session,
    table::{Cell, Table},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Files: .npy, .npz, .safetensors.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The device to copy to, or memory of one as in `cuda_host:0`.
    #[arg(long, value_name = "DEVICE", value_parser = session::device_named)]
    to: dlpack::Device,
    /// Write what the device has into this folder, one file for each (a .npz as .npy files).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, globals: &Globals) -> Result<Exit, Failure> {
    let runtime = session::open_for_work(globals)?;
    let target = runtime.target(arguments.to)?;
    let read: Result<Vec<TensorFile>, Failure> = arguments
        .files
        .iter()
        .map(|path| files::read(path))
        .collect();
    let read = read?;
    let total = read
        .iter()
        .flat_map(TensorFile::tensors)
        .map(|t| t.layout.bytes())
        .sum();
    let mut outputs = Outputs::beside(arguments.files.iter().map(PathBuf::as_path));
    if let Some(folder) = &arguments.out {
        for part in read.iter().flat_map(|file| &file.parts) {
            // Names come from what the files hold, too.
            let claimed = outputs.claim(&folder.join(&part.name));
            claimed.map_err(Failure::into_problem)?;
        }
        make_folder(folder)?;
    }
    let mut work = Work {
        runtime: &runtime,
        target: &target,
        progress: Progress::new(total, globals.quiet),
        table: Table::new(&["FILE", "TENSOR", "SHAPE", "DTYPE", "ROUTE", "BYTES", "TIME"]),
    };
    let mut written = Vec::new();
    for file in &read {
        for part in &file.parts {
            let target = arguments.out.as_ref().map(|folder| folder.join(&part.name));
            work.part(file, part, target.as_deref(), &mut outputs)?;
            written.extend(target);
        }
    }
    let Work {
        progress, table, ..
    } = work;
    drop(progress);
    screen::result(table.text())?;
    for path in written {
        screen::talk(globals.quiet, &format!("wrote {}", path.display()));
    }
    screen::talk(
        globals.quiet,
        &format!("{} read back equal", screen::bytes(total)),
    );
    Ok(exit::DONE)
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    if folder.is_dir() {
        return Ok(());
    }
    // Only the folder that was named: a parent that is missing is a slip of the pen.
    let made = std::fs::create_dir(folder);
    Ok(made.map_err(|error| Problem::file("make the folder", folder, &error))?)
}

struct Work<'a> {
    runtime: &'a Runtime,
    target: &'a Target,
    progress: Progress,
    table: Table,
}

impl Work<'_> {
    /// Copies the tensors of a part one after another, and writes each where a file was asked for.
    fn part(
        &mut self,
        file: &TensorFile,
        part: &Part,
        target: Option<&Path>,
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        let mut output = target.map(|target| outputs.begin(target)).transpose()?;
        if let Some(output) = &mut output {
            output.write(&part.header)?;
        }
        for tensor in &part.tensors {
            let copied = self.copy(file, tensor)?;
            if let Some(output) = &mut output {
                output.write(&copied)?;
            }
        }
        output.map_or(Ok(()), |output| outputs.finish(output))
    }

    /// Copies one tensor and returns what the device has, in the order of the file.
    fn copy(&mut self, file: &TensorFile, tensor: &FileTensor) -> Result<Vec<u8>, Failure> {
        self.progress.begin(&tensor.name);
        let loaded = tensor.loaded()?;
        let source = loaded.on_host(self.runtime)?;
        let started = Instant::now();
        let (copy, route) = source.move_to(self.target, RouteChoice::Best, None)?;
        let took = started.elapsed().as_secs_f64();
        let back = tensor.file_order(&copy)?;
        if loaded.stored() != Some(back.as_slice()) {
            file.check_unchanged()?;
            let what = format!("copy `{}` of `{}`", tensor.name, file.path.display());
            let why = format!("what `{}` gave back differs from the file", self.target);
            let hint = "run `crossdock conform` on the plugin of that device";
            return Err(Problem::new(what, why, hint).into());
        }
        self.progress.done(tensor.layout.bytes());
        self.table.row(vec![
            Cell::left(file.path.display().to_string()),
            Cell::left(&tensor.name),
            Cell::left(format!("{:?}", tensor.layout.shape())),
            Cell::left(tensor.layout.dtype().to_string()),
            Cell::left(route.kind.to_string()),
            Cell::right(screen::bytes(route.bytes_copied)),
            Cell::right(screen::seconds(took)),
        ]);
        Ok(back)
    }
}
