"""All generators of samples."""
import contraction_samples  # noqa: F401
import elementwise_samples  # noqa: F401
import microsoft_samples  # noqa: F401
import moving_samples  # noqa: F401
import program_samples  # noqa: F401
import reduction_samples  # noqa: F401
import resampling_samples  # noqa: F401
import sequence_samples  # noqa: F401
