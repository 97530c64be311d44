// Low-rank adapters (LoRA: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: Low-Rank Adaptation of Large Language Models,
// arXiv:2106.09685, 2021): a frozen weight W [depth, columns] has two small matrices beside it, and a product with it is
//
//   y = x W + (alpha / rank) (x A) B      A [depth, rank], B [rank, columns]
//
// The model is rewritten before it becomes the models of a training, so what follows knows parameters and nothing else.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/train/recipe/recipe.h"
#include "compiler/train/training_model.h"

namespace metac {

// Gives every weight that the recipe's adapters match A and B as initialisers (float32; float64 where the data is): A
// uniform in [-1/sqrt(depth), 1/sqrt(depth)), which is Kaiming's with PEFT's gain, by the recipe's seed, and B of zeros. Has
// the recipe train them and nothing else but what its "train" names, and leave BatchNormalization as in inference unless it
// says how. `model`: compilable, in inference form. Returns nothing where the recipe has no adapters. Throws CompileError at
// the recipe's place where a pattern matches no weight of a product.
std::vector<TrainedAdapter> add_adapters(Model& model, Recipe& recipe);

// For people: what keeps adapters of a model, as it is differentiated, from learning; empty: nothing.
std::string note_of_rounding(const Model& differentiated);

}  // namespace metac
