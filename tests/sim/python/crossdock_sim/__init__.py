"""Runs programs for CUDA and HIP on simulated GPUs, and tells of uses of memory that nothing orders."""
