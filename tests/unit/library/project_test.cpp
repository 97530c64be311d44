// Generated projects as text: names of the model are data and nothing else, the same input gives the same bytes, weights
// files say whose they are. (tests/project builds and runs projects.)
#include "compiler/codegen/project.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/codegen/build_project.h"
#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/project_name.h"
#include "compiler/codegen/text/fill_template.h"
#include "compiler/codegen/text/program_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/target/target.h"

namespace metac::project_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// y = w + x by one kernel, both of `n` elements.
CompiledModel small_model(const std::string& input = "x", const std::string& output = "y",
                          const std::string& parameter = "w") {
  CompiledModel m;
  CompiledProgram& p = m.run;
  p.symbols = {{"batch", 1, 64, 1}};
  p.code = {{rt::Code::symbol, 0}, {rt::Code::constant, 4}, {rt::Code::mul, 0}};
  p.extents = {{0, 1}};
  auto buffer = [](rt::BufferKind kind, int64_t offset) {
    return rt::Buffer{kind, rt::ScalarType::f32, false, 1, 0, offset, 0, {0, 3}, 0, 0};
  };
  p.buffers = {buffer(rt::BufferKind::input, -1), buffer(rt::BufferKind::weight, 0), buffer(rt::BufferKind::output, -1)};
  p.operands = {0, 1, 2};
  rt::Step step{};
  step.kind = rt::StepKind::launch;
  step.count = 3;
  step.parallel = {0, 1};
  step.symbol = step.else_begin = -1;
  p.steps = {step};
  p.work.resize(1);
  p.step_comments = {"k000_add"};
  p.top_level_steps = 1;
  p.sources = {{0, 0, 0}};
  p.inputs = {{input, 0, DType::f32, {"batch"}}};
  p.outputs = {{output, 2, DType::f32, {"batch"}}};
  p.kernels = {{"k000_add",
                "// k000_add\nextern \"C\" void k000_add(void* const* b, const int64_t* s, void* scratch, int64_t begin, "
                "int64_t end) {\n}\n",
                {0},
                {},
                "",
                {},
                {}}};
  p.kernels[0].reads = p.kernels[0].writes = {"float32"};
  p.messages = {"a \"message\" \\ of\nthe model"};
  p.weight_bytes = 64;
  m.prepare.inputs = {{parameter, 0, DType::f32, {"16"}}};
  m.prepare.extents = {{16, 0}};
  m.prepare.buffers = {rt::Buffer{rt::BufferKind::input, rt::ScalarType::f32, false, 1, 0, -1, 0, {64, 0}, 0, 0}};
  m.parameters = {{parameter, make_tensor<float>(DType::f32, {16}, std::vector<float>(16, 1.0f))}};
  m.weights = {{0, -1, 0, 64}};
  return m;
}

const std::byte weights[64] = {};

Project project_of(const CompiledModel& model, const std::string& name = "net",
                   std::vector<NodeLabel> nodes = {{"add", "Add"}}) {
  ProjectOptions options;
  options.name = name;
  options.model_hash = std::string(64, 'a');
  options.nodes = std::move(nodes);
  return write_project(model, weights, options);
}

TEST(Project, IsTheSameTwice) {
  EXPECT_EQ(project_of(small_model()).files, project_of(small_model()).files);
  EXPECT_EQ(project_of(small_model()).weights_header, project_of(small_model()).weights_header);
}

