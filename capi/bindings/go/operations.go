package fovea

// Sdpa is scaled dot-product attention, out = softmax(score) value.
func Sdpa(context *Context, query, key, value, out *Tensor, options *AttentionOptions) error {
	return cSdpa(context, query, key, value, out, options)
}

// Attention takes any score function; nil is the scaled dot product.
func Attention(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions) error {
	return cAttention(context, score, query, key, value, out, options)
}

// AttentionBackward is the backward pass of Attention: out and options.LogSumExp are what that call gave, and stay as they are;
// gradients has what the loss changes by for each element of out, and what is wanted.
func AttentionBackward(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions,
	gradients *AttentionGradients) error {
	return cAttentionBackward(context, score, query, key, value, out, options, gradients)
}

// KernelRegression is Nadaraya-Watson regression with a Gaussian kernel.
func KernelRegression(context *Context, queries, inputs, targets, out *Tensor, options *KernelRegressionOptions) error {
	return cKernelRegression(context, queries, inputs, targets, out, options)
}

// MergeStates makes attention over all keys of attention over parts of them. logSumExp may be nil.
func MergeStates(context *Context, outs, lses, out, logSumExp *Tensor) error {
	return cMergeStates(context, outs, lses, out, logSumExp)
}

// MaskedSoftmax is a softmax over the last axis, of the first validLens keys of each row. In place if x is out.
func MaskedSoftmax(context *Context, x, validLens, out *Tensor, options *MaskedSoftmaxOptions) error {
	return cMaskedSoftmax(context, x, validLens, out, options)
}

// Softmax is a softmax over an axis, counted from 0, or from -1 for the last one backwards. In place if x is out.
func Softmax(context *Context, x *Tensor, axis int32, out *Tensor) error {
	return cSoftmax(context, x, axis, out)
}

// LogSoftmax is the logarithm of Softmax. In place if x is out.
func LogSoftmax(context *Context, x *Tensor, axis int32, out *Tensor) error {
	return cLogSoftmax(context, x, axis, out)
}

// Matmul is out = a b.
func Matmul(context *Context, a, b, out *Tensor) error { return cMatmul(context, a, b, out) }

// Gemm is out = Alpha a b + Beta c; c may be out.
func Gemm(context *Context, a, b, out *Tensor, options *GemmOptions) error {
	return cGemm(context, a, b, out, options)
}

// Quantize makes rows 8-bit numbers with a scale of 16 bits for each group of features, as many as scales has in a row; or, of
// FourBits, 4-bit numbers with a scale and a least number for each group.
func Quantize(context *Context, x, out, scales *Tensor) error {
	return cQuantize(context, x, out, scales)
}

// Dequantize gives what Quantize made as numbers: out = q scale, of 4 bits out = q scale + least.
func Dequantize(context *Context, q, scales, out *Tensor) error {
	return cDequantize(context, q, scales, out)
}

// Exp is out = e^x, element by element. In place if x is out.
func Exp(context *Context, x, out *Tensor) error { return cExp(context, x, out) }

// Tanh is out = tanh x, element by element. In place if x is out.
func Tanh(context *Context, x, out *Tensor) error { return cTanh(context, x, out) }

// PositionalEncoding is the sinusoidal encoding, positions x features.
func PositionalEncoding(context *Context, out *Tensor, options *PositionalEncodingOptions) error {
	return cPositionalEncoding(context, out, options)
}

// AddPositionalEncoding is out = dropout(x + P), P being the encoding. In place if x is out.
func AddPositionalEncoding(context *Context, x, out *Tensor, options *PositionalEncodingOptions) error {
	return cAddPositionalEncoding(context, x, out, options)
}

// Rotary is rotary position embedding. In place if x is out.
func Rotary(context *Context, x, out *Tensor, options *RotaryOptions) error {
	return cRotary(context, x, out, options)
}

// RotaryFrequencies writes the frequencies that a model's configuration asks for, what RotaryOptions.Frequencies takes, one
// for each pair, and gives its attention factor.
func RotaryFrequencies(frequencies *Tensor, options *RotaryFrequenciesOptions) (float32, error) {
	factor := []float32{1}
	view, err := New(factor, 1)
	if err == nil {
		err = cRotaryFrequencies(frequencies, view, options)
	}
	return factor[0], err
}

