// Parameters to and from files, under Hugging Face names.
#pragma once

#include "io/weight_files.h"
#include "train/trainer.h"

namespace longhaul::train {

// Every parameter of the table must be there with its shape, no parameter may be left over (a checkpoint of another
// model would load in silence), every value finite. Throws input errors that name the tensor. Reads headers only.
void check_weights(const io::WeightFiles& files, const spec::ParameterTable& table);

// Reads all parameters into the trainer's master weights and refreshes the weights that the model reads.
void load_weights(const io::WeightFiles& files, Trainer& trainer);

// [rows, columns] of a matrix, [rows] of a vector.
std::vector<Index> shape_of(const spec::Parameter& parameter);

}  // namespace longhaul::train