TEST(Project, NoTextOfTheModelIsCode) {
  const std::vector<std::string> hostile = {"*/ #include \"/etc/passwd\"",
                                            "x\n#include <evil.h>\nint main() {}",
                                            "\"); evil(\"",
                                            "?"
                                            "?/\" trigraph",
                                            "../../escape",
                                            "a.b",
                                            "a_b\\",
                                            std::string("nul\0inside", 10),
                                            std::string(1 << 20, 'A') + "\n",
                                            "\xe2\x80\xae"
                                            "rtl",
                                            "\xff\xfe broken",
                                            "R\"(raw)\"",
                                            "%s%n",
                                            "$(touch x)",
                                            "`touch x`",
                                            "'''\nimport os"};
  for (const std::string& name : hostile) {
    Project p = project_of(small_model(name, name, name), "net", {{name, name}});
    for (const auto& [path, text] : p.files) {
      EXPECT_EQ(path.find(name.substr(0, 1000)), std::string::npos) << path;
      // What could end a literal, a comment or a line stands nowhere as it is; the manifest escapes by JSON's rules.
      if (name.size() < 1000 && name.find_first_of("\"\n?") != std::string::npos) {
        EXPECT_EQ(text.find(name), std::string::npos) << path;
      }
    }
  }
}

TEST(Project, ManifestCarriesExactNames) {
  const std::string name = "weird \"name\" \n \x01";
  Project p = project_of(small_model(name), "net", {{name, "Add"}});
  nlohmann::json manifest = nlohmann::json::parse(p.files.at("net.json"));
  EXPECT_EQ(manifest["inputs"][0]["name"], name);
  EXPECT_EQ(manifest["kernels"][0]["nodes"][0]["name"], name);
  EXPECT_EQ(manifest["kernels"][0]["file"], "src/kernels_0.cpp");
  EXPECT_EQ(manifest["kernels"][0]["reads"][0], "float32");
  EXPECT_EQ(manifest["kernels"][0]["writes"][0], "float32");
}

TEST(Project, LiteralsSpellEveryByte) {
  EXPECT_EQ(c_string("a\"b\\c\n?\x7f\xff"
                     "7"),
            "\"a\\042b\\134c\\012\\077\\177\\3777\"");
  EXPECT_EQ(comment_name("block.1/conv:0", "node 3"), "block.1/conv:0");
  EXPECT_EQ(comment_name("a */ b", "node 3"), "node 3");
  EXPECT_EQ(comment_name(std::string(81, 'a'), "node 3"), "node 3");
  EXPECT_THAT(comment_text("x */ y \\\n z"), Not(HasSubstr("*/")));
  EXPECT_THAT(comment_text("x */ y \\\n z"), Not(HasSubstr("\n")));
}

TEST(Project, ExtentsReadAsExpressions) {
  CompiledModel m = small_model();
  EXPECT_EQ(extent_text(m.run, {0, 3}), "n0*4");
  EXPECT_EQ(extent_text(m.run, {12, 0}), "12");
}

TEST(Project, KernelsAreNoSymbolsOfTheWholeProgram) {
  Project p = project_of(small_model());
  EXPECT_THAT(p.files.at("src/kernels_0.cpp"), Not(HasSubstr("extern \"C\"")));
  EXPECT_THAT(p.files.at("src/kernels_0.cpp"), HasSubstr("namespace net_runtime {"));
}

