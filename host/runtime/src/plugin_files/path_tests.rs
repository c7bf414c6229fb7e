//! Where plugins are looked for, and the rule on who may write them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

use crossdock_sdk::trust::{self, Offender};
use tempfile::TempDir;

use super::*;

/// A folder with plugin files by name, and an environment of its own.
fn place(names: &[&str]) -> (TempDir, Environment) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"").unwrap();
        set_mode(&path, 0o644);
    }
    let user = trust::user();
    (
        folder,
        Environment {
            user,
            ..Environment::default()
        },
    )
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn names(search: &Search) -> Vec<(Origin, String)> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    search
        .candidates
        .iter()
        .map(|found| (found.origin, name(&found.path)))
        .collect()
}

fn plugin(name: &str) -> String {
    format!("libcrossdock_plugin_{name}.so")
}

#[test]
fn folders_are_searched_in_their_order_and_files_by_name() {
    let (folder, mut environment) = place(&[
        "variable/libcrossdock_plugin_b.so",
        "variable/libcrossdock_plugin_a.so",
        "variable/libother.so",
        "variable/libcrossdock_plugin_.so",
        "bin/crossdock/plugins/libcrossdock_plugin_c.so",
        "lib/crossdock/plugins/libcrossdock_plugin_d.so",
    ]);
    environment.plugin_path = Some(folder.path().join("variable").into());
    environment.beside = vec![folder.path().join("bin")];
    let found = search(&[folder.path().join("mine.so")], &environment);
    let expected = [
        (Origin::Given, "mine.so".to_owned()),
        (Origin::Variable, plugin("a")),
        (Origin::Variable, plugin("b")),
        (Origin::Beside, plugin("c")),
        (Origin::Prefix, plugin("d")),
    ];
    assert_eq!(names(&found), expected);
    assert_eq!(
        (found.folders.len(), found.warnings.len()),
        (3, 0),
        "{found:?}"
    );
}

#[test]
fn the_list_of_names_limits_the_search_and_not_the_given_files() {
    let (folder, mut environment) = place(&[&plugin("cpu"), &plugin("cuda"), &plugin("opencl")]);
    environment.plugin_path = Some(folder.path().into());
    environment.plugins = Some("cpu, opencl".into());
    let found = search(&[folder.path().join(plugin("cuda"))], &environment);
    let expected = [
        (Origin::Given, plugin("cuda")),
        (Origin::Variable, plugin("cpu")),
        (Origin::Variable, plugin("opencl")),
    ];
    assert_eq!(names(&found), expected);
}

#[test]
fn relative_folders_of_the_environment_are_refused_and_given_files_made_absolute() {
    let (_folder, mut environment) = place(&[]);
    environment.plugin_path = Some(".:plugins::".into());
    let found = search(&[PathBuf::from("mine.so")], &environment);
    assert!(found.folders.is_empty(), "{:?}", found.folders);
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert!(
        found
            .candidates
            .iter()
            .all(|found| found.path.is_absolute())
    );
}

#[test]
fn a_privileged_process_ignores_the_environment_and_says_which_variables() {
    let (folder, mut environment) = place(&[&plugin("cpu")]);
    environment.plugin_path = Some(folder.path().into());
    environment.plugins = Some("none".into());
    environment.trust_paths = true;
    environment.privileged = true;
    let found = search(&[folder.path().join(plugin("cpu"))], &environment);
    assert_eq!(names(&found), [(Origin::Given, plugin("cpu"))]);
    for name in [
        "CROSSDOCK_PLUGIN_PATH",
        "CROSSDOCK_PLUGINS",
        "CROSSDOCK_TRUST_PATHS",
    ] {
        assert!(
            found
                .warnings
                .iter()
                .any(|w| w.contains(&format!("`{name}`"))),
            "{name}"
        );
    }
    set_mode(&folder.path().join(plugin("cpu")), 0o666);
    assert!(check_ownership(&folder.path().join(plugin("cpu")), &environment).is_err());
}

#[test]
fn a_file_of_the_user_that_only_the_user_can_write_is_trusted() {
    let (folder, environment) = place(&["a/p.so"]);
    check_ownership(&folder.path().join("a/p.so"), &environment).unwrap();
}

