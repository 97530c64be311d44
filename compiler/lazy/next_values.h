// Next values in the memory of the last ones: a step that computes parameters anew, and what an optimiser keeps, need not
// have both at once. It is done from 64 MiB on, as training programs do (runtime/train/train_tables.h), and where nothing
// can go wrong behind the overwriting: a step that fails leaves what was there.
#pragma once
#include <utility>
#include <vector>

#include "compiler/lazy/lazy_model.h"
#include "compiler/program/program.h"

namespace metac::lazy {

// (output, input) of a cut or of its program.
using NextValues = std::vector<std::pair<size_t, size_t>>;

// How often nodes of the cut read each of its inputs.
std::vector<uint32_t> reads_of_inputs(const Cut& cut);

// Of the outputs that are computed from an input of their type which nobody can see when the cut has been run, each with the
// nearest. None where they are small in all.
NextValues next_values(const Cut& cut);

// Of `pairs` those whose outputs may be given their input's memory.
NextValues may_overwrite(const CompiledProgram& program, const NextValues& pairs);

}  // namespace metac::lazy
