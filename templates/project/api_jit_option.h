  const char* metac;       /* path of the libmetac that makes programs for shapes that come again; NULL: METAC_LIBRARY of the environment,
                            * else one beside this library, else the system's; "off": none */
  int32_t most_specialisations; /* such programs that this process holds for these weights; 0: 64. The least recently used go first */