TEST(Project, ForAGpuIsTheSameProjectWithCudaSources) {
  Project cpu = project_of(small_model());
  for (const auto& [path, text] : cpu.files) EXPECT_EQ(path.find("cuda"), std::string::npos) << path;
  ProjectOptions options;
  options.name = "net";
  options.parts = target_named("cuda").project_parts("80,100");
  Project gpu = write_project(small_model(), weights, options);
  EXPECT_THAT(gpu.files.at("src/kernels_0.cu"), HasSubstr("#include \"runtime/cuda/prelude.h\""));
  EXPECT_TRUE(gpu.files.count("src/runtime/cuda/prelude.h"));
  EXPECT_FALSE(gpu.files.count("src/kernels_0.cpp"));
  EXPECT_THAT(gpu.files.at("CMakeLists.txt"), HasSubstr("set(CMAKE_CUDA_ARCHITECTURES \"80-real;100\")"));
  const std::string nvcc = "/usr/bin/env";  // any program that there is
  const auto toolkit = gpu.find_toolkit([&](const std::string& program) { return program == "nvcc" ? nvcc : ""; });
  EXPECT_EQ(toolkit->compiler(), nvcc);
  const std::vector<std::string> flags = toolkit->compile_flags("g++");
  EXPECT_EQ((std::vector<std::string>{flags.end() - 3, flags.end()}),
            (std::vector<std::string>{"-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_100,code=sm_100",
                                      "-gencode=arch=compute_100,code=compute_100"}));
  for (const char* wrong : {"75", "90,80", "80,", "80,80", "8O"})
    EXPECT_THROW(target_named("cuda").project_parts(wrong), CompileError) << wrong;
  EXPECT_THROW(target_named("cpu").project_parts("80"), CompileError);
  EXPECT_EQ(nlohmann::json::parse(gpu.files.at("net.json"))["cuda_architectures"], (nlohmann::json{80, 100}));
  EXPECT_EQ(gpu.files.at("src/program.cpp"), cpu.files.at("src/program.cpp"));
  // The interface is the CPU's and what device memory and streams need.
  EXPECT_THAT(gpu.files.at("include/net.h"), HasSubstr("net_run_async("));
  for (const char* more : {"net_from_dlpack(", "net_to_dlpack("}) {
    EXPECT_THAT(gpu.files.at("include/net.h"), HasSubstr(more));
    EXPECT_EQ(cpu.files.at("include/net.h").find(more), std::string::npos) << more;
  }
  EXPECT_THAT(gpu.files.at("include/net.h"), HasSubstr("net_run(net_context* context"));
  EXPECT_THAT(gpu.files.at("python/net/__init__.py"), HasSubstr("def run_async("));
}

TEST(Project, TheWeightsSayWhoseTheyAre) {
  Project p = project_of(small_model());
  CompiledModel other = small_model();
  other.run.weight_bytes = 128;
  EXPECT_EQ(p.weights_header.size(), 4096u);
  EXPECT_EQ(p.weights_header.substr(0, 8), "metacwts");
  const std::byte more[128] = {};
  ProjectOptions options;
  options.name = "net";
  EXPECT_NE(write_project(other, more, options).weights_header, p.weights_header);
}

CpuTarget cpu(const std::string& name, int vector_bytes) {
  CpuTarget target;
  target.name = name;
  target.vector_bytes = vector_bytes;
  return target;
}

// What prepare programs read and the model does not name is nothing that a user sets.
TEST(Project, ConstantsAreNoParameters) {
  CompiledModel a = small_model(), b = small_model();
  for (CompiledModel* m : {&a, &b}) {
    m->parameters.insert(m->parameters.begin(), {"", make_tensor<float>(DType::f32, {3}, {1, 2, 3})});
    m->prepare.inputs.insert(m->prepare.inputs.begin(), {"", 0, DType::f32, {"3"}});
    m->weights = {{1, -1, 0, 64}};
  }
  ProjectOptions options;
  options.name = "net";
  for (size_t count : {1, 2}) {
    std::vector<LibraryProgram> programs = {{&a, weights, cpu("x86-64-v4", 64), "run"},
                                            {&b, weights, cpu("x86-64-v4", 64), "vjp"}};
    programs.resize(count);
    const LibraryWeights plan = plan_library_weights(programs);
    EXPECT_EQ(plan.parameters, (std::vector<std::pair<size_t, size_t>>{{0, 1}}));
    EXPECT_EQ(plan.constants, (std::vector<std::pair<size_t, size_t>>{{0, 0}}));
    for (const ProgramWeights& of : plan.programs) {
      EXPECT_EQ(of.parameters, (std::vector<int>{1, 0}));
      EXPECT_EQ(of.sources.at(0).parameter, 0);
    }
    std::string block;
    for (std::string_view piece : plan.file) block += piece;
    ASSERT_EQ(static_cast<int64_t>(block.size()), plan.bytes);
    EXPECT_EQ(std::memcmp(block.data() + plan.constant_offsets.at(0), a.parameters[0].tensor.bytes.get(), 12), 0);
    Project p = write_project(programs, options);
    EXPECT_THAT(p.files.at("include/net.h"), HasSubstr("#define NET_PARAMETERS 1\n"));
    EXPECT_EQ(nlohmann::json::parse(p.files.at("net.json"))["parameters"].size(), 1u);
  }
}

