//! Which calls of which hooks fail, and how: the grammar of `CROSSDOCK_FAULT`.

use std::str::FromStr;

use crossdock_sdk::abi::Status;

use crate::calls::call::Call;

/// Which calls fail: `allocate:3=OOM_DEVICE,opencl.copy:*=VENDOR,*:p0.01@7=VENDOR`.
///
/// A rule is `[PLUGIN.]HOOK:WHEN=STATUS`, and rules are separated by `,`. `HOOK` may be `*`: all
/// hooks, counted together. `WHEN` is `N` (the call of that number, from 1), `*` (every call), `/N`
/// (every `N`th), or `pX` or `pX@SEED` (each with the probability `X`, the same calls for the same
/// seed). The first rule that hits a call decides. Calls are counted for each plugin from `open`
/// on.
///
/// A hook that gives something back (`free`, `close`, ..) is called all the same and then answers
/// the failure, so that an injected failure leaks nothing by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    pub(crate) rules: Vec<Rule>,
}

/// One rule of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    /// The only plugin, or all.
    pub(crate) plugin: Option<String>,
    /// The only hook, or all.
    pub(crate) hook: Option<&'static str>,
    pub(crate) when: When,
    pub(crate) status: Status,
}

/// When a rule hits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    /// The call of this number, from 1.
    Nth(u64),
    /// Each call whose number is a multiple of it.
    Every(u64),
    /// With a probability of so many in 2^32, by a sequence that the seed begins.
    Chance { of_2_32: u64, seed: u64 },
}

/// Why a text is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}`: {why}")]
pub struct FaultPlanError {
    rule: String,
    why: RuleError,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum RuleError {
    #[error("it has no `=STATUS`; a rule is `HOOK:WHEN=STATUS`")]
    NoStatus,
    #[error("it has no `:WHEN`; a rule is `HOOK:WHEN=STATUS`")]
    NoWhen,
    #[error("no hook `{0}`; there are {known}", known = Call::NAMES.join(", "))]
    Hook(String),
    #[error("`{0}` is no `N`, `/N` (from 1), `*`, `pX` or `pX@SEED` (`X` from 0 to 1)")]
    When(String),
    #[error("no failure `{0}`; there are {known}", known = failure_names().join(", "))]
    Status(String),
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, FaultPlanError> {
        let read = |rule: &str| {
            parse_rule(rule).map_err(|why| FaultPlanError {
                rule: rule.to_owned(),
                why,
            })
        };
        let rules: Result<_, _> = text.split(',').map(str::trim).map(read).collect();
        Ok(Self { rules: rules? })
    }
}

fn parse_rule(text: &str) -> Result<Rule, RuleError> {
    let (left, status) = text.split_once('=').ok_or(RuleError::NoStatus)?;
    let (whom, when) = left.split_once(':').ok_or(RuleError::NoWhen)?;
    let (plugin, hook) = match whom.split_once('.') {
        Some((plugin, hook)) => (Some(plugin.to_owned()), hook),
        None => (None, whom),
    };
    Ok(Rule {
        plugin,
        hook: parse_hook(hook)?,
        when: parse_when(when)?,
        status: parse_status(status)?,
    })
}

fn parse_hook(text: &str) -> Result<Option<&'static str>, RuleError> {
    if text == "*" {
        return Ok(None);
    }
    let known = Call::NAMES.iter().find(|name| **name == text);
    match known {
        Some(name) => Ok(Some(name)),
        None => Err(RuleError::Hook(text.to_owned())),
    }
}

fn parse_when(text: &str) -> Result<When, RuleError> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    if text == "*" {
        return Ok(When::Every(1));
    }
    let read = if let Some(every) = text.strip_prefix('/') {
        number(every).map(When::Every)
    } else if let Some(chance) = text.strip_prefix('p') {
        parse_chance(chance)
    } else {
        number(text).map(When::Nth)
    };
    read.ok_or_else(|| RuleError::When(text.to_owned()))
}

fn parse_chance(text: &str) -> Option<When> {
    let (chance, seed) = match text.split_once('@') {
        Some((chance, seed)) => (chance, seed.parse().ok()?),
        None => (text, 0),
    };
    let chance: f64 = chance.parse().ok()?;
    if !(0.0..=1.0).contains(&chance) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 2^32"
    )]
    let of_2_32 = (chance * 4_294_967_296.0) as u64;
    Some(When::Chance { of_2_32, seed })
}

fn parse_status(text: &str) -> Result<Status, RuleError> {
    let known = failures().find(|(_, name)| *name == text);
    let unknown = || RuleError::Status(text.to_owned());
    known.map(|(status, _)| *status).ok_or_else(unknown)
}

fn failures() -> impl Iterator<Item = &'static (Status, &'static str)> {
    Status::ALL.iter().filter(|(status, _)| !status.is_ok())
}

fn failure_names() -> Vec<&'static str> {
    failures().map(|(_, name)| *name).collect()
}
