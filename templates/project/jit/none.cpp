  if ((given.metac != nullptr && std::strcmp(given.metac, "off") != 0) || given.most_specialisations != 0) {
    failure.set(Status::invalid_argument, "options.metac and most_specialisations are for libraries that were compiled with --jit");
    return answer(*context, failure);
  }
