    Encoder encoder{*reinterpret_cast<const TokenizerTable*>(@name@_tokenizer_table)};
