// A library that is linked into the program and one that it loads with RTLD_LOCAL share the program's threads; the argument
// is the one to load.
#include <dirent.h>

#include <cstdio>
#include <first.hpp>
#include <vector>

namespace {

int threads_of_process() {
  int count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

}  // namespace

int main(int, char** arguments) {
  const char* why = nullptr;
  const metac_model* const loaded = metac_model_open(arguments[1], &why);
  if (loaded == nullptr) return std::puts(why), 1;
  constexpr int64_t batch = 300;
  const std::vector<float> image(batch * 64, 0.5f);
  metac_model_options options{};
  options.threads = 2;
  metac_model_context* context = nullptr;
  metac_model_tensor answer{};
  {
    first::Model linked(options);
    const first::Tensor input = first::tensor(image.data(), {batch, 1, 8, 8});
    linked.run({input});
    const int with_one = threads_of_process();
    if (loaded->create(&options, &context) != METAC_MODEL_OK ||
        loaded->run(context, &input, 1, &answer, 1) != METAC_MODEL_OK)
      return std::puts(loaded->last_error(context)), 1;
    std::printf("%d %d", with_one, threads_of_process());
  }
  // The program's own context has gone, whose code the threads run.
  const first::Tensor input = first::tensor(image.data(), {batch, 1, 8, 8});
  answer = metac_model_tensor{};
  if (loaded->run(context, &input, 1, &answer, 1) != METAC_MODEL_OK) return std::puts(loaded->last_error(context)), 1;
  loaded->destroy(context);
  std::puts(" good");
}
