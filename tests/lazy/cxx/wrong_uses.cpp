// Wrong uses of modules, files, optimisers and indices: each is an error whose message says what is wrong.
//
//   wrong_uses FOLDER
#include <filesystem>
#include <functional>

#include "weights_by_name.hpp"

namespace nn = metac::nn;
namespace optim = metac::optim;
using metac::at;
using metac::Slice;
using metac::Var;

namespace {

int wrong = 0, uses = 0;

// `use` must throw an error that says all of `words`.
void refused(const std::vector<std::string>& words, const std::function<void()>& use) {
  ++uses;
  std::string said = "nothing";
  try {
    use();
  } catch (const metac::Error& error) {
    said = error.what();
    if (std::all_of(words.begin(), words.end(), [&](const auto& word) { return said.find(word) != std::string::npos; }))
      return;
  }
  ++wrong;
  std::fprintf(stderr, "\"%s\" was to be said: %s\n", words[0].c_str(), said.c_str());
}

// Gives its members to whoever asks.
struct Open : nn::Module {
  using nn::Module::add;
  using nn::Module::parameter;
  using nn::Module::replace;
};

void modules() {
  Open net;
  const nn::Linear part(2, 3);
  net.add("part", part);
  refused({"has a \"part\" already"}, [&] { net.add("part", part); });
  refused({"has a \"part\" already"}, [&] { net.parameter("part", part.weight); });
  refused({"cannot be named \"a.b\""}, [&] { net.add("a.b", part); });
  refused({"cannot be named \"\""}, [&] { net.parameter("", part.weight); });
  refused({"\"w\" has no value"}, [&] { net.parameter("w", Var()); });
  refused({"a part of itself"}, [&] { net.add("self", net); });
  refused({"no part \"port\""}, [&] { net.replace("port", part); });
  refused({"a part of itself"}, [&] { net.replace("part", net); });
  net.replace("part", nn::Linear(5, 1));
  expect(net["part.weight"].shape() == std::vector<int64_t>({1, 5}), "the part that was replaced");
  net.replace("part", part);
  const nn::Module moved = std::move(net);
  expect(net["part.weight"].handle() == moved["part.weight"].handle(), "what was moved is no module");
  Open above;
  above.add("below", net);
  refused({"a part of itself"}, [&] { net.add("above", above); });
  refused({"no parameter \"part.wait\"", "part.weight, part.bias"}, [&] { net["part.wait"]; });
  refused({"inputs of Linear", "0 is less than 1"}, [] { nn::Linear(0, 3); });
  refused({"a dim of a parameter", "-3 is less"}, [] { nn::Linear(2, -3); });
  refused({"4 channels to 6 in 3 groups"}, [] { nn::Conv(4, 6, 3, {.groups = 3}); });
  refused({"groups: 0"}, [] { nn::Conv(4, 6, 3, {.groups = 0}); });
  refused({"stride has 3 lengths, the kernel has 2"}, [] { nn::Conv(4, 6, 3, {.stride = {1, 2, 3}}); });
  refused({"padding: -1"}, [] { nn::Conv(4, 6, 3, {.padding = -1}); });
  refused({"the kernel: 0"}, [] { nn::ConvTranspose(4, 6, {3, 0}); });
  refused({"probability of 1.0"}, [] { nn::Dropout drop(1); });
  refused({"a width of 7 in 2 heads"}, [] { nn::MultiHeadAttention(7, 2); });
  refused({"6 channels in 4 groups"}, [] { nn::GroupNorm(4, 6); });
  const Var x = metac::array(std::vector<float>(8, 1), {2, 4});
  refused({"wrong_uses.cpp:" + std::to_string(__LINE__)}, [&] { part(x); });  // the line of the call
  refused({"BatchNorm of 3 channels, given (2, 4)"}, [&] {
    nn::BatchNorm norm(3), copy = norm, other(copy);
    other(x);
  });
}

std::string header_of(const std::string& text) {
  std::string bytes(8, '\0');
  for (int k = 0; k < 8; ++k) bytes[static_cast<size_t>(k)] = static_cast<char>(text.size() >> (8 * k));
  return bytes + text;
}
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"w\": {\"dtype\": \"" + dtype + "\", \"shape\": " + shape + ", \"data_offsets\": " + offsets + "}}";
}