TEST(Project, SeveralProgramsShareParametersAndOneBlock) {
  CompiledModel a = small_model(), b = small_model();
  b.parameters.push_back({"other", make_tensor<float>(DType::f32, {16}, std::vector<float>(16, 2.0f))});
  b.prepare.inputs.push_back({"other", 0, DType::f32, {"16"}});
  std::swap(b.parameters[0], b.parameters[1]);
  std::swap(b.prepare.inputs[0], b.prepare.inputs[1]);
  b.run.buffers[1].offset = 128;
  b.run.weight_bytes = 256;
  b.weights = {{-1, 0, 0, 64}, {1, -1, 128, 64}};
  std::vector<std::byte> block(256, std::byte{1});
  const CpuTarget v4 = cpu("x86-64-v4", 64);
  const std::vector<LibraryProgram> programs = {
      {&a, weights, v4, "run"}, {&b, block.data(), v4, "vjp"}, {&a, weights, v4, "jvp"}, {&a, weights, v4, "hvp"}};
  const LibraryWeights plan = plan_library_weights(programs);
  ASSERT_EQ(plan.parameters.size(), 2u);
  EXPECT_EQ(plan.programs[0].parameters, std::vector<int>{0});
  EXPECT_EQ(plan.programs[1].parameters, (std::vector<int>{1, 0}));
  EXPECT_EQ(plan.shared_bytes, 4096);
  EXPECT_EQ(plan.bytes, 8192);  // nothing of the first's own, a page of the second's
  EXPECT_EQ(plan.programs[0].bytes, 0);
  EXPECT_EQ(plan.programs[1].from, 4096);
  EXPECT_EQ(with_weights_moved(a.run, plan, 0).buffers[1].offset, 0);
  EXPECT_EQ(with_weights_moved(b.run, plan, 1).buffers[1].offset, 0);  // the same parameter, once
  size_t bytes = 0;
  for (std::string_view piece : plan.file) bytes += piece.size();
  EXPECT_EQ(bytes, 8192u);
  ProjectOptions options;
  options.name = "net";
  Project p = write_project(programs, options);
  EXPECT_THAT(p.files.at("src/vjp_kernels_0.cpp"), HasSubstr("namespace net_runtime::vjp {"));
  EXPECT_EQ(p.files.at("src/kernels_0.cpp"), write_project(a, weights, options).files.at("src/kernels_0.cpp"));
  EXPECT_EQ(nlohmann::json::parse(p.files.at("net.json"))["programs"].size(), 3u);
  EXPECT_THAT(p.files.at("include/net.h"), HasSubstr("#define NET_VJP_INPUTS 1\n"));
  EXPECT_THAT(write_project(a, weights, options).files.at("include/net.h"), Not(HasSubstr("VJP")));
}

// Inline functions of the device headers may not meet: the linker would keep those of one instruction set for all.
TEST(Project, KernelsOfEachInstructionSetHaveANamespaceOfTheirOwn) {
  const CompiledModel m = small_model();
  ProjectOptions options;
  options.name = "net";
  Project p = write_project({{&m, weights, cpu("x86-64-v4", 64), "run"}, {&m, weights, cpu("x86-64", 16), "run"}}, options);
  EXPECT_THAT(p.files.at("src/x86_64_v4/kernels_0.cpp"),
              HasSubstr("#define METAC_RUNTIME_NAMESPACE net_runtime_x86_64_v4\n"));
  EXPECT_THAT(p.files.at("src/x86_64/kernels_0.cpp"), HasSubstr("#define METAC_RUNTIME_NAMESPACE net_runtime_x86_64\n"));
  EXPECT_EQ(p.kernel_cpus.at("src/x86_64/kernels_0.cpp").name, "x86-64");
  EXPECT_THAT(p.files.at("CMakeLists.txt"), HasSubstr("INCLUDE REGEX \"^src/x86_64/\""));
}

