//! Makes the tables of the drivers' functions, and a stub for each that nobody has written here.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Threads and handlers of the exit outlive a `dlclose` by a program.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    make("cuda", "Function", |words| {
        let [base, since, twin, symbol] = *words else {
            return None;
        };
        let is_twin = twin != "-";
        let row = format!(
            "Function {{ base: \"{base}\", since: {since}, is_twin: {is_twin}, symbol: c\"{symbol}\" }}"
        );
        Some((row, symbol.to_owned()))
    })?;
    // The version node is for the shells that programs are linked to (`crossdock_sim/libraries.py`).
    make("hip", "&CStr", |words| {
        let [symbol, _node] = *words else { return None };
        Some((format!("c\"{symbol}\""), symbol.to_owned()))
    })
}

/// Makes `FUNCTIONS` and the stubs of a vendor from the lines of its `symbols.in`.
fn make(
    vendor: &str,
    kind: &str,
    row: impl Fn(&[&str]) -> Option<(String, String)>,
) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?)
        .join("src")
        .join(vendor);
    println!("cargo::rerun-if-changed={}", folder.display());
    let written = written(&folder)?;
    let mut rows = Vec::new();
    let mut stubs = BTreeSet::new();
    let symbols = fs::read_to_string(folder.join("symbols.in"))?;
    for line in symbols.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let made = row(&words).ok_or_else(|| format!("a line that has other words: {line}"))?;
        let (row, symbol) = made;
        rows.push(format!("    {row},\n"));
        if !written.contains(&symbol) {
            stubs.insert(format!("    {symbol}\n"));
        }
    }
    let (rows, stubs) = (rows.concat(), stubs.into_iter().collect::<String>());
    let made = format!("const FUNCTIONS: &[{kind}] = &[\n{rows}];\n\nstubs! {{\n{stubs}}}\n");
    fs::write(
        Path::new(&env::var("OUT_DIR")?).join(format!("{vendor}.rs")),
        made,
    )?;
    Ok(())
}

/// The functions in the sources: `fn NAME`; of a form for per-thread default streams, `= NAME_ptsz`; and lines that
/// are a name alone.
fn written(folder: &Path) -> Result<HashSet<String>, Box<dyn Error>> {
    let mut written = HashSet::new();
    let prefixes = ["cu", "hip", "__hip"];
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let text = fs::read_to_string(path)?;
        for marker in [" fn ", " = ", "    "] {
            for behind in text.split(marker).skip(1) {
                let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
                let name = behind.split(is_other).next().unwrap_or_default();
                if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                    written.insert(name.to_owned());
                }
            }
        }
    }
    Ok(written)
}
