//! Makes the table of the driver's functions, and a stub for each that nobody has written here.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let cuda = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/cuda");
    println!("cargo::rerun-if-changed={}", cuda.display());
    let written = written(&cuda)?;
    let mut rows = Vec::new();
    let mut stubs = BTreeSet::new();
    let symbols = fs::read_to_string(cuda.join("symbols.in"))?;
    for line in symbols.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [base, since, twin, symbol] = words[..] else {
            return Err(format!("a line of the table has four words: {line}").into());
        };
        let is_twin = twin != "-";
        rows.push(format!(
            "    Function {{ base: \"{base}\", since: {since}, is_twin: {is_twin}, symbol: c\"{symbol}\" }},\n"
        ));
        if !written.contains(symbol) {
            stubs.insert(format!("    {symbol}\n"));
        }
    }
    let (rows, stubs) = (rows.concat(), stubs.into_iter().collect::<String>());
    let made = format!("const FUNCTIONS: &[Function] = &[\n{rows}];\n\nstubs! {{\n{stubs}}}\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("cuda.rs"), made)?;
    Ok(())
}

/// The functions in the sources: `fn cuName` and, of a form for per-thread default streams, `= cuName_ptsz`.
fn written(folder: &Path) -> Result<HashSet<String>, Box<dyn Error>> {
    let mut written = HashSet::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let text = fs::read_to_string(path)?;
        for marker in ["    fn ", " = "] {
            for behind in text.split(marker).skip(1) {
                let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
                let name = behind.split(is_other).next().unwrap_or_default();
                if name.starts_with("cu") {
                    written.insert(name.to_owned());
                }
            }
        }
    }
    Ok(written)
}
