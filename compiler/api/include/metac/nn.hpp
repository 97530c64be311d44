// Networks as objects whose parameters have names, as metac.nn has them in Python: the same layers, paths and files.
//
//   nn::Sequential net(nn::Linear(64, 32), metac::relu, nn::Linear(32, 10));
//   optim::Optimiser optimiser(net, "adam", {{"learning_rate", 0.003}});   // metac/optim.hpp
//   net.save("net.safetensors");
//
// nn/module.hpp says how networks of one's own are written.
#pragma once
#include "nn/attention.hpp"
#include "nn/layers.hpp"
#include "nn/normalisation.hpp"
#include "nn/recurrent.hpp"
#include "nn/sequential.hpp"
