//! Whose files are loaded: the rules on privileges and on owners, with real files.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by it, in what it shares too"
)]

#[path = "shared/c_plugin.rs"]
mod c_plugin;

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// A folder that anybody can read, with a plugin in a folder of its own.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let plugin = c_plugin::build(&plugins, "mine", &c_plugin::Code::default());
    for path in [folder.path(), &plugins, &plugin] {
        set_mode(path, 0o755);
    }
    (folder, plugin)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// `crossdock devices`, which searches the plugin's folder.
fn devices(program: &Path, plugin: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["devices", "--json"])
        .env("CROSSDOCK_PLUGIN_PATH", plugin.parent().unwrap())
        .env("CROSSDOCK_COSTS", "off")
        .env("CROSSDOCK_LOG", "warn")
        .env_remove("CROSSDOCK_TRUST_PATHS");
    command
}

fn report(command: &mut Command) -> (Value, String) {
    let Output { stdout, stderr, .. } = command.output().unwrap();
    let told = String::from_utf8(stderr).unwrap();
    let report = serde_json::from_slice(&stdout);
    (report.unwrap_or_else(|_| unreachable!("{told}")), told)
}

fn has_ext_dev(report: &Value) -> bool {
    let devices = report["devices"].as_array().unwrap();
    devices.iter().any(|device| device["id"] == "ext_dev:0")
}

fn command() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_crossdock"))
}

/// The plugin is refused for what somebody did to `at`, and loaded once the hint was followed.
fn assert_refused_until_repaired(plugin: &Path, at: &Path) {
    let (refusal, _) = report(&mut devices(command(), plugin));
    assert!(!has_ext_dev(&refusal), "{refusal}");
    let problems = refusal["refused"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{refusal}");
    let (trusted, _) = report(devices(command(), plugin).env("CROSSDOCK_TRUST_PATHS", "1"));
    assert!(has_ext_dev(&trusted), "{trusted}");
    let hint = problems[0]["try"].as_str().unwrap();
    let (fix, _) = hint.split_once(", or set").unwrap();
    assert!(fix.ends_with(&format!(" '{}'", at.display())), "{fix}");
    let fixed = Command::new("sh").args(["-c", fix]).status().unwrap();
    assert!(fixed.success(), "{fix}");
    let (repaired, _) = report(&mut devices(command(), plugin));
    assert!(has_ext_dev(&repaired), "{fix}: {repaired}");
}

#[test]
fn a_plugin_that_others_can_write_is_refused_until_the_fix_of_the_hint_is_made() {
    let (folder, plugin) = place();
    let (report, _) = report(&mut devices(command(), &plugin));
    assert!(has_ext_dev(&report), "{report}");
    for at in [&plugin, plugin.parent().unwrap(), folder.path()] {
        set_mode(at, 0o757);
        assert_refused_until_repaired(&plugin, at);
        // Of a group that others may be in.
        if chown(at, None, Some(SHARED)).is_ok() {
            set_mode(at, 0o775);
            assert_refused_until_repaired(&plugin, at);
        }
    }
    // Only the folder itself is exempt by its sticky bit.
    set_mode(folder.path(), 0o1777);
    set_mode(&plugin, 0o1757);
    assert_refused_until_repaired(&plugin, &plugin);
}

#[test]
fn a_plugin_of_another_user_is_refused_and_the_hint_changes_no_file() {
    let (_folder, plugin) = place();
    let folder = plugin.parent().unwrap();
    for at in [&plugin, folder] {
        if let Err(error) = chown(at, Some(NOBODY), None) {
            return skip(&format!("nobody gets the file: {error}"));
        }
        let (refusal, _) = report(&mut devices(command(), &plugin));
        assert!(!has_ext_dev(&refusal), "{refusal}");
        let (why, hint) = (&refusal["refused"][0]["why"], &refusal["refused"][0]["try"]);
        let named = format!("`{}` belongs to user {NOBODY}", at.display());
        assert!(why.as_str().unwrap().contains(&named), "{why}");
        let hint = hint.as_str().unwrap();
        assert!(!hint.contains("chown") && !hint.contains("chmod"), "{hint}");
        let (trusted, _) = report(devices(command(), &plugin).env("CROSSDOCK_TRUST_PATHS", "1"));
        assert!(has_ext_dev(&trusted), "{trusted}");
    }
}

/// A way to run a command as somebody.
struct Identity {
    name: &'static str,
    /// Words in front of the command.
    prefix: Vec<&'static str>,
    /// The user and the group of its files.
    owner: Option<(u32, u32)>,
}

/// This user, root's `daemon`, and root of a user namespace, as far as the system allows them.
fn identities() -> Vec<Identity> {
    let daemon = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"];
    let rootless = ["unshare", "--user", "--map-root-user"];
    let of = |name, prefix: &[&'static str], owner| Identity {
        name,
        prefix: prefix.to_vec(),
        owner,
    };
    let mut all = vec![of("this user", &[], None), of("rootless", &rootless, None)];
    if crossdock_sdk::trust::user() == 0 {
        let both = [&daemon[..], &rootless].concat();
        all.push(of("daemon", &daemon, Some((1, 1))));
        all.push(of("daemon, rootless", &both, Some((1, 1))));
    }
    all.retain(|identity| {
        let tried = identity
            .prefix
            .split_first()
            .is_none_or(|(program, words)| {
                let mut command = Command::new(program);
                command
                    .args(words)
                    .arg("true")
                    .output()
                    .is_ok_and(|it| it.status.success())
            });
        if !tried {
            skip(&format!("{}: not allowed here", identity.name));
        }
        tried
    });
    all
}

#[test]
fn a_plugin_of_ones_own_is_loaded_with_every_umask_also_in_a_user_namespace() {
    let (_made, plugin) = place();
    let is_private = |(user, group): (u32, u32)| {
        let name = |kind: &str, id: u32| {
            let output = Command::new("getent")
                .args([kind, &id.to_string()])
                .output()
                .unwrap();
            let line = String::from_utf8(output.stdout).unwrap();
            line.trim()
                .split(':')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (user, group) = (name("passwd", user), name("group", group));
        user.first() == group.first() && group.get(3).is_some_and(String::is_empty)
    };
    for identity in identities() {
        for mask in ["002", "022", "077"] {
            let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
            let facts = fs::metadata(folder.path()).unwrap();
            let owner = identity.owner.unwrap_or((facts.uid(), facts.gid()));
            if mask == "002" && !is_private(owner) {
                skip("the group of this user is not private");
                continue;
            }
            chown(folder.path(), Some(owner.0), Some(owner.1)).unwrap();
            let script = "umask $1; mkdir plugins && cat \"$2\" >plugins/\"${2##*/}\" && \
                          CROSSDOCK_PLUGIN_PATH=$PWD/plugins exec \"$3\" devices --json";
            let words = identity
                .prefix
                .iter()
                .copied()
                .chain(["sh", "-c", script, "sh", mask]);
            let words: Vec<_> = words.collect();
            let mut run = Command::new(words[0]);
            run.args(&words[1..])
                .args([&plugin, command()])
                .current_dir(folder.path())
                .env("HOME", folder.path())
                .env("CROSSDOCK_COSTS", "off")
                .env_remove("CROSSDOCK_TRUST_PATHS");
            if identity.owner.is_some() && !reached_by_all(command().parent().unwrap()) {
                skip("other users cannot reach the command");
                continue;
            }
            let (report, _) = report(&mut run);
            assert!(has_ext_dev(&report), "{} {mask}: {report}", identity.name);
        }
    }
}

/// A copy of a program that runs with the rights of another user.
fn with_other_rights(program: &Path, folder: &Path) -> io::Result<PathBuf> {
    let copy = folder.join(program.file_name().unwrap());
    fs::copy(program, &copy)?;
    chown(&copy, Some(NOBODY), None)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755))?;
    Ok(copy)
}