#[test]
fn a_plugin_writable_by_others_is_refused_with_the_fix() {
    let (folder, mut environment) = place(&["a/p.so"]);
    let path = folder.path().join("a/p.so");
    for mode in [0o666, 0o662, 0o1666] {
        set_mode(&path, mode);
        let error = check_ownership(&path, &environment).unwrap_err();
        assert!(
            matches!(error.offenders[..], [Offender::Writable { .. }]),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
        assert!(error.hint().starts_with("chmod go-w") && !error.hint().contains('\n'));
    }
    environment.trust_paths = true;
    check_ownership(&path, &environment).unwrap();
}

#[test]
fn a_folder_writable_by_others_is_refused_unless_it_is_sticky() {
    let (folder, environment) = place(&["a/b/p.so"]);
    let (path, above) = (folder.path().join("a/b/p.so"), folder.path().join("a"));
    set_mode(&above, 0o777);
    let error = check_ownership(&path, &environment).unwrap_err();
    assert!(
        matches!(&error.offenders[..], [Offender::Writable { at, .. }] if at.ends_with("a")),
        "{error:?}"
    );
    set_mode(&above, 0o1777);
    check_ownership(&path, &environment).unwrap();
}

#[test]
fn a_link_in_a_folder_writable_by_others_is_refused() {
    let (folder, environment) = place(&["a/p.so", "b/other"]);
    symlink(folder.path().join("a/p.so"), folder.path().join("b/p.so")).unwrap();
    check_ownership(&folder.path().join("b/p.so"), &environment).unwrap();
    set_mode(&folder.path().join("b"), 0o777);
    assert!(check_ownership(&folder.path().join("b/p.so"), &environment).is_err());
}

#[test]
fn a_file_of_another_user_is_refused() {
    let (folder, mut environment) = place(&["p.so"]);
    let path = folder.path().join("p.so");
    if environment.user == 0 {
        chown(&path, Some(12_345), None).unwrap();
    } else {
        environment.user += 1;
    }
    let error = check_ownership(&path, &environment).unwrap_err();
    let last = error.offenders.last();
    assert!(matches!(last, Some(Offender::Owner { .. })), "{error:?}");
    let hint = error.hint();
    assert!(!hint.contains("chown") && !hint.contains("chmod"), "{hint}");
}

#[test]
fn a_group_may_write_if_the_owner_is_its_only_user() {
    let (folder, environment) = place(&["p.so"]);
    let path = folder.path().join("p.so");
    set_mode(&path, 0o664);
    let group = path.metadata().unwrap().gid();
    let own = std::process::Command::new("id")
        .arg("-nu")
        .output()
        .unwrap();
    let name = String::from_utf8(own.stdout).unwrap();
    let groups = fs::read_to_string("/etc/group").unwrap();
    // `daemon:x:1:` of the user `daemon`.
    if groups.contains(&format!("\n{}:x:{group}:\n", name.trim()))
        || groups.starts_with(&format!("{}:x:{group}:\n", name.trim()))
    {
        check_ownership(&path, &environment).unwrap();
    }
    if chown(&path, None, Some(12_345)).is_ok() {
        let error = check_ownership(&path, &environment).unwrap_err();
        assert!(
            error.to_string().contains("users of group 12345"),
            "{error}"
        );
    }
}

#[test]
fn everything_that_breaks_the_rule_is_reported_at_once() {
    let (folder, environment) = place(&["a/p.so"]);
    let (path, above) = (folder.path().join("a/p.so"), folder.path().join("a"));
    set_mode(&path, 0o666);
    set_mode(&above, 0o777);
    let error = check_ownership(&path, &environment).unwrap_err();
    assert_eq!(error.offenders.len(), 2, "{error}");
    let both = format!(
        "chmod go-w '{}' '{}', or set",
        above.display(),
        path.display()
    );
    assert!(error.hint().starts_with(&both), "{}", error.hint());
}

#[test]
fn who_can_change_a_loaded_library_can_add_plugins_next_to_it() {
    let (folder, mut environment) = place(&["lib/crossdock/plugins/p.so", "elsewhere/p.so"]);
    let path = folder.path().join("lib/crossdock/plugins/p.so");
    let elsewhere = folder.path().join("elsewhere/p.so");
    set_mode(folder.path(), 0o777);
    set_mode(&path, 0o666);
    assert!(check_ownership(&path, &environment).is_err());
    environment.beside = vec![folder.path().join("lib")];
    check_ownership(&path, &environment).unwrap();
    assert!(check_ownership(&elsewhere, &environment).is_err());
    environment.privileged = true;
    assert!(check_ownership(&path, &environment).is_err());
    environment.privileged = false;
    // What only the plugin's own folder allows was not needed to load the library.
    set_mode(folder.path(), 0o755);
    assert!(check_ownership(&path, &environment).is_err());
}