TEST(Project, NamesAreIdentifiers) {
  for (const char* bad : {"", "9net", "a b", "a-b", "int", "class", "a__b", "_a", "../x", "std", "naïve", "x"})
    EXPECT_THROW(check_project_name(bad), CompileError) << bad;
  for (const char* good : {"net", "resnet50", "ch_PP_OCRv4", "a1_b2"}) EXPECT_NO_THROW(check_project_name(good)) << good;
  EXPECT_EQ(project_name_for("ch_PP-OCRv4_det_infer.onnx"), "ch_pp_ocrv4_det_infer");
  EXPECT_EQ(project_name_for("320n.onnx"), "model_320n");
  EXPECT_EQ(project_name_for("int.onnx"), "int_model");
  EXPECT_EQ(project_name_for("F.onnx"), "f_model");
  EXPECT_EQ(project_name_for("???"), "model");
  for (const char* file : {"a__b.onnx", "__.onnx", "\xff\xff.onnx", "x.y.z.onnx"})
    EXPECT_NO_THROW(check_project_name(project_name_for(file))) << file;
}

class BuildProject : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "metac_project_" + name + "_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    tools_.find = [](const std::string& name) { return "/usr/bin/" + name; };
    tools_.run = [this](const std::vector<std::string>& argv, const std::string&, double) {
      bool version = argv.back() == "--version";
      return version ? ToolResult{0, 0, false, "compiler 1.0"} : answer_;
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string failure() {
    Project p = project_of(small_model());
    try {
      build_project(p, folder_ + "/out", tools_);
    } catch (const CompileError& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
  BuildTools tools_;
  ToolResult answer_;
};

TEST_F(BuildProject, WritesSourcesAlone) {
  BuildOptions options;
  options.build = false;
  build_project(project_of(small_model()), folder_ + "/out", tools_, options);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/out/CMakeLists.txt"));
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/out/net.weights"), 4096 + 64);
  build_project(project_of(small_model()), folder_ + "/out", tools_, options);  // replaces its own
}

TEST_F(BuildProject, ReplacesNobodyElsesFolder) {
  std::filesystem::create_directories(folder_ + "/out");
  write_file(folder_ + "/out/thesis.txt", "years of work");
  EXPECT_NE(failure(), "");
  EXPECT_EQ(std::string(read_file(folder_ + "/out/thesis.txt").view()), "years of work");
}

TEST_F(BuildProject, SaysWhatTheCompilerDid) {
  answer_ = {1, 0, false, "kernels.cpp:1: error: oh"};
  EXPECT_THAT(failure(), HasSubstr("failed (status 1)"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
  EXPECT_EQ(std::string(read_file(folder_ + "/out.build.log").view()), answer_.output);
  answer_ = {-1, 9, false, ""};
  EXPECT_THAT(failure(), HasSubstr("signal 9, probably out of memory"));
  answer_ = {-1, 0, true, ""};
  EXPECT_THAT(failure(), HasSubstr("was stopped after 600 s"));
  answer_ = {0, 0, false, ""};
  EXPECT_THAT(failure(), HasSubstr("wrote no object file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
}

TEST_F(BuildProject, KernelsAreCompiledInProcessUnlessACompilerIsNamed) {
  std::vector<std::string> compiled, kernels, keys;
  tools_.run = [&](const std::vector<std::string>& argv, const std::string& folder, double) {
    for (size_t k = 0; k + 1 < argv.size(); ++k) {
      if (argv[k] == "-o") write_file(folder + "/" + argv[k + 1], "\177ELF by " + argv[0]);
      if (argv[k] == "-c") compiled.push_back(argv[k + 1]);
    }
    return ToolResult{0, 0, false, "compiler 1.0"};
  };
  tools_.compile_kernels = [&](const std::string& text, const CpuTarget&) {
    return kernels.push_back(text), std::string("\177ELF of kernels");
  };
  tools_.kernel_compiler = [](const CpuTarget&) { return std::string("version 1"); };
  tools_.cached = [](const std::string&) { return std::string(); };
  tools_.keep = [&](const std::string& key, const std::string& object) {
    if (object == "\177ELF of kernels" || object == "\177ELF by " + tools_.find("g++")) keys.push_back(key);
  };
  BuildOptions options;
  options.jobs = 1;
  Project project = project_of(small_model());
  build_project(project, folder_ + "/out", tools_, options);
  EXPECT_EQ(kernels, std::vector<std::string>{project.files.at("src/kernels_0.cpp")});
  EXPECT_THAT(compiled,
              testing::UnorderedElementsAre("src/program.cpp", "src/prepare.cpp", "src/api.cpp", "src/model_table.cpp",
                                            "src/queue.cpp", "src/guarded_call.cpp", "src/run.cpp", "src/run_program.cpp"));
  tools_.kernel_compiler = [](const CpuTarget&) { return std::string("version 2"); };
  build_project(project, folder_ + "/out", tools_, options);
  EXPECT_EQ(kernels.size(), 2u);
  compiled.clear();
  options.compiler = "g++";
  build_project(project, folder_ + "/out", tools_, options);
  EXPECT_EQ(kernels.size(), 2u);
  EXPECT_THAT(compiled, testing::Contains("src/kernels_0.cpp"));
  ASSERT_EQ(keys.size(), 11u);  // one kernel file by each version, all nine files by g++
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 11u);
}

TEST_F(BuildProject, ZigDoesAllWhereTheSystemHasNoCompiler) {
  std::mutex mutex;  // jobs run side by side
  std::vector<std::string> commands;
  tools_.find = [](const std::string& name) { return name == "zig" ? "/packages/ziglang/zig" : ""; };
  tools_.run = [&](const std::vector<std::string>& argv, const std::string& folder, double) {
    std::string line;
    for (const std::string& word : argv) line += word + " ";
    {
      const std::lock_guard lock(mutex);
      commands.push_back(line);
    }
    for (size_t k = 0; k + 1 < argv.size(); ++k)
      if (argv[k] == "-o") write_file(folder + "/" + argv[k + 1], "\177ELF");
    return ToolResult{0, 0, false, "clang version 22.1.8"};
  };
  BuildOptions options;
  options.programs = false;
  build_project(project_of(small_model()), folder_ + "/out", tools_, options);
  const std::string target = " -target x86_64-linux-gnu.2.28 ";  // never the processor and the glibc of this machine
  for (const std::string& line : commands) {
    const bool links = line.find(" -shared ") != std::string::npos;
    EXPECT_EQ(line.rfind("/packages/ziglang/zig ", 0), 0u) << line;
    EXPECT_TRUE(line.find(" ar ") != std::string::npos || line.find(target) != std::string::npos) << line;
    // A C++ library is no part of a library, and zig would make its own first.
    if (links) {
      EXPECT_THAT(line, testing::AllOf(HasSubstr("zig cc"), HasSubstr("-Wl,--gc-sections")));
    }
    EXPECT_EQ(line.find("src/run"), std::string::npos) << line;
  }
  EXPECT_THAT(commands.back(), HasSubstr("zig ar qcD lib/libnet.a"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/out/bin"));
}

TEST_F(BuildProject, NamesTheCompilersItLookedFor) {
  tools_.find = [](const std::string&) { return std::string(); };
  EXPECT_THAT(failure(), HasSubstr("no C++ compiler found (looked for c++, g++, clang++ on PATH)"));
}

}  // namespace
}  // namespace metac::project_test
