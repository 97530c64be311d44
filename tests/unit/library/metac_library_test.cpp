// What generated libraries with --jit declare of libmetac's C interface, against the interface.
#include "runtime/specialise/metac_library.h"

#include <gtest/gtest.h>

#include "compiler/api/include/metac/metac.h"

namespace metac {
namespace {

namespace rt = metac_runtime;

#define EXPECT_FIELD(theirs, ours, field)                                              \
  EXPECT_EQ(offsetof(theirs, field), offsetof(rt::ours, field)) << #theirs "." #field; \
  EXPECT_EQ(sizeof(theirs::field), sizeof(rt::ours::field)) << #theirs "." #field

TEST(MetacLibrary, StructsAreThoseOfTheInterface) {
  EXPECT_FIELD(metac_tensor, MetacTensor, name);
  EXPECT_FIELD(metac_tensor, MetacTensor, data);
  EXPECT_FIELD(metac_tensor, MetacTensor, bytes);
  EXPECT_FIELD(metac_tensor, MetacTensor, dims);
  EXPECT_FIELD(metac_tensor, MetacTensor, rank);
  EXPECT_FIELD(metac_tensor, MetacTensor, dtype);
  EXPECT_EQ(sizeof(metac_tensor), sizeof(rt::MetacTensor));
  EXPECT_FIELD(metac_dim, MetacDim, name);
  EXPECT_FIELD(metac_dim, MetacDim, min);
  EXPECT_FIELD(metac_dim, MetacDim, max);
  EXPECT_FIELD(metac_dim, MetacDim, divisor);
  EXPECT_EQ(sizeof(metac_dim), sizeof(rt::MetacDim));
  EXPECT_FIELD(metac_block, MetacBlock, data);
  EXPECT_FIELD(metac_block, MetacBlock, bytes);
  EXPECT_EQ(sizeof(metac_block), sizeof(rt::MetacBlock));
}

TEST(MetacLibrary, OptionsAndReportsBeginAsTheInterfacesDo) {
  EXPECT_FIELD(metac_session_options, MetacOptions, size);
  EXPECT_FIELD(metac_session_options, MetacOptions, specialise);
  EXPECT_FIELD(metac_session_options, MetacOptions, threads);
  EXPECT_FIELD(metac_session_options, MetacOptions, max_contexts);
  EXPECT_FIELD(metac_session_options, MetacOptions, max_specialisations);
  EXPECT_FIELD(metac_session_options, MetacOptions, dim_count);
  EXPECT_FIELD(metac_session_options, MetacOptions, max_memory);
  EXPECT_FIELD(metac_session_options, MetacOptions, dims);
  EXPECT_FIELD(metac_session_options, MetacOptions, cpu);
  EXPECT_FIELD(metac_session_options, MetacOptions, target);
  EXPECT_FIELD(metac_session_options, MetacOptions, weights);
  EXPECT_FIELD(metac_session_options, MetacOptions, weight_count);
  EXPECT_FIELD(metac_session_options, MetacOptions, prepared_count);
  EXPECT_FIELD(metac_session_options, MetacOptions, prepared);
  EXPECT_GE(sizeof(metac_session_options), sizeof(rt::MetacOptions));
  EXPECT_FIELD(metac_session_report, MetacReport, size);
  EXPECT_FIELD(metac_session_report, MetacReport, runs);
  EXPECT_FIELD(metac_session_report, MetacReport, waiting);
  EXPECT_FIELD(metac_session_report, MetacReport, specialisations);
  EXPECT_FIELD(metac_session_report, MetacReport, working_bytes);
  EXPECT_GE(sizeof(metac_session_report), sizeof(rt::MetacReport));
  EXPECT_EQ(METAC_OK, rt::MetacLibrary::ok);
  EXPECT_EQ(METAC_NOT_READY, rt::MetacLibrary::not_ready);
}

TEST(MetacLibrary, WhatIsNoLibraryIsRefusedBeforeItIsOpened) {
  rt::Failure failure;
  rt::MetacLibrary library;
  const std::string text = std::string(METAC_SOURCE_DIR) + "/README.md";
  EXPECT_FALSE(library.open(text.c_str(), nullptr, "0.1.0", failure));
  EXPECT_NE(std::string(failure.message).find("README.md is no shared library"), std::string::npos) << failure.message;
  EXPECT_FALSE(library.open("/proc/self/exe", nullptr, "0.1.0", failure));  // a program, and whole
  EXPECT_FALSE(library.open("/nowhere/libmetac.so", nullptr, "0.1.0", failure));
  EXPECT_NE(std::string(failure.message).find("cannot open /nowhere/libmetac.so"), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace metac
