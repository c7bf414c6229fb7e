//! Which layers there are.

use crate::fault::fault_plan::FaultPlan;

/// A layer around a plugin's hooks. The first one of a list is nearest to the host.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Layer {
    /// Refuses what the contract forbids: what the host asks as well as what the plugin answers.
    Validate,
    /// Fails the calls that the plan names.
    Fault(FaultPlan),
}
