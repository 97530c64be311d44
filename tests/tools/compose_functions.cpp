// compose_functions [--seed N] [--share K] [--cxx PROGRAM]... [--cpu NAME]... [--only TEXT] [--keep DIR]
// Scalar functions applied to each other, as kernels have them: f(g(x), y) of every pair and f(g(h(x)), y) of triples, in
// every dtype, in scalar loops, in lanes and in kernels of few elements, against the same functions one at a time, each
// compiled alone and handing its results on through memory, where no compiler sees two of them. What differs by a bit is a
// compiler that folds them wrongly, or a function of runtime/device written so that it may (of NaN any will do). That the
// single functions are right is for the tests of tests/runtime. Compilers: the in-process one, and each --cxx with the
// options of generated projects; one that is not installed is skipped.
// --share K takes one pair in K and as many triples (1: every pair with several operands beside the second function, and
// about as many triples), and of float32 and float64 every pair of those that compilers fold most, beside a zero. Without
// --cpu: the machine's own. Ends with 'N passed, N failed, N skipped'; a compiler with an instruction set is one test. Exit
// status 3 on a failure.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "compiler/codegen/compiler_flags.h"
#include "compiler/ir/element.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/tensor.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/kernel_linker.h"
#include "compiler/jit/precompiled_prelude.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_scalar.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace fs = std::filesystem;
using namespace metac;

