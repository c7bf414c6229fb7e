//! Crossdock beside other libraries: each file of `examples` is one benchmark, run by `scripts/bench`.
