//! Files that another program writes to while the command uses them.

use std::fs;

use crate::{
    c_plugin,
    program::{crossdock, err, npy},
};

#[test]
fn a_file_that_is_rewritten_during_a_copy_is_at_fault_and_no_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.npy");
    fs::write(&file, npy("4, 6", "False", &[7; 96])).unwrap();
    // The copy to the device; what the file holds now is not what arrived there.
    let rewrite = "memcpy((void *)(uintptr_t)xd_plugin_pointer(&args->dst.address), \
                   (const void *)(uintptr_t)xd_plugin_pointer(&args->src.address), (size_t)args->bytes); \
                   FILE *file = fopen(getenv(\"XD_REWRITTEN\"), \"r+\"); \
                   fseek(file, -1, SEEK_END); fputc(99, file); fclose(file); return XD_OK;";
    let code = c_plugin::Code {
        first_in: ("ext_copy", rewrite),
        ..c_plugin::Code::default()
    };
    let plugin = c_plugin::build(folder.path(), "rewrites", &code);
    let mut command = crossdock(&["copy", "--to", "ext_dev:0", "--plugin"]);
    command.arg(plugin).arg(&file).env("XD_REWRITTEN", &file);
    let output = command.output().unwrap();
    let told = err(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("another program wrote to it"), "{told}");
    assert!(told.contains(file.to_str().unwrap()), "{told}");
    assert!(!told.contains("conform"), "{told}");
}