namespace {

constexpr int length = 100;                   // elements at most: vector bodies of every width and what is left of them
typedef std::array<uint64_t, length> Values;  // elements as their bits, 8 bytes each

// ---- functions with their types ----
struct Function {
  std::string name;
  std::vector<DType> from;
  DType to;
  bool in_lanes;
};

// What runtime/device has of a function in a dtype.
bool is_defined(Fn fn, DType t) {
  switch (fn) {
    case Fn::logical_not:
    case Fn::logical_and:
    case Fn::logical_or:
    case Fn::logical_xor:
      return is_bool(t);
    case Fn::bit_not:
    case Fn::bit_and:
    case Fn::bit_or:
    case Fn::bit_xor:
      return is_integer(t) || is_bool(t);
    case Fn::shift_left:
    case Fn::shift_right:
      return is_integer(t);
    case Fn::lt:
    case Fn::le:
    case Fn::eq:
    case Fn::ne:
    case Fn::select:
      return true;
    case Fn::min:
    case Fn::max:
    case Fn::is_nan:
    case Fn::is_inf:
      return true;
    case Fn::add:
    case Fn::sub:
    case Fn::mul:
    case Fn::div:
    case Fn::floor_div:
    case Fn::floor_mod:
    case Fn::trunc_mod:
    case Fn::pow:
    case Fn::neg:
    case Fn::abs:
    case Fn::sign:
    case Fn::floor:
    case Fn::ceil:
    case Fn::trunc:
    case Fn::rint:
      return !is_bool(t);
    case Fn::dot_u8s8:
    case Fn::dot_s8u8:
    case Fn::dot_i16:
    case Fn::dot_bf16:
    case Fn::pairs_s8u8:
    case Fn::pairs_s8s8:
    case Fn::add_i16:
    case Fn::sum_i16:
      return t == DType::i32;
    case Fn::bf16_word:
      return t == DType::f32;
    default:
      return is_float(t);
  }
}

std::vector<Function> all_functions() {
  static const std::vector<DType> dtypes = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i8,
                                            DType::i16, DType::i32, DType::i64,    DType::u8,   DType::u16,
                                            DType::u32, DType::u64, DType::boolean};
  std::vector<Function> all;
  for (DType t : dtypes) {
    const bool lanes = !is_half(t) && !is_bool(t);
#define F(fn, arity)                                                           \
  if (is_defined(Fn::fn, t)) {                                                 \
    Function f{#fn, std::vector<DType>(arity, t), dtype_of(Fn::fn, t), lanes}; \
    if (Fn::fn == Fn::select) f.from[0] = DType::boolean;                      \
    all.push_back(std::move(f));                                               \
  }
#include "compiler/ir/scalar_functions.def"
#undef F
    for (DType to : dtypes)
      if (to != t) all.push_back({concat("cast_to<", info(to).cpp_name, ">"), {t}, to, false});
  }
  return all;
}

// Bits of an element: the special values of its dtype, and ordinary ones.
uint64_t bits_of(DType t, double real, int64_t whole) {
  uint64_t bits = 0;
  with_element(t, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (std::is_same_v<T, double>)
      element = real;
    else if constexpr (is_real_element<T>)
      element = to_element<T>(static_cast<float>(real));
    else
      element = to_element<T>(whole);
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

std::vector<uint64_t> special_values(DType t) {
  std::vector<uint64_t> out;
  if (is_float(t)) {
    for (double x : {0.0,
                     -0.0,
                     1.0,
                     -1.0,
                     0.5,
                     -0.5,
                     2.5,
                     -3.0,
                     7.0,
                     -88.0,
                     104.0,
                     1e-3,
                     -1e-3,
                     65504.0,
                     -3e9,
                     1e19,
                     static_cast<double>(INFINITY),
                     -static_cast<double>(INFINITY),
                     static_cast<double>(NAN),
                     -static_cast<double>(NAN)})
      out.push_back(bits_of(t, x, 0));
    const uint64_t sign = uint64_t{1} << (8 * size_of(t) - 1), infinity = bits_of(t, static_cast<double>(INFINITY), 0),
                   least_normal = infinity & (~infinity + 1);
    for (uint64_t bits : {uint64_t{1}, least_normal, least_normal - 1, infinity - 1})
      out.push_back(bits), out.push_back(bits | sign);
  } else {
    for (int64_t x : {0, 1, -1, 2, -2, 3, 5, -7, 31, 32, 33, 63, 64, 127, -128, 200}) out.push_back(bits_of(t, 0, x));
    if (is_integer(t))
      for (int64_t edge : {min_value(t), max_value(t)})
        out.push_back(bits_of(t, 0, edge)), out.push_back(bits_of(t, 0, edge ^ 1));
  }
  return out;
}

Values values_of(DType t, std::mt19937_64& random) {
  static std::map<DType, std::vector<uint64_t>> specials;
  std::vector<uint64_t>& special = specials[t];
  if (special.empty()) special = special_values(t);
  Values v{};
  for (uint64_t& x : v)
    x = random() % 4 ? special[random() % special.size()]
                     : bits_of(t, (static_cast<double>(random() % 2001) - 1000) / 64, static_cast<int64_t>(random()));
  return v;
}

bool is_nan_bits(DType t, uint64_t bits) {
  return is_float(t) && (bits & ~(uint64_t{1} << (8 * size_of(t) - 1))) > bits_of(t, static_cast<double>(INFINITY), 0);
}

// ---- compositions ----
// A leaf (x, y or a constant of a dtype) or a function of nodes.
struct Node {
  const Function* function = nullptr;
  DType dtype;
  int leaf = 0;  // 0: x, 1: y, 2: a constant
  uint64_t constant = 0;
  std::vector<Node> arguments;
};

bool has_variable(const Node& n) {
  return n.function ? std::any_of(n.arguments.begin(), n.arguments.end(), has_variable) : n.leaf < 2;
}
void collect_leaves(const Node& n, std::set<std::pair<DType, int>>* leaves) {
  if (!n.function && n.leaf < 2) leaves->insert({n.dtype, n.leaf});
  for (const Node& a : n.arguments) collect_leaves(a, leaves);
}
// All in lanes of one dtype and masks of it?
bool fits_lanes(const Node& n, DType t) {
  if (!n.function) return n.dtype == t || (is_bool(n.dtype) && n.leaf < 2);
  const bool logic = n.function->name.rfind("logical_", 0) == 0;  // of masks
  if (!logic && !n.function->in_lanes) return false;
  return (n.dtype == t || is_bool(n.dtype)) &&
         std::all_of(n.arguments.begin(), n.arguments.end(), [&](const Node& a) { return fits_lanes(a, t); });
}
DType lane_dtype(const Node& n) {  // boolean: none
  if (!is_bool(n.dtype)) return n.dtype;
  for (const Node& a : n.arguments)
    if (DType t = lane_dtype(a); !is_bool(t)) return t;
  return DType::boolean;
}

std::string constant_text(DType t, uint64_t bits) {
  const std::string type(info(t).cpp_name);
  if (is_half(t)) return concat("half_of<", type, ">(", bits, ")");
  if (is_bool(t)) return bits ? "true" : "false";
  if (!is_float(t)) return concat("static_cast<", type, ">(", bits, "ull)");
  double value;
  if (t == DType::f32) {
    float narrow;
    std::memcpy(&narrow, &bits, 4);
    value = static_cast<double>(narrow);
  } else {
    std::memcpy(&value, &bits, 8);
  }
  const std::string suffix = t == DType::f32 ? "f" : "";
  if (std::isnan(value)) return concat(std::signbit(value) ? "-" : "", "__builtin_nan", suffix, "(\"\")");
  if (std::isinf(value)) return concat(std::signbit(value) ? "-" : "", "__builtin_inf", suffix, "()");
  char text[64];
  std::snprintf(text, sizeof text, "%a%s", value, suffix.c_str());
  return text;
}

std::string leaf_name(DType t, int leaf) { return concat(leaf ? "y_" : "x_", info(t).cpp_name); }

// `lanes`: 0 for scalars.
std::string text_of(const Node& n, DType t, int lanes) {
  const std::string vector = concat("Vec<", info(t).cpp_name, ", ", lanes, ">");
  if (!n.function && n.leaf == 2)
    return lanes ? concat("broadcast<", vector, ">(", constant_text(n.dtype, n.constant), ")")
                 : constant_text(n.dtype, n.constant);
  if (!n.function && lanes && is_bool(n.dtype))
    return concat("to_mask<", vector, ">(load<Vec<bool, ", lanes, ">>(", leaf_name(n.dtype, n.leaf), " + i))");
  if (!n.function)
    return lanes ? concat("load<", vector, ">(", leaf_name(n.dtype, n.leaf), " + i)") : leaf_name(n.dtype, n.leaf) + "[i]";
  std::string text = n.function->name + "(";
  for (size_t k = 0; k < n.arguments.size(); ++k) text += (k ? ", " : "") + text_of(n.arguments[k], t, lanes);
  return text + ")";
}

struct Composition {
  Node root;
  int lanes = 0;  // of its vector loop; 0: scalars
  int fixed = 0;  // so many elements, known when compiling; 0: any
};

// Every leaf has its place among the buffers.
std::string buffers_text(const Node& root) {
  std::set<std::pair<DType, int>> leaves;
  collect_leaves(root, &leaves);
  std::string text;
  int place = 0;
  for (auto [t, leaf] : leaves)
    text += concat("  const ", info(t).cpp_name, "* __restrict__ ", leaf_name(t, leaf), " = (const ", info(t).cpp_name,
                   "*)in[", place++, "];\n");
  return text;
}

std::string kernel_text(const std::string& name, const Composition& c) {
  const std::string type(info(c.root.dtype).cpp_name);
  std::string text = concat("extern \"C\" __attribute__((visibility(\"default\"))) void ", name,
                            "(const void* const* in, void* result, int64_t n) {\n", buffers_text(c.root), "  ", type,
                            "* __restrict__ out = (", type, "*)result;\n");
  if (c.fixed) text += concat("  n = ", c.fixed, ";\n");
  text += "  int64_t i = 0;\n";
  if (c.lanes) {
    const std::string value = text_of(c.root, lane_dtype(c.root), c.lanes);
    text += concat("  for (; i + ", c.lanes, " <= n; i += ", c.lanes, ") store(out + i, ",
                   is_bool(c.root.dtype) ? "to_bool(" + value + ")" : value, ");\n");
  }
  return text + concat("  for (; i < n; ++i) out[i] = ", text_of(c.root, c.root.dtype, 0), ";\n}\n");
}

// Draws leaves and asks for compositions.
class Generator {
 public:
  Generator(uint64_t seed, int share, int vector_bytes)
      : random_(seed), share_(share), vector_bytes_(vector_bytes), functions_(all_functions()) {
    for (const Function& f : functions_) by_result_[f.to].push_back(&f);
  }

  const std::vector<Function>& functions() const { return functions_; }

  std::vector<Composition> compositions(const std::string& only) {
    std::vector<Composition> all;
    for (const Function& f : functions_) {
      for (size_t hole = 0; hole < f.from.size(); ++hole) {
        for (const Function* g : by_result_[f.from[hole]]) {
          for (int constants = 0; constants < (f.from.size() > 1 ? 3 : 1);
               ++constants) {  // what stands beside g: variables, zero, another constant
            const bool always = constants == 1 && is_folded(f, f.from[hole]) && is_folded(*g, g->from.back());
            if (always)
              add(make(f, hole, with_leaves(*g, 0), zeros), only, &all);
            else if (random_() % static_cast<uint64_t>(share_) == 0)
              add(make(f, hole, with_leaves(*g), constants), only, &all);
          }
          for (int k = 0; k < 2; ++k) {
            if (random_() % static_cast<uint64_t>(share_) == 0) add(triple(f, hole, *g), only, &all);
          }
        }
      }
    }
    return all;
  }

 private:
  static constexpr int zeros = 3;  // and nothing else
  Node leaf(DType t, int constants) {
    Node n{.dtype = t};
    if (constants > 0 && !is_bool(t)) {
      static const std::map<DType, std::vector<uint64_t>> specials = [] {
        std::map<DType, std::vector<uint64_t>> all;
        for (DType d : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                        DType::u8, DType::u16, DType::u32, DType::u64})
          all[d] = special_values(d);
        return all;
      }();
      n.leaf = 2;
      n.constant = constants == zeros ? 0
                   : constants == 1   ? (random_() % 4 ? 0 : specials.at(t)[1])
                                      : specials.at(t)[random_() % specials.at(t).size()];
    } else {
      n.leaf = static_cast<int>(random_() % 2);
    }
    return n;
  }
  // One constant in `in` leaves; 0: none.
  Node with_leaves(const Function& g, uint64_t in = 4) {
    Node n{.function = &g, .dtype = g.to};
    for (DType t : g.from)
      n.arguments.push_back(leaf(t, in && random_() % in == 0 ? 1 + static_cast<int>(random_() % 2) : 0));
    return n;
  }
  Node make(const Function& f, size_t hole, Node inner, int constants) {
    Node n{.function = &f, .dtype = f.to};
    for (size_t k = 0; k < f.from.size(); ++k) n.arguments.push_back(k == hole ? inner : leaf(f.from[k], constants));
    return n;
  }
  // A third function within the second, beside it, or the second twice.
  Node triple(const Function& f, size_t hole, const Function& g) {
    const int constants = static_cast<int>(random_() % 3);
    const uint64_t way = random_() % 3;
    Node inner = with_leaves(g);
    auto draw = [&](DType t) -> const Function& {
      const auto& candidates = by_result_[t];
      return *candidates[random_() % candidates.size()];
    };
    if (way == 0 || f.from.size() == 1) {
      const size_t place = random_() % g.from.size();
      inner.arguments[place] = with_leaves(draw(g.from[place]));
      return make(f, hole, inner, constants);
    }
    Node n = make(f, hole, inner, constants);
    size_t other = (hole + 1 + random_() % (f.from.size() - 1)) % f.from.size();
    n.arguments[other] = way == 1 || f.from[other] != g.to  ? with_leaves(draw(f.from[other]))
                         : inner.arguments[0].dtype == g.to ? inner.arguments[0]
                                                            : inner;
    return n;
  }

  void add(Node root, const std::string& only, std::vector<Composition>* all) {
    auto whole = [](const Node& n,
                    auto& self) -> bool {  // no call of constants alone: compilers evaluate it as another libm does
      return !n.function || (has_variable(n) && std::all_of(n.arguments.begin(), n.arguments.end(),
                                                            [&](const Node& a) { return self(a, self); }));
    };
    if (!whole(root, whole) || is_approximate_power(root)) return;
    if (!only.empty() && text_of(root, root.dtype, 0).find(only) == std::string::npos) return;
    Composition c{.root = std::move(root)};
    if (DType t = lane_dtype(c.root); random_() % 2 && !is_bool(t) && !is_half(t) && fits_lanes(c.root, t)) {
      c.lanes = std::min<int>(64, vector_bytes_ / static_cast<int>(size_of(t)));
    } else if (random_() % 4 == 0) {
      c.fixed = 1 + static_cast<int>(random_() % 9);
    }
    all->push_back(std::move(c));
  }
  // What compilers know best, and fold most.
  static bool is_folded(const Function& f, DType t) {
    static const std::set<std::string> names = {"neg", "abs", "sign", "min", "max",    "select",
                                                "lt",  "le",  "eq",   "ne",  "is_nan", "is_inf"};
    return (t == DType::f32 || t == DType::f64 || is_bool(t)) && names.count(f.name);
  }
  // pow(x, 2.0) is x * x to a compiler, and to libm within a unit of the last place.
  static bool is_approximate_power(const Node& n) {
    if (n.function && n.function->name == "pow" && is_float(n.dtype) && n.arguments[1].leaf == 2 && !n.arguments[1].function)
      return true;
    return std::any_of(n.arguments.begin(), n.arguments.end(), is_approximate_power);
  }

  std::mt19937_64 random_;
  int share_, vector_bytes_;
  std::vector<Function> functions_;
  std::map<DType, std::vector<const Function*>> by_result_;
};

// ---- compilers ----
typedef void (*Kernel)(const void* const*, void*, int64_t);

constexpr const char* constants_text = R"(
template <class H> static inline H half_of(uint16_t bits) { H h; h.bits = bits; return h; }
)";

// Kernels by name out of text.
class Compiler {
 public:
  Compiler(std::string program, CpuTarget cpu, std::string folder)
      : program_(std::move(program)), cpu_(std::move(cpu)), folder_(std::move(folder)) {
    if (!program_.empty()) flags_ = kernel_flags(cpu_, version_of_clang(program_));
  }
  std::string name() const { return concat(program_.empty() ? "in-process" : program_, " ", cpu_.name); }

