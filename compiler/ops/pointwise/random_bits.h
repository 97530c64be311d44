// Random bits as a function of where an element stands, and of a seed and a counter: the same ones for any number of
// threads, any order and any fusion, and nothing to save in a checkpoint.
//
// The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", 2011): additions, rotations and exclusive ors of 32-bit words, which every vector unit has. Its key is the seed, its
// counter is (number of the element, call); `stream` tells nodes of one graph apart.
#pragma once
#include <utility>

#include "compiler/ir/graph.h"

namespace metac {

// Two words of uint32. seed, count and element are int64; more than 2^32 elements or counts repeat.
std::pair<Expr, Expr> random_words(Expr seed, Expr count, int64_t stream, Expr element);

// A float32 in [0, 1) of 24 random bits of a word.
Expr unit_interval(Expr word);
// A float64 in [0, 1) of 53 bits of two words.
Expr unit_interval(std::pair<Expr, Expr> words);
// Normally distributed with mean 0 and deviation 1, as float32 (Box and Muller: "A note on the generation of random normal
// deviates", 1958).
Expr normal_deviate(std::pair<Expr, Expr> words);

// An int64 scalar that is another one whenever it is computed: how many numbers a context has drawn before.
Var* draw_number(Graph& g);

}  // namespace metac
