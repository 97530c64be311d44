  struct {
    Sequence sequence;  // the text so far, which the states have seen
    Sampler sampler;
    JoinedSequences joined;  // the texts, where there are several
    Block inputs[@NAME@_INPUTS], logits, mask, guesses;
@tokenizer_member@  } generation;
