//! Which layers the environment of the process asks for.

use std::ffi::{OsStr, OsString};

use crate::error::LayersError;
use crate::fault::fault_plan::{FaultPlan, FaultPlanError};
use crate::stack::layer::Layer;

/// The layers that `CROSSDOCK_LAYERS` and `CROSSDOCK_FAULT` name. A privileged process takes no
/// orders from its environment.
///
/// # Errors
/// A fault plan that cannot be read.
pub fn requested(privileged: bool) -> Result<Vec<Layer>, LayersError> {
    let variable = |name: &str| obeyed(name, std::env::var(name).ok(), privileged);
    let names = variable("CROSSDOCK_LAYERS").unwrap_or_default();
    let fault = variable("CROSSDOCK_FAULT");
    let traced = std::env::var_os(TRACE).is_some_and(|file| !file.is_empty());
    let (layers, warnings) = read(&names, fault.as_deref(), traced)
        .map_err(|error| LayersError::new("read `CROSSDOCK_FAULT`", error.to_string()))?;
    for warning in warnings {
        warn(&format!("`CROSSDOCK_LAYERS`: {warning}"));
    }
    Ok(layers)
}

impl Layer {
    /// The layers that these texts name, in the form of `CROSSDOCK_LAYERS` (`validate`, `fault`) and
    /// `CROSSDOCK_FAULT` (rules, which ask for the fault layer by themselves).
    ///
    /// # Errors
    /// A name that is no layer's, and rules that cannot be read.
    pub fn named(names: &str, fault: Option<&str>) -> Result<Vec<Self>, LayersError> {
        const OPERATION: &str = "name the layers of a runtime";
        let refused = |why: String| LayersError::new(OPERATION, why);
        let (layers, warnings) =
            read(names, fault, false).map_err(|error| refused(error.to_string()))?;
        match warnings.is_empty() {
            true => Ok(layers),
            false => Err(refused(warnings.join("; "))),
        }
    }
}

/// The file of the trace that `CROSSDOCK_TRACE` asks for. A privileged process takes no orders from
/// its environment.
#[must_use]
pub fn requested_trace(privileged: bool) -> Option<OsString> {
    obeyed(TRACE, std::env::var_os(TRACE), privileged)
}

const TRACE: &str = "CROSSDOCK_TRACE";

/// A variable's value, unless it is empty or the process is privileged.
fn obeyed<T: AsRef<OsStr>>(name: &str, value: Option<T>, privileged: bool) -> Option<T> {
    let value = value.filter(|value| !value.as_ref().is_empty())?;
    if privileged {
        warn(&format!("`{name}` is ignored: this process is privileged"));
        return None;
    }
    Some(value)
}

/// The layers in their order, and what was ignored.
fn read(
    names: &str,
    fault: Option<&str>,
    traced: bool,
) -> Result<(Vec<Layer>, Vec<String>), FaultPlanError> {
    let mut warnings = Vec::new();
    let mut layers = Vec::new();
    let plan = fault.map(str::parse::<FaultPlan>).transpose()?;
    for name in names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        match (name, &plan) {
            ("validate", _) => layers.push(Layer::Validate),
            ("fault", Some(plan)) => layers.push(Layer::Fault(plan.clone())),
            ("fault", None) => warnings.push("`fault` needs rules (`CROSSDOCK_FAULT`)".to_owned()),
            ("trace", _) if traced => {}
            ("trace", _) => warnings.push("`trace` needs a file (`CROSSDOCK_TRACE`)".to_owned()),
            _ => warnings.push(format!(
                "`{name}` is no layer; there are validate, trace, fault"
            )),
        }
    }
    let named = layers.iter().any(|layer| matches!(layer, Layer::Fault(_)));
    if let Some(plan) = plan.filter(|_| !named) {
        // Outside of validation, whose registry then holds what the plugin really did.
        layers.insert(0, Layer::Fault(plan));
    }
    Ok((layers, warnings))
}

fn warn(text: &str) {
    log::warn!(target: "crossdock::load", "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_stand_in_the_order_in_which_they_are_named() {
        let (layers, warnings) = read("validate, fault", Some("copy:1=VENDOR"), false).unwrap();
        assert!(matches!(layers[..], [Layer::Validate, Layer::Fault(_)]));
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_privileged_process_takes_no_orders_from_its_environment() {
        let asked = || Some("validate".to_owned());
        assert_eq!(obeyed("CROSSDOCK_LAYERS", asked(), true), None);
        assert_eq!(obeyed("CROSSDOCK_LAYERS", asked(), false), asked());
        assert_eq!(obeyed("CROSSDOCK_LAYERS", Some(String::new()), false), None);
    }

    #[test]
    fn an_unknown_layer_is_a_warning_that_names_the_known_ones() {
        let (layers, warnings) = read("validate,sanitize", None, false).unwrap();
        assert_eq!(layers, [Layer::Validate]);
        let [warning] = warnings.as_slice() else {
            panic!("{warnings:?}");
        };
        for word in ["sanitize", "validate", "trace", "fault"] {
            assert!(warning.contains(word), "{warning}");
        }
    }

    #[test]
    fn rules_alone_ask_for_the_fault_layer_and_wrong_ones_are_an_error() {
        let (layers, _) = read("validate", Some("copy:1=VENDOR"), false).unwrap();
        assert!(matches!(layers[..], [Layer::Fault(_), Layer::Validate]));
        let rules = [
            ("copi:1=VENDOR", "copy_strided"),
            ("copy:0=VENDOR", "`0`"),
            ("copy:p2=VENDOR", "`p2`"),
            ("copy:1=OK", "OOM_DEVICE"),
            ("copy=VENDOR", ":WHEN"),
            ("copy:1", "=STATUS"),
            ("", "=STATUS"),
        ];
        for (rule, told) in rules {
            let error = read("", Some(rule), false).unwrap_err();
            let why = error.to_string();
            assert!(why.contains(told), "{rule}: {why}");
        }
    }
}
