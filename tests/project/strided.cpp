// Tensors whose elements lie strides apart: answers are those of contiguous ones, what overlaps or has no room is refused,
// and what lies between the elements of an output stays as it is.
#include <cstdio>
#include <cstring>
#include <vector>

#include "first.hpp"

static int wrong = 0;
static void expect(bool good, const char* what, const char* found = "") {
  if (!good && ++wrong < 10) std::printf("%s: %s\n", what, found);
}

constexpr int64_t rows = 70, plane = 64, classes = 10;

struct Answer {
  std::vector<float> room = std::vector<float>(20000, -1.f);
  first_tensor tensor = {};
  Answer() { tensor.data = room.data(), tensor.bytes = static_cast<int64_t>(room.size() * sizeof(float)); }
};

static void inputs(first_context* context, const std::vector<float>& images, const std::vector<float>& right) {
  struct Layout {
    const char* name;
    int64_t strides[4], begin, elements;
  };
  const Layout layouts[] = {{"gaps between rows of pixels", {8 * 11, 1, 11, 1}, 0, rows * 88},
                            {"columns first", {64, 1, 1, 8}, 0, rows * 64},
                            {"the batch last", {1, 1, 8 * rows, rows}, 0, rows * 64},
                            {"every other element", {128, 77, 16, 2}, 0, rows * 128},
                            {"backwards", {-64, 64, -8, -1}, rows * 64 - 1, rows * 64},
                            {"contiguous", {64, 0, 8, 1}, 0, rows * 64}};
  for (const Layout& l : layouts) {
    std::vector<float> spread(static_cast<size_t>(l.elements), 1e30f);
    float* const first = spread.data() + l.begin;
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t y = 0; y < 8; ++y)
        for (int64_t x = 0; x < 8; ++x)
          first[n * l.strides[0] + y * l.strides[2] + x * l.strides[3]] = images[static_cast<size_t>(n * plane + y * 8 + x)];
    const first_tensor input = {first, rows * plane * 4, 4, {rows, 1, 8, 8}, FIRST_TYPE(FIRST_FLOAT32)};
    const int64_t* const strides[] = {l.strides};
    first_tensor output = {};
    const first_status status = first_run_strided(context, &input, 1, strides, &output, 1, nullptr);
    expect(status == FIRST_OK, l.name, first_last_error(context));
    expect(output.bytes == rows * classes * 4 && output.rank == 2 &&
               std::memcmp(output.data, right.data(), right.size() * sizeof(float)) == 0,
           l.name, "other answers");
  }
  // One image for all rows.
  const first_tensor input = {const_cast<float*>(images.data()), 0, 4, {rows, 1, 8, 8}, 0};
  const int64_t repeated[] = {0, 64, 8, 1};
  const int64_t* const strides[] = {repeated};
  first_tensor output = {};
  expect(first_run_strided(context, &input, 1, strides, &output, 1, nullptr) == FIRST_OK, "a stride of 0",
         first_last_error(context));
  for (int64_t n = 0; n < rows && output.data != nullptr; ++n)
    expect(std::memcmp(static_cast<float*>(output.data) + n * classes, right.data(), classes * sizeof(float)) == 0,
           "a stride of 0");
}

static void outputs(first_context* context, const first_tensor& input, const std::vector<float>& right) {
  for (const auto& [outer, inner] :
       {std::pair<int64_t, int64_t>{13, 1}, {40, 3}, {1, rows}, {2, 2 * rows + 3}, {classes, 1}}) {
    const int64_t apart[] = {outer, inner};
    const int64_t* const strides[] = {apart};
    const int64_t span = ((rows - 1) * outer + (classes - 1) * inner + 1) * 4;
    Answer answer;
    for (int turn = 0; turn < 2; ++turn) {  // the second with what the first wrote into the tensor
      expect(first_run_strided(context, &input, 1, nullptr, &answer.tensor, 1, strides) == FIRST_OK, "output",
             first_last_error(context));
      expect(answer.tensor.bytes == span && answer.tensor.data == answer.room.data() && answer.tensor.rank == 2,
             "its tensor");
    }
    size_t written = 0;
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t c = 0; c < classes; ++c)
        expect(answer.room[static_cast<size_t>(n * outer + c * inner)] == right[static_cast<size_t>(n * classes + c)],
               "an element");
    for (const float value : answer.room) written += value != -1.f;
    expect(written == right.size(), "what lies between elements changed");
    answer.tensor.bytes = span - 1;
    expect(first_run_strided(context, &input, 1, nullptr, &answer.tensor, 1, strides) == FIRST_INVALID_ARGUMENT,
           "too little memory");
  }
}