  std::vector<Kernel> compile(const std::string& text, const std::vector<std::string>& names) {
    std::vector<Kernel> kernels;
    if (program_.empty()) {
      std::string object = compile_object(prelude_line + std::string(constants_text) + text, cpu_);
      auto code = std::make_unique<LinkedCode>(std::vector<std::string>{std::move(object)});
      for (void* address : code->addresses(names)) kernels.push_back(reinterpret_cast<Kernel>(address));
      std::lock_guard<std::mutex> lock(mutex_);
      linked_.push_back(std::move(code));
      return kernels;
    }
    const std::string base = concat(folder_, "/", next_++);
    write_file(base + ".cpp", concat("#include \"runtime/device/prelude.h\"\n", constants_text, text));
    std::string command = program_;
    for (const std::string& f : flags_) command += " " + f;
    command += concat(" -w -shared -I" METAC_SOURCE_DIR " ", base, ".cpp -o ", base, ".so -lm 2> ", base, ".log");
    if (std::system(command.c_str()) != 0) fail(name(), " does not compile ", base, ".cpp, see ", base, ".log");
    void* library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    for (const std::string& n : names) kernels.push_back(reinterpret_cast<Kernel>(dlsym(library, n.c_str())));
    return kernels;
  }

 private:
  static int version_of_clang(const std::string& program) {
    FILE* pipe = popen((program + " --version").c_str(), "r");
    char text[256] = {};
    if (pipe) {
      (void)!std::fread(text, 1, sizeof text - 1, pipe);
      pclose(pipe);
    }
    return clang_version(text);
  }

