  const char* metac;       /* path of the libmetac that makes programs for shapes that come again; NULL: METAC_LIBRARY of the environment,
                            * else one beside this library, else the system's; "off": none */
