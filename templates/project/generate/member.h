  struct {
    Sequence sequence;  // the text so far, which the states have seen
    Sampler sampler;
    Block inputs[@NAME@_INPUTS], logits, mask;
@tokenizer_member@  } generation;