// AlibiSlopes writes the slopes of ALiBi, one for each of out's heads.
func AlibiSlopes(out *Tensor) error { return cAlibiSlopes(out) }

// ApplyActivation is out = activation(x), element by element. In place if x is out.
func ApplyActivation(context *Context, activation Activation, x, out *Tensor) error {
	return cActivation(context, int32(activation), x, out)
}

// LayerNorm is layer normalisation over the last axis. In place if x is out.
func LayerNorm(context *Context, x, out *Tensor, options *LayerNormOptions) error {
	return cLayerNorm(context, x, out, options)
}

// RmsNorm is normalisation by the root of the mean square over the last axis. In place if x is out.
func RmsNorm(context *Context, x, out *Tensor, options *RmsNormOptions) error {
	return cRmsNorm(context, x, out, options)
}

// MultiHeadAttentionOnce is MhaWeights.Attend with weights that are used once.
func MultiHeadAttentionOnce(context *Context, parameters *MhaParameters, query, key, value, out *Tensor,
	options *MhaOptions) error {
	return cMultiHeadAttentionOnce(context, parameters, query, key, value, out, options)
}

// ActivationBackward is the backward pass of ApplyActivation: gradX = gradOut times the derivative at x. In place if gradOut is
// gradX.
func ActivationBackward(context *Context, activation Activation, x, gradOut, gradX *Tensor) error {
	return cActivationBackward(context, int32(activation), x, gradOut, gradX)
}

// MaskedSoftmaxBackward is the backward pass of MaskedSoftmax, of its out and validLens. In place if gradOut is gradX.
func MaskedSoftmaxBackward(context *Context, out, validLens, gradOut, gradX *Tensor) error {
	return cMaskedSoftmaxBackward(context, out, validLens, gradOut, gradX)
}

// SoftmaxBackward is the backward pass of Softmax, of its out, over its axis. In place if gradOut is gradX.
func SoftmaxBackward(context *Context, out *Tensor, axis int32, gradOut, gradX *Tensor) error {
	return cSoftmaxBackward(context, out, axis, gradOut, gradX)
}

// LogSoftmaxBackward is the backward pass of LogSoftmax, of its out, over its axis. In place if gradOut is gradX.
func LogSoftmaxBackward(context *Context, out *Tensor, axis int32, gradOut, gradX *Tensor) error {
	return cLogSoftmaxBackward(context, out, axis, gradOut, gradX)
}

// LayerNormBackward is the backward pass of LayerNorm: x and options as there, but for what it returned beside out, which is
// not looked at. gradients.X may be Out, or Sum.
func LayerNormBackward(context *Context, x *Tensor, options *LayerNormOptions, gradients *NormGradients) error {
	return cLayerNormBackward(context, x, options, gradients)
}

// RmsNormBackward is the backward pass of RmsNorm, as LayerNormBackward is of LayerNorm.
func RmsNormBackward(context *Context, x *Tensor, options *RmsNormOptions, gradients *NormGradients) error {
	return cRmsNormBackward(context, x, options, gradients)
}

// LinearBackward is the backward pass of PackedMatrix.Linear, with the weight as the model has it; the residual's gradient is
// gradients.Out.
func LinearBackward(context *Context, x, weight *Tensor, layout WeightLayout, options *LinearOptions,
	gradients *LinearGradients) error {
	return cLinearBackward(context, x, weight, int32(layout), options, gradients)
}

// MergeStatesBackward is the backward pass of MergeStates.
func MergeStatesBackward(context *Context, outs, lses *Tensor, gradients *MergeGradients) error {
	return cMergeStatesBackward(context, outs, lses, gradients)
}

// MultiHeadAttentionBackward is the backward pass of MhaWeights.Attend, with the weights as the model has them. The forward
// pass is computed again: nothing of it needs to be kept.
func MultiHeadAttentionBackward(context *Context, parameters *MhaParameters, query, key, value *Tensor, options *MhaOptions,
	gradients *MhaGradients) error {
	return cMultiHeadAttentionBackward(context, parameters, query, key, value, options, gradients)
}
