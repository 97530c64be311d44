// What stands behind a metac_session*: a session, and what callers are told and held to.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/library/input_checks.h"
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
  metac_result* run(metac::Stream& stream, const metac_tensor* inputs, int32_t count);
  metac_result* try_run(const metac_tensor* inputs, int32_t count);  // null: not ready
  void set_weights(const metac_tensor* weights, int32_t count);

 private:
  // The tensors, which must be the model's inputs.
  std::map<std::string, metac::Tensor> checked(const metac_tensor* inputs, int32_t count) const;

  const metac::library::InputChecks checks_;
  std::map<std::string, metac::Value> weights_;  // initialisers, by name

 public:
  const metac::library::Ports inputs, outputs, states;
  metac::Session session;
};

namespace metac::library {

// A session of the model with what `given` (null: nothing) adds to it: weights, operators, states. `checked`: its other
// options, by session_options().
metac_session* opened_session(Model model, SessionOptions checked, const metac_session_options* given);

}  // namespace metac::library

struct metac_stream {
  metac_stream(metac_session* session, std::unique_ptr<metac::Stream> states)
      : session(session), states(std::move(states)) {}

  metac_session* const session;
  const std::unique_ptr<metac::Stream> states;
};

// Outputs of a run with their memory.
struct metac_result {
  explicit metac_result(std::vector<std::pair<std::string, metac::Tensor>> values);
  metac_result(const metac_result&) = delete;
  metac_result& operator=(const metac_result&) = delete;

  std::vector<std::pair<std::string, metac::Tensor>> values;
  std::vector<metac_tensor> tensors;
};
