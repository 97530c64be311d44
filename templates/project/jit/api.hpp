  // What has become of the shapes of run(); *problem: why they are not specialised, "" where nothing is in the way.
  @name@_specialisation specialised(std::string* problem = nullptr) const {
    @name@_specialisation result{};
    result.size = sizeof result;
    const char* text = "";
    @name@_specialised(context_, &result, &text);
    if (problem != nullptr) *problem = text;
    return result;
  }
