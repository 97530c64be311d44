// All of metac.hpp: sessions from a file and from memory, moved, run, given weights, asked; errors as exceptions. Also that
// an input's memory is the caller's again when a call is back, although shapes that come again are compiled behind.
//
//   whole_header DIGITS.onnx
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <metac/metac.hpp>
#include <utility>

#include "small_model.h"

namespace {

#define EXPECT(condition)                                          \
  do {                                                             \
    if (!(condition)) {                                            \
      std::printf("line %d: %s is false\n", __LINE__, #condition); \
      std::exit(1);                                                \
    }                                                              \
  } while (0)

template <class Call>
metac::Error error_of(Call&& call) {
  try {
    call();
  } catch (const metac::Error& error) {
    return error;
  }
  return {METAC_OK, ""};
}

void use_streams() {
  metac::Options options;
  options.known_states = true;
  options.threads = 1;
  metac::Session session(keeping_model, sizeof keeping_model - 1, options);
  EXPECT(session.inputs().size() == 1 && session.outputs().size() == 1 && session.states().size() == 1);
  EXPECT(session.states()[0].name == "past" && session.states()[0].dim_names[1] == "kept");
  const std::vector<float> ones(20, 1.f);
  const auto sum = [&](metac::Stream& stream, int64_t steps) {
    return stream.run({{"x", ones.data(), {1, steps, 2}}})["y"].data<float>()[0];
  };
  metac::Stream one = session.stream(), two = session.stream();
  for (int k = 1; k <= 6; ++k) EXPECT(sum(one, 2) == 4 * static_cast<float>(k));
  session.wait();
  EXPECT(sum(one, 2) == 28 && sum(two, 1) == 2 && session.report().specialisations > 0);
  one.truncate(3);
  metac::Stream three = one.fork();
  EXPECT(sum(three, 5) == 16 && sum(one, 1) == 8 && one.get("past")[0].dims()[1] == 4);
  one.set({{"past", ones.data(), {1, 10, 2}}});
  EXPECT(sum(one, 1) == 22 && session.report().streams == 3 && session.report().state_bytes > 0);
  one.reset();
  three = std::move(one);
  metac::Stream four = std::move(three);
  EXPECT(sum(four, 1) == 2 && four.get());
  EXPECT(error_of([&] { four.truncate(9); }).status == METAC_INVALID_ARGUMENT);
  EXPECT(error_of([&] { four.get("passed"); }).status == METAC_INVALID_ARGUMENT);
  EXPECT(session.run({{"x", ones.data(), {1, 3, 2}}})["y"].data<float>()[0] == 6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  metac::Options options;
  options.specialise = "background";
  options.threads = 1;
  options.dims = {{"n", 1, 100, 1}};
  metac::Session session(small_model, sizeof small_model - 1, options);
  EXPECT(session.inputs().size() == 2 && session.inputs()[0].name == "x" && session.inputs()[0].dim_names[0] == "n");
  EXPECT(session.outputs().size() == 1 && session.outputs()[0].dims[1] == 4 && session.outputs()[0].dtype == METAC_FLOAT32);

  for (int64_t n = 1; n <= 100; n += 33)
    for (int run = 0; run < 4; ++run) {
      auto x = std::make_unique<std::vector<float>>(n * 4, 3.f), z = std::make_unique<std::vector<float>>(n, 1.f);
      const metac::Result result = session.run({{"x", x->data(), {n, 4}}, {"z", z->data(), {n, 1}}});
      x.reset(), z.reset();
      EXPECT(result.size() == 1 && result[0].name() == "y" && (result[0].dims() == std::vector<int64_t>{n, 4}));
      EXPECT(result["y"].count() == n * 4 && result["y"].dtype() == METAC_FLOAT32);
      for (const metac::Tensor& output : result)
        for (int64_t i = 0; i < output.count(); ++i) EXPECT(output.data<float>()[i] == 4);
      EXPECT(error_of([&] { result["y"].data<int32_t>(); }).status == METAC_INVALID_ARGUMENT);
      EXPECT(error_of([&] { result["w"]; }).status == METAC_INVALID_ARGUMENT);
    }
  session.wait();
  EXPECT(session.report().runs == 16 && session.report().waiting == 0 && session.report().specialisations > 0);

  const float w[] = {1, 2, 3, 4}, x[] = {1, 1, 1, 1}, z[] = {0};
  session.set_weights({{"w", w, {4}}});
  metac::Result first = session.run({{"x", x, {1, 4}}, {"z", z, {1, 1}}});
  metac::Session moved = std::move(session);
  metac::Result second = moved.run({{"z", z, {1, 1}, METAC_FLOAT32}, {"x", x, {1, 4}}});
  first = std::move(second);
  moved = metac::Session(argv[1]);  // the first one is closed; its results live on
  EXPECT(first[0].data<float>()[3] == 4 && moved.inputs()[0].name == "image" && moved.get());

  const metac::Error missing = error_of([] { metac::Session("no/such.onnx"); });
  EXPECT(missing.status == METAC_MODEL && std::string(missing.what()).find("no/such.onnx") != std::string::npos);
  EXPECT(error_of([&] { moved.run({}); }).status == METAC_INVALID_ARGUMENT);
  options.specialise = "now and then";
  EXPECT(error_of([&] { metac::Session(argv[1], options); }).status == METAC_INVALID_ARGUMENT);
  static_assert(metac::dtype_of<int64_t>() == METAC_INT64 && metac::dtype_of<unsigned char>() == METAC_UINT8);
  static_assert(metac::dtype_of<bool>() == METAC_BOOL && metac::dtype_of<double>() == METAC_FLOAT64);
  use_streams();
  std::puts("good");
  return 0;
}
