//! How long a copy takes by its size: measured points, with straight lines between them.

use serde::{Deserialize, Serialize};

/// Seconds by bytes. Up to the first point a copy costs what the first point does, its latency;
/// behind the last one the bandwidth between the last two goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Point>", into = "Vec<Point>")]
pub(crate) struct Curve {
    /// At least one, the sizes ascending, the times positive and not falling.
    points: Vec<Point>,
}

/// One measured size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// Points that are no curve.
#[derive(Debug, thiserror::Error)]
#[error("sizes and times of a cost curve ascend from above 0, at most {MOST_POINTS} of them")]
pub(crate) struct CurveError;

impl Curve {
    /// Whether it was measured far enough to tell what more bytes cost.
    pub(super) const fn has_bandwidth(&self) -> bool {
        self.points.len() > 1
    }

    /// The time of a copy of so many bytes.
    pub(crate) fn seconds(&self, bytes: u64) -> f64 {
        let mut before = Point {
            bytes: 0,
            seconds: 0.0,
        };
        let mut line = (before, before);
        for (index, point) in self.points.iter().copied().enumerate() {
            if bytes <= point.bytes && index == 0 {
                return point.seconds;
            }
            line = (before, point);
            if bytes <= point.bytes {
                break;
            }
            before = point;
        }
        on_line(line, bytes)
    }
}

impl TryFrom<Vec<Point>> for Curve {
    type Error = CurveError;

    fn try_from(points: Vec<Point>) -> Result<Self, CurveError> {
        let mut before = Point {
            bytes: 0,
            seconds: 0.0,
        };
        for point in &points {
            let ascends = point.bytes > before.bytes && point.seconds >= before.seconds;
            if !ascends || point.seconds <= 0.0 || point.seconds > LONGEST_SECONDS {
                return Err(CurveError);
            }
            before = *point;
        }
        if points.is_empty() || points.len() > MOST_POINTS {
            return Err(CurveError);
        }
        Ok(Self { points })
    }
}

impl From<Curve> for Vec<Point> {
    fn from(curve: Curve) -> Self {
        curve.points
    }
}

fn on_line((from, to): (Point, Point), bytes: u64) -> f64 {
    let run = (to.bytes - from.bytes) as f64;
    let slope = (to.seconds - from.seconds) / run;
    to.seconds + (bytes as f64 - to.bytes as f64) * slope
}

const MOST_POINTS: usize = 32;
/// No copy that is measured takes an hour.
const LONGEST_SECONDS: f64 = 3600.0;
