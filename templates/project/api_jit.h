/* What has become of the shapes of @name@_run. */
typedef struct @name@_specialisation {
  int64_t runs;            /* of this context */
  int64_t specialised_runs; /* of these, by a program for just their shapes */
  int64_t programs;        /* such programs that this process holds, for all contexts of these weights */
  int64_t waiting;         /* shapes whose program is being made, or is next */
} @name@_specialisation;

/* Needs no hold on the context: any thread may ask at any time. *problem, if problem is not NULL, says why shapes are not specialised: no
 * libmetac, one of another version, ...; "": nothing is in the way. It is valid until the context is destroyed. */
@NAME@_API @name@_status @name@_specialised(const @name@_context* context, @name@_specialisation* result, const char** problem);