void files(const std::string& folder) {
  nn::Linear net(2, 3);
  const std::vector<float> before = net.weight.to_vector<float>();
  const std::string path = folder + "/net.safetensors";
  net.save(path);
  std::ifstream whole_file(path, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(whole_file), {});
  const auto loads = [&](const std::string& bytes) {
    return [&net, &path, bytes] {
      std::ofstream(path, std::ios::binary) << bytes;
      net.load(path);
    };
  };
  for (size_t length = 0; length < whole.size(); ++length)
    refused({"net.safetensors is no safetensors file"}, loads(whole.substr(0, length)));
  const std::string eight(8, '\0');
  refused({"its header does not end"}, loads(std::string(8, '\xff') + eight));
  refused({"JSON at byte 0: no value"}, loads(header_of("")));
  refused({"its header is no object"}, loads(header_of("[1]")));
  refused({"JSON at byte"}, loads(header_of("{\"w\": {}")));
  refused({"JSON at byte", "too deep"}, loads(header_of(std::string(100000, '['))));
  refused({"JSON at byte", "half a surrogate pair"}, loads(header_of("{\"\\ud800\": 1}")));
  refused({"tensor \"w\": dtype, shape or data_offsets is missing"}, loads(header_of("{\"w\": 3}")));
  refused({"no dtype \"F8_E4M3\" here"}, loads(header_of(tensor("F8_E4M3", "[2]", "[0, 2]")) + eight));
  refused({"no shape"}, loads(header_of(tensor("F32", "[-2]", "[0, 8]")) + eight));
  refused({"no shape"}, loads(header_of(tensor("F32", "[4294967296, 4294967296]", "[0, 8]")) + eight));
  refused({"no shape"}, loads(header_of(tensor("F32", "[2.0]", "[0, 8]")) + eight));
  refused({"outside of the file"}, loads(header_of(tensor("F32", "[2]", "[4, 12]")) + eight));
  refused({"outside of the file"}, loads(header_of(tensor("F32", "[2]", "[8, 0]")) + eight));
  refused({"8 bytes, its shape (3,) needs 12"}, loads(header_of(tensor("F32", "[3]", "[0, 8]")) + eight));
  const std::string member = "\"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}";
  refused({"is there twice"}, loads(header_of("{" + member + ", " + member + "}") + eight));
  refused({"missing weight, bias, unknown w"}, loads(header_of(tensor("F32", "[2]", "[0, 8]")) + eight));
  refused({"weight is (3, 2), the weights have (2, 3)"}, [&] { nn::Linear(3, 2).save(path), net.load(path); });
  refused({"missing bias, unknown none"}, [&] { net.load({{"weight", net.weight}}); });
  refused({"No such file"}, [&] { net.load(folder + "/none.safetensors"); });
  refused({"Is a directory"}, [&] { net.load(folder); });
  refused({"net.onnx", "No such file"}, [&] { net.load(folder + "/net.onnx"); });
  refused({"No such file", "cannot be written"}, [&] { net.save(folder + "/none/net.safetensors"); });
  std::filesystem::create_directories(folder + "/full/inside");
  refused({"full cannot be written"}, [&] { net.save(folder + "/full"); });
  refused({"two weights have the name \"a\""}, [&] { nn::save_weights(path, {{"a", net.weight}, {"a", net.bias}}); });
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    expect(entry.path().string().find("unfinished") == std::string::npos, "something unfinished was left");
  expect(net.weight.to_vector<float>() == before, "what was refused has changed the weights");
  // Names that need quoting, and no tensors at all, are no mistakes.
  const std::string name = "a\"\\\n\x01/\xc3\xa4";
  nn::save_weights(path, {{name, net.bias}});
  expect(nn::load_weights(path)[0].first == name, "a name with quotation marks");
  nn::save_weights(path, {});
  expect(nn::load_weights(path).empty(), "no weights");
}

void optimisers() {
  const nn::Linear net(2, 3);
  const Var x = metac::array(std::vector<float>(8, 1), {4, 2});
  refused({"newton"}, [&] { optim::Optimiser(net, "newton"); });
  refused({"momentun", "momentum"}, [&] { optim::Optimiser(net, "sgd", {{"momentun", 0.9}}); });
  refused({"no finite number"}, [&] { optim::Optimiser(net, "sgd", {{"momentum", NAN}}); });
  optim::Optimiser optimiser(net, "sgd", {{"momentum", 0.9}});
  refused({"a learning rate of -0.1"}, [&] { optimiser.step(metac::sum(net(x)), -0.1); });
  refused({"2 parameters"}, [&] { optimiser.step(std::vector<Var>{net.weight}); });
  refused({"state lacks \"weight/"}, [&] { optimiser.load_state({}, 3); });
  refused({"has another shape or dtype"}, [&] {
    metac::NamedVars state = optimiser.state();
    state[0].second = net.bias;
    optimiser.load_state(state, 3);
  });
  refused({"-1 steps"}, [&] { optimiser.load_state(optimiser.state(), -1); });
  expect(optimiser.steps() == 0, "what was refused counts as a step");
  refused({"no_such"}, [&] { optim::loss("no_such", x, x); });
  refused({"target \"target\" is float32 scalar", "float32 4x2"}, [&] { optim::loss("mse", x, metac::sum(x)); });
}

void indices() {
  const Var x = metac::array(std::vector<float>(8, 1), {2, 4});
  refused({"index 2 along axis 0, which has 2"}, [&] { at(x, 2); });
  refused({"index -5 along axis 1, which has 4"}, [&] { at(x, {0, -5}); });
  refused({"an index of 3 axes; the value has 2"}, [&] { at(x, {0, 0, 0}); });
  refused({"more than one ellipsis"}, [&] { at(x, {metac::ellipsis, metac::ellipsis}); });
  refused({"the step of a slice is 0"}, [&] { at(x, Slice{0, 2, 0}); });
  refused({"more than one list or Var"}, [&] { at(x, {std::vector<int64_t>{0}, std::vector<int64_t>{1}}); });
  refused({"axis 2 of a value of rank 2"}, [&] { sum(x, 2); });
  refused({"jvp() by 1 Vars along 0 tangents"}, [&] { metac::jvp(x, {x}, {}); });
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  modules();
  files(arguments[1]);
  optimisers();
  indices();
  std::printf("%d wrong uses\n", uses);
  return wrong ? 1 : 0;
}