  std::string program_;
  CpuTarget cpu_;
  std::string folder_;
  std::vector<std::string> flags_;
  std::atomic<int> next_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<LinkedCode>> linked_;
};

// ---- the comparison ----
std::vector<unsigned char> packed(DType t, const Values& values) {
  std::vector<unsigned char> memory(length * size_of(t) + 64);
  for (int i = 0; i < length; ++i)
    std::memcpy(memory.data() + static_cast<size_t>(i) * size_of(t), &values[static_cast<size_t>(i)], size_of(t));
  return memory;
}

class Comparison {
 public:
  Comparison(Compiler& compiler, const Generator& generator, uint64_t seed) : compiler_(compiler) {
    std::mt19937_64 random(seed);
    for (DType t : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                    DType::u8, DType::u16, DType::u32, DType::u64, DType::boolean})
      for (int leaf : {0, 1}) leaves_[{t, leaf}] = packed(t, values_of(t, random));
    // Single functions: each element comes from memory that the compiler knows nothing of, and goes there.
    std::string text;
    std::vector<std::string> names;
    for (const Function& f : generator.functions()) {
      names.push_back(concat("single", names.size()));
      text += concat("extern \"C\" __attribute__((visibility(\"default\"))) void ", names.back(),
                     "(const void* const* in, void* out, int64_t i) { ((volatile Bits<", info(f.to).cpp_name,
                     ">*)out)[i].keep(", f.name, "(");
      for (size_t k = 0; k < f.from.size(); ++k)
        text += concat(k ? ", " : "", "((const ", info(f.from[k]).cpp_name, "*)in[", k, "])[i]");
      text += ")); }\n";
      singles_[&f] = nullptr;
    }
    const std::vector<Kernel> kernels = compiler.compile(
        "template <class T> struct Bits { T x; void keep(T v) volatile { __builtin_memcpy((void*)&x, &v, sizeof v); } };\n" +
            text,
        names);
    size_t k = 0;
    for (const Function& f : generator.functions()) singles_[&f] = kernels[k++];
  }

  // Returns how many compositions differ; says which.
  int compare(const std::vector<Composition>& all, int threads) {
    constexpr size_t unit = 60;
    std::atomic<size_t> next{0};
    std::atomic<int> wrong{0};
    std::mutex mutex;
    std::string error;
    auto work = [&] {
      for (size_t first; (first = unit * next++) < all.size();) {
        std::string text;
        std::vector<std::string> names;
        const size_t end = std::min(first + unit, all.size());
        for (size_t k = first; k < end; ++k) names.push_back(concat("kernel", k)), text += kernel_text(names.back(), all[k]);
        try {
          const std::vector<Kernel> kernels = compiler_.compile(text, names);
          for (size_t k = first; k < end; ++k) {
            const std::string difference = difference_of(all[k], kernels[k - first], k);
            if (difference.empty() || ++wrong > 40) continue;
            std::lock_guard<std::mutex> lock(mutex);
            std::cout << compiler_.name() << ": " << difference << "\n";
          }
        } catch (const std::exception& e) {
          std::lock_guard<std::mutex> lock(mutex);
          if (error.empty()) error = e.what();
          return;
        }
      }
    };
    std::vector<std::thread> others;
    for (int k = 1; k < threads; ++k) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    if (!error.empty()) fail(error);
    return wrong;
  }

 private:
  std::vector<unsigned char> by_steps(const Node& n) const {
    if (!n.function && n.leaf == 2) {
      Values v;
      v.fill(n.constant);
      return packed(n.dtype, v);
    }
    if (!n.function) return leaves_.at({n.dtype, n.leaf});
    std::vector<std::vector<unsigned char>> arguments;
    for (const Node& a : n.arguments) arguments.push_back(by_steps(a));
    std::vector<const void*> in;
    for (const auto& a : arguments) in.push_back(a.data());
    std::vector<unsigned char> out(length * size_of(n.dtype) + 64);
    for (int i = 0; i < length; ++i) singles_.at(n.function)(in.data(), out.data(), i);
    return out;
  }

  std::string difference_of(const Composition& c, Kernel kernel, size_t number) const {
    std::set<std::pair<DType, int>> used;
    collect_leaves(c.root, &used);
    std::vector<const void*> in;
    for (const auto& leaf : used) in.push_back(leaves_.at(leaf).data());
    const std::vector<unsigned char> expected = by_steps(c.root);
    const size_t bytes = size_of(c.root.dtype);
    std::vector<int> lengths = {length, 1, 1 + static_cast<int>(number % 99)};
    if (c.fixed) lengths = {c.fixed};
    for (int n : lengths) {
      std::vector<unsigned char> out(length * bytes + 64, 0x5a);
      kernel(in.data(), out.data(), n);
      for (int i = 0; i < length; ++i) {
        uint64_t got = 0, wanted = 0, untouched = 0;
        std::memcpy(&got, out.data() + static_cast<size_t>(i) * bytes, bytes);
        std::memcpy(&wanted, expected.data() + static_cast<size_t>(i) * bytes, bytes);
        std::memset(&untouched, 0x5a, bytes);
        if (i >= n) wanted = untouched;
        if (got == wanted || (i < n && is_nan_bits(c.root.dtype, got) && is_nan_bits(c.root.dtype, wanted))) continue;
        std::string values;
        for (const auto& [t, leaf] : used) {
          uint64_t bits = 0;
          std::memcpy(&bits, leaves_.at({t, leaf}).data() + static_cast<size_t>(i) * size_of(t), size_of(t));
          values += concat(", ", leaf_name(t, leaf), " ", constant_text(t, bits));
        }
        return concat(text_of(c.root, c.root.dtype, 0), c.lanes ? " in lanes" : "", " of ", n, " elements: element ", i,
                      " is ", constant_text(c.root.dtype, got), ", by steps ", constant_text(c.root.dtype, wanted), values);
      }
    }
    return "";
  }

  Compiler& compiler_;
  std::map<std::pair<DType, int>, std::vector<unsigned char>> leaves_;
  std::map<const Function*, Kernel> singles_;
};

bool is_installed(const std::string& program) {
  return std::system(concat("command -v ", program, " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1;
  int share = 60, passed = 0, failed = 0, skipped = 0;
  std::vector<std::string> programs, cpus;
  std::string only, folder = (fs::temp_directory_path() / concat("compose_functions.", getpid())).string();
  bool keep = false;
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string option = argv[k], value = argv[k + 1];
    if (option == "--seed")
      seed = std::stoull(value);
    else if (option == "--share")
      share = std::stoi(value);
    else if (option == "--cxx")
      programs.push_back(value);
    else if (option == "--cpu")
      cpus.push_back(value);
    else if (option == "--only")
      only = value;
    else if (option == "--keep")
      folder = value, keep = true;
    else
      return std::cerr << option << " is not known\n", 2;
  }
  if (cpus.empty()) cpus = {"native"};
  programs.insert(programs.begin(), "");
  fs::create_directories(folder);
  for (const std::string& program : programs) {
    for (const std::string& name : cpus) {
      const CpuTarget cpu = cpu_target(name);
      if ((!program.empty() && !is_installed(program)) || !runs_here(cpu)) {
        std::cout << program << " " << name << ": skipped, "
                  << (runs_here(cpu) ? "not installed" : "this machine cannot run it") << "\n";
        ++skipped;
        continue;
      }
      const std::string place = concat(folder, "/", passed + failed);
      fs::create_directories(place);
      try {
        Generator generator(seed, share, cpu.vector_bytes);
        const std::vector<Composition> all = generator.compositions(only);
        Compiler compiler(program, cpu, place);
        Comparison comparison(compiler, generator, seed);
        const int wrong = comparison.compare(all, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
        std::cout << compiler.name() << ": " << all.size() << " compositions, " << wrong << " wrong" << std::endl;
        ++(wrong ? failed : passed);
      } catch (const std::exception& e) {
        std::cout << e.what() << std::endl;
        ++failed;
      }
    }
  }
  if (!keep) fs::remove_all(folder);
  std::cout << passed << " passed, " << failed << " failed, " << skipped << " skipped\n";
  return failed ? 3 : 0;
}