static void what_is_refused(first_context* context, const first_tensor& input) {
  const struct {
    const char* said;
    int64_t strides[2];
  } layouts[] = {{"may overlap", {9, 1}},
                 {"may overlap", {0, 1}},
                 {"not positive", {-10, 1}},
                 {"may overlap", {1, 1}},
                 {"may overlap", {INT64_MAX / 2, INT64_MAX / 2 - 1}},
                 {"the memory given has", {300, 1}}};
  for (const auto& l : layouts) {
    const int64_t* const strides[] = {l.strides};
    Answer answer;
    const first_status status = first_run_strided(context, &input, 1, nullptr, &answer.tensor, 1, strides);
    expect(status == FIRST_INVALID_ARGUMENT && std::strstr(first_last_error(context), l.said) != nullptr, l.said,
           first_last_error(context));
    for (const float value : answer.room) expect(value == -1.f, "something was written");
  }
  const int64_t apart[] = {12, 1}, turned[] = {64, 64, 1, 8};
  const int64_t *const strides[] = {apart}, *const in[] = {turned};
  first_tensor output = {}, other = input;
  expect(first_run_strided(context, &input, 1, in, &output, 1, strides) == FIRST_INVALID_ARGUMENT &&
             std::strstr(first_last_error(context), "no memory") != nullptr,
         "an output without memory", first_last_error(context));
  other.dims[3] = 9;
  other.bytes = 0;
  expect(first_run_strided(context, &other, 1, in, &output, 1, nullptr) == FIRST_INVALID_ARGUMENT, "other dims");
  other = input;
  other.data = nullptr;
  expect(first_run_strided(context, &other, 1, in, &output, 1, nullptr) == FIRST_INVALID_ARGUMENT, "no data");
  expect(first_run_strided(context, &input, 2, in, &output, 1, nullptr) == FIRST_INVALID_ARGUMENT, "two inputs");
  expect(first_run_strided(context, &input, 1, in, nullptr, 0, strides) == FIRST_INVALID_ARGUMENT, "no outputs");
  expect(first_run_strided(context, &input, 1, nullptr, &output, 1, nullptr) == FIRST_OK, "the run after",
         first_last_error(context));
}

static void in_cpp(const first_tensor& input, const std::vector<float>& right) {
  first::Model model(1);
  Answer answer;
  std::vector<first::Tensor> made = {answer.tensor};
  model.run_strided({input}, {}, made, {{16, 1}});
  expect(answer.room[16] == right[classes] && answer.room[classes] == -1.f, "in C++");
  model.run_strided({input}, {{}}, made, {});
  expect(answer.room[classes] == right[classes], "contiguous in C++");
  try {
    model.run_strided({input}, {{1, 2}}, made, {});
    expect(false, "two strides of an image");
  } catch (const first::Error& error) {
    expect(error.status == FIRST_INVALID_ARGUMENT, "the error", error.what());
  }
}

int main() {
  std::vector<float> images(rows * plane), right(rows * classes);
  for (size_t k = 0; k < images.size(); ++k) images[k] = static_cast<float>(k * 37 % 17) / 16;
  const first_tensor input = {images.data(), 0, 4, {rows, 1, 8, 8}, 0};
  first_tensor output = {right.data(), static_cast<int64_t>(right.size() * sizeof(float)), 0, {}, 0};
  first_context* context = nullptr;
  expect(first_create(nullptr, &context) == FIRST_OK && first_run(context, &input, 1, &output, 1) == FIRST_OK, "run");
  const int64_t before = first_held_bytes(context);
  inputs(context, images, right);
  expect(first_held_bytes(context) > before, "memory of gathered inputs is held");
  outputs(context, input, right);
  what_is_refused(context, input);
  in_cpp(input, right);
  first_destroy(context);
  if (wrong == 0) std::printf("right\n");
  return wrong != 0;
}
