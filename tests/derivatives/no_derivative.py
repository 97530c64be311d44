"""Why an operator has no samples of derivatives, and why one has none without elements. Operators are (domain, name)."""

TRUTH = "its results are truth values"
WHOLE = "its results are integers: positions, counts, bits, shapes or quantised numbers"
CONSTANT = "its result depends on no floating-point number: only on shapes, integers and attributes"

DRAWN = "its results are drawn at random: what it is given decides how probable they are, not what they are"
ROUNDED = "it rounds its operand to 8 bits, by a range that the operand itself has: differences see steps"
LISTS = "its operands or results are sequences, which are no operands of a derivative: while compiling they become slices and concatenations, which have samples"
CHOSEN = "its operands choose among whole positions: the result is constant between jumps"


def because(reason, domain, names):
    return {(domain, name): reason for name in names.split()}


NO_DERIVATIVE = {
    **because(TRUTH, "", "And Or Xor Not Equal Greater GreaterOrEqual Less LessOrEqual IsInf IsNaN OptionalHasElement"),
    **because(TRUTH, "metac", "all any"),
    **because(WHOLE, "", "ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor ConvInteger MatMulInteger NonMaxSuppression NonZero "
                         "QLinearConv QLinearMatMul QuantizeLinear Shape Size BitCast"),
    **because(DRAWN, "", "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"),
    **because(CHOSEN, "", "MelWeightMatrix"),
    **because(ROUNDED, "com.microsoft", "DynamicQuantizeMatMul DynamicQuantizeLSTM"),
    **because(WHOLE, "com.microsoft", "QLinearAdd QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearAveragePool QLinearSoftmax QGemm QuantizeLinear"),
    **because(LISTS, "", "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence"),
    **because(CONSTANT, "", "BlackmanWindow HammingWindow HannWindow Constant ConstantOfShape EyeLike TfIdfVectorizer"),
    **because(CONSTANT, "metac", "fill index random"),
}

NO_DERIVATIVE["metac", "code"] = "its derivatives are what the user writes; the reference evaluator does not run C++ (tests/unit/frontends/code_operator_test.cpp)"
NO_DERIVATIVE["metac", "fake_quantize"] = "its derivative is the straight-through estimator, not that of its values, which have steps (tests/quantize/compare_training.py)"

SCALARS = "its operands are numbers"
NO_RESULT = "without elements it has no result: windows, maxima and images need one"

NO_ZERO_SIZE = {
    **because(SCALARS, "", "Range"),
    **because(NO_RESULT, "", "DynamicQuantizeLinear"),
}