fn reached_by_all(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|at| fs::metadata(at).unwrap().permissions().mode() & 0o001 != 0)
}

#[test]
fn a_privileged_process_ignores_the_environment_and_says_which_variables() {
    let (folder, plugin) = place();
    if !reached_by_all(folder.path()) {
        return skip("other users cannot reach the folder for temporary files");
    }
    let program = match with_other_rights(command(), folder.path()) {
        Ok(program) => program,
        Err(error) => return skip(&format!("no program of another user: {error}")),
    };
    // A file system may give no rights to programs; one that tells its user shows it.
    let id = with_other_rights(Path::new("/usr/bin/id"), folder.path());
    let user = Command::new(id.unwrap()).arg("-u").output().unwrap();
    if String::from_utf8_lossy(&user.stdout).trim() != NOBODY.to_string() {
        return skip("programs get no rights in the folder for temporary files");
    }
    let variables = [
        ("CROSSDOCK_PLUGINS", "none"),
        ("CROSSDOCK_DEVICE_ORDER", "ext_dev:0"),
        ("CROSSDOCK_TRUST_PATHS", "1"),
    ];
    let (ignoring, told) = report(devices(&program, &plugin).envs(variables));
    assert!(!has_ext_dev(&ignoring), "{ignoring}");
    let names = variables.map(|(name, _)| name);
    for name in names.into_iter().chain(["CROSSDOCK_PLUGIN_PATH"]) {
        let warning = format!("`{name}` is ignored: this process is privileged");
        assert!(told.contains(&warning), "{told}");
    }
    // What the program names itself is loaded, but not against the rule on owners.
    let named = || {
        let mut command = devices(&program, &plugin);
        command.arg("--plugin").arg(&plugin).envs(variables);
        command
    };
    let (given, _) = report(&mut named());
    assert!(has_ext_dev(&given), "{given}");
    set_mode(&plugin, 0o777);
    let refused = named().output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("its mode is 0777"), "{told}");
}

#[expect(
    clippy::print_stderr,
    reason = "this is what the reader of a test run sees"
)]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// A group that is not any user's own.
const SHARED: u32 = 12_345;
/// The user `nobody`, who owns no file.
const NOBODY: u32 = 65534;
