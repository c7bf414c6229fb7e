// A model small enough to be written by hand.
#ifndef ONNXRUNTIME_MODEL_HPP
#define ONNXRUNTIME_MODEL_HPP

#include <string>

/// An ONNX model with one input `x` and one output `y`, float32 of any one length: what is negative becomes 0.
std::string rectifier();

#endif
