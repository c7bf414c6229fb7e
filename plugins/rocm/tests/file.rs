//! The plugin's file: it needs nothing of AMD's to be loaded.

use object::{Object as _, ObjectSymbol as _};

#[test]
fn the_file_needs_no_symbol_of_the_driver() {
    let test = std::env::current_exe().unwrap();
    let file = test.parent().unwrap().join("libcrossdock_plugin_rocm.so");
    if !file.exists() {
        println!("skipped: {} is not built", file.display());
        return;
    }
    let bytes = std::fs::read(&file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let undefined = elf.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    let names: Vec<_> = undefined.map(|symbol| symbol.name().unwrap()).collect();
    assert!(names.contains(&"dlopen"), "{names:?}");
    let is_of_driver = |name: &&&str| {
        let rest = name.strip_prefix("hip");
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    let of_driver: Vec<_> = names.iter().filter(is_of_driver).collect();
    assert!(of_driver.is_empty(), "{of_driver:?}");
}
