/* Derivatives. They are called like @name@_run, and each keeps memory of its own from its first call on: what it returned is
 * valid until the next call of the same function. "Values" are @value_kinds@
 * of the model that are floating-point tensors; a cotangent, gradient or tangent has the shape and dtype of what it belongs to.
 *
@derivative_table@ *
 * The ports are named after them: "cotangent of NAME", "gradient of NAME", "tangent of NAME", "product of NAME". */
@derivatives@