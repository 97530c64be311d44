/* Two LLVMs in one process, libmetac's and the system's: both must work, whoever came first.
 *
 *   two_llvms ORDER LIBMETAC LIBLLVM MODEL      ORDER: metac-first, llvm-first, or linked-FIRST in the linked program
 *
 * Both libraries are opened with RTLD_GLOBAL, the worst that can happen to names that are not hidden. */
#include <dlfcn.h>
#include <metac/metac.h>
#include <stdio.h>
#include <string.h>

/* Of llvm-c, as it is declared there. */
typedef struct LLVMOpaqueModule* Module;
typedef struct LLVMOpaqueContext* Context;
typedef struct LLVMTarget* Target;

static void* names; /* where the functions are looked for */

/* ISO C has no conversion between pointers to objects and to functions; POSIX has it for dlsym. */
typedef void (*Function)(void);
static Function function(const char* name) {
  Function found = NULL;
  void* address = dlsym(names, name);
  memcpy(&found, &address, sizeof found);
  if (!found) fprintf(stderr, "%s is missing\n", name);
  return found;
}
#define CALL(type, name) ((type)function(name))

static int use_llvm(void) {
  CALL(void (*)(void), "LLVMInitializeX86TargetInfo")();
  CALL(void (*)(void), "LLVMInitializeX86Target")();
  CALL(void (*)(void), "LLVMInitializeX86TargetMC")();
  CALL(void (*)(void), "LLVMInitializeX86AsmPrinter")();
  Context context = CALL(Context(*)(void), "LLVMContextCreate")();
  Module module = CALL(Module(*)(const char*, Context), "LLVMModuleCreateWithNameInContext")("mine", context);
  char* text = CALL(char* (*)(Module), "LLVMPrintModuleToString")(module);
  Target target = NULL;
  char* message = NULL;
  const int bad =
      CALL(int (*)(const char*, Target*, char**), "LLVMGetTargetFromTriple")("x86_64-pc-linux-gnu", &target, &message);
  const int good = !bad && target && strstr(text, "ModuleID = 'mine'") != NULL;
  CALL(void (*)(char*), "LLVMDisposeMessage")(text);
  CALL(void (*)(Module), "LLVMDisposeModule")(module);
  CALL(void (*)(Context), "LLVMContextDispose")(context);
  return good;
}

static int use_metac(const char* model) {
  metac_session* session = NULL;
  metac_session_options options = {0};
  options.size = sizeof options;
  options.specialise = "eager";
  metac_status (*open)(const char*, const metac_session_options*, metac_session**) = NULL;
  metac_status (*run)(metac_session*, const metac_tensor*, int32_t, metac_result**) = NULL;
  open = CALL(metac_status(*)(const char*, const metac_session_options*, metac_session**), "metac_session_open");
  run = CALL(metac_status(*)(metac_session*, const metac_tensor*, int32_t, metac_result**), "metac_session_run");
  if (!open || !run || open(model, &options, &session) != METAC_OK) return 0;
  static const float pixels[3 * 64];
  const int64_t dims[] = {3, 1, 8, 8};
  const metac_tensor image = {"image", pixels, sizeof pixels, dims, 4, METAC_FLOAT32};
  metac_result* result = NULL;
  const metac_status status = run(session, &image, 1, &result);
  if (status != METAC_OK) fprintf(stderr, "%s\n", CALL(const char* (*)(void), "metac_last_error")());
  CALL(void (*)(metac_result*), "metac_result_free")(result);
  CALL(void (*)(metac_session*), "metac_session_close")(session);
  return status == METAC_OK;
}

static int load(const char* path) {
  if (dlopen(path, RTLD_NOW | RTLD_GLOBAL)) return 1;
  fprintf(stderr, "%s\n", dlerror());
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int linked = strncmp(argv[1], "linked-", 7) == 0;
  const int metac_first = strcmp(argv[1] + (linked ? 7 : 0), "metac-first") == 0;
  const char* first = metac_first ? argv[2] : argv[3];
  const char* second = metac_first ? argv[3] : argv[2];
  if (!linked && (!load(first) || !load(second))) return 1;
  names = dlopen(NULL, RTLD_NOW);
  /* Each is used before and after the other. */
  for (int round = 0; round < 2; ++round)
    for (int turn = 0; turn < 2; ++turn)
      if (!((turn == 0) == metac_first ? use_metac(argv[4]) : use_llvm())) {
        fprintf(stderr, "%s failed in round %d\n", (turn == 0) == metac_first ? "metac" : "LLVM", round);
        return 1;
      }
  puts("both work");
  return 0;
}
