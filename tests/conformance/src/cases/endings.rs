//! The exit of the process, and the child of a fork.

use crate::case::{Case, Verdict, skipped};
use crate::ending::Ending;
use crate::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::full(
        "a_process_exits_well_while_the_plugin_has_work",
        "Runs when the process begins to exit: stops the plugin's own threads; no vendor call \
         afterwards. … functions of the host that have not begun never run",
        elsewhere,
    )
    .of_a_process(Ending::Exit),
    Case::full(
        "a_child_of_a_fork_opens_the_plugin_anew_and_exits_well",
        "Runs in the child of a fork, inside of `fork` and for each open handle: marks all state dead \
         without a vendor call. … A plugin whose description names no driver may be opened anew then",
        elsewhere,
    )
    .of_a_process(Ending::Fork),
];

fn elsewhere(_subject: &Subject<'_>) -> Verdict {
    skipped("it ends the process: `crossdock conform` runs it in one of its own")
}
