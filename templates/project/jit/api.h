/* What has become of the shapes of @name@_run: result->size = sizeof *result, the rest is set. */
typedef metac_model_specialisation @name@_specialisation;

/* Needs no hold on the context: any thread may ask at any time. *problem, if problem is not NULL, says why shapes are not specialised: no
 * libmetac, one of another version, ...; "": nothing is in the way. It is valid until the context is destroyed. */
@NAME@_API @name@_status @name@_specialised(const @name@_context* context, @name@_specialisation* result, const char** problem);

