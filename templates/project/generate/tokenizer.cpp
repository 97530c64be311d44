// @name@: the tokenizer's table, which metac made, in the library's read-only data.
__asm__(
    ".pushsection .rodata.@name@_tokenizer,\"a\",@progbits\n"
    ".balign 64\n"
    ".globl @name@_tokenizer_table\n"
    ".hidden @name@_tokenizer_table\n"
    "@name@_tokenizer_table:\n"
    ".incbin \"@name@.tokenizer\"\n"
    ".popsection\n");
