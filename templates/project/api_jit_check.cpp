  if (given.most_specialisations < 0) {
    failure.set(Status::invalid_argument, "most_specialisations is %d; expected 0 (64) or more", given.most_specialisations);
    return answer(*context, failure);
  }
