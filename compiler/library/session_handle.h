// What stands behind a metac_session*: a session, and what callers are told and held to.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "compiler/session/session.h"
#include "metac/metac.h"

namespace metac::library {

// metac_ports with their memory.
class Ports {
 public:
  // Refuses values of kinds that metac_tensor does not carry.
  Ports(const std::vector<Value>& values, const char* what);
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;
  const metac_port* at(int32_t index) const {
    return index >= 0 && static_cast<size_t>(index) < ports_.size() ? &ports_[index] : nullptr;
  }

 private:
  struct Memory {
    std::string name;
    std::vector<int64_t> dims;
    std::vector<std::string> names;
    std::vector<const char*> dim_names;
  };
  std::deque<Memory> memory_;
  std::vector<metac_port> ports_;
};

}  // namespace metac::library

struct metac_session {
 public:
  metac_session(metac::Model model, metac::SessionOptions options);

  metac_result* run(const metac_tensor* inputs, int32_t count);
  metac_result* try_run(const metac_tensor* inputs, int32_t count);  // null: not ready
  void set_weights(const metac_tensor* weights, int32_t count);

 private:
  void check_inputs(const std::map<std::string, metac::Tensor>& given) const;

  std::vector<metac::Value> wanted_;             // inputs that a caller gives
  std::vector<metac::Value> accepted_;           // with those that have a default
  std::map<std::string, metac::Symbol> dims_;    // declared ones
  std::map<std::string, metac::Value> weights_;  // initialisers, by name

 public:
  const metac::library::Ports inputs, outputs;
  metac::Session session;
};

// Outputs of a run with their memory.
struct metac_result {
  explicit metac_result(std::vector<std::pair<std::string, metac::Tensor>> values);
  metac_result(const metac_result&) = delete;
  metac_result& operator=(const metac_result&) = delete;

  std::vector<std::pair<std::string, metac::Tensor>> values;
  std::vector<metac_tensor> tensors;
};
