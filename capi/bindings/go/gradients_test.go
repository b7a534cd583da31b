package fovea_test

import (
	"math"
	"testing"

	"fovea"
)

// differences gives what the loss, the sum of gradOut out, changes by for each element of x, which forward reads.
func differences(x, gradOut []float32, forward func() []float32) []float32 {
	loss := func() (sum float64) {
		for i, out := range forward() {
			sum += float64(out) * float64(gradOut[i])
		}
		return sum
	}
	const step = 1.0 / 128
	found := make([]float32, len(x))
	for i, value := range x {
		x[i] = value + step
		above, from := loss(), x[i]
		x[i] = value - step
		found[i] = float32((above - loss()) / float64(from-x[i]))
		x[i] = value
	}
	return found
}

const nearly = 1e-3

func TestAnActivationHandsOnWhatItsDerivativeLetsThrough(t *testing.T) {
	x, grad, found := []float32{-1, 2}, []float32{3, 4}, make([]float32, 2)
	ok(t, fovea.ActivationBackward(nil, fovea.ActivationRelu, view(x), view(grad), view(found)))
	near(t, found, []float32{0, 4}, 0)
	for _, activation := range []fovea.Activation{fovea.ActivationGelu, fovea.ActivationGeluTanh, fovea.ActivationSilu} {
		expected := differences(x, grad, func() []float32 {
			out := make([]float32, 2)
			ok(t, fovea.ApplyActivation(nil, activation, view(x), view(out)))
			return out
		})
		ok(t, fovea.ActivationBackward(nil, activation, view(x), view(grad), view(found)))
		near(t, found, expected, nearly)
	}
	ok(t, fovea.ActivationBackward(nil, fovea.ActivationSilu, view(x), view(grad), view(grad))) // in place
	near(t, grad, found, 0)
}

func TestASoftmaxTakesTheMeanOff(t *testing.T) {
	half, grad, found := []float32{0.5, 0.5, 0.5, 0.5}, []float32{1, 0, 0, 0}, make([]float32, 4)
	out, given, written := view(half, 2, 2), view(grad, 2, 2), view(found, 2, 2)
	ok(t, fovea.SoftmaxBackward(nil, out, -1, given, written))
	near(t, found, []float32{0.25, -0.25, 0, 0}, 0)
	ok(t, fovea.SoftmaxBackward(nil, out, 0, given, written))
	near(t, found, []float32{0.25, 0, -0.25, 0}, 0)
	log := float32(math.Log(0.5))
	ok(t, fovea.LogSoftmaxBackward(nil, view([]float32{log, log, log, log}, 2, 2), 0, given, written))
	near(t, found, []float32{0.5, 0, -0.5, 0}, 1e-6)
	ok(t, fovea.SoftmaxBackward(nil, out, 0, given, given)) // in place
	near(t, grad, []float32{0.25, 0, -0.25, 0}, 0)

	masked := view([]float32{1, 0, 0.5, 0.5}, 2, 1, 2)
	behind := view([]float32{5, float32(math.NaN()), 2, 1}, 2, 1, 2)
	ok(t, fovea.MaskedSoftmaxBackward(nil, masked, view([]int32{1, 2}), behind, view(found, 2, 1, 2)))
	near(t, found, []float32{0, 0, 0.25, -0.25}, 0)
}

func TestNormsGoBackToRowsResidualWeightAndBias(t *testing.T) {
	all := some(12 + 12 + 4 + 4 + 24)
	x, residual, weight, bias, grad := all[:12], all[12:24], all[24:28], all[28:32], all[32:]
	rows, epsilon := view(x, 3, 4), fovea.Given[float32](0.01)
	layer := &fovea.LayerNormOptions{Weight: view(weight), Bias: view(bias), Residual: view(residual, 3, 4), Epsilon: epsilon}
	rms := &fovea.RmsNormOptions{Weight: view(weight), WeightFromOne: true, Residual: view(residual, 3, 4), Epsilon: epsilon}
	forward := func(isRms bool) func() []float32 {
		return func() []float32 {
			both := make([]float32, 24)
			out, sum := view(both[:12], 3, 4), view(both[12:], 3, 4)
			if isRms {
				options := *rms
				options.Sum = sum
				ok(t, fovea.RmsNorm(nil, rows, out, &options))
				return both
			}
			options := *layer
			options.Sum = sum
			ok(t, fovea.LayerNorm(nil, rows, out, &options))
			return both
		}
	}
	for _, isRms := range []bool{false, true} {
		gradX, gradWeight, gradBias := make([]float32, 12), make([]float32, 4), make([]float32, 4)
		backward := func(gradients *fovea.NormGradients) {
			if isRms {
				ok(t, fovea.RmsNormBackward(nil, rows, rms, gradients))
				return
			}
			gradients.Bias = view(gradBias)
			ok(t, fovea.LayerNormBackward(nil, rows, layer, gradients))
		}
		out, sum := view(grad[:12], 3, 4), view(grad[12:], 3, 4)
		backward(&fovea.NormGradients{Out: out, Sum: sum, X: view(gradX, 3, 4), Weight: view(gradWeight)})
		near(t, gradX, differences(x, grad, forward(isRms)), nearly)
		near(t, gradWeight, differences(weight, grad, forward(isRms)), nearly)
		if !isRms {
			near(t, gradBias, differences(bias, grad, forward(isRms)), nearly)
		}
		place := append([]float32{}, grad[12:]...)
		backward(&fovea.NormGradients{Out: out, Sum: view(place, 3, 4), X: view(place, 3, 4)})
		near(t, place, gradX, 0)
	}
}

func TestALinearLayerGoesBackToRowsWeightBiasAndMultiplier(t *testing.T) {
	all := some(6 + 8 + 4 + 12 + 12)
	x, weight, bias, multiplier, grad := all[:6], all[6:14], all[14:18], all[18:30], all[30:]
	rows, out := view(x, 3, 2), view(grad, 3, 4)
	options := &fovea.LinearOptions{Activation: fovea.ActivationSilu, Bias: view(bias), Multiplier: view(multiplier, 3, 4)}
	forward := func() []float32 {
		packed, out := fovea.Must(fovea.PackLinear(nil, view(weight, 4, 2), nil)), make([]float32, 12)
		defer packed.Close()
		ok(t, packed.Linear(nil, rows, view(out, 3, 4), options))
		return out
	}
	gradX, gradWeight, gradBias, gradBy := make([]float32, 6), make([]float32, 8), make([]float32, 4), make([]float32, 12)
	gradients := &fovea.LinearGradients{Out: out, X: view(gradX, 3, 2), Weight: view(gradWeight, 4, 2), Bias: view(gradBias),
		Multiplier: view(gradBy, 3, 4)}
	ok(t, fovea.LinearBackward(nil, rows, view(weight, 4, 2), fovea.WeightOutIn, options, gradients))
	near(t, gradX, differences(x, grad, forward), nearly)
	near(t, gradWeight, differences(weight, grad, forward), nearly)
	near(t, gradBias, differences(bias, grad, forward), nearly)
	near(t, gradBy, differences(multiplier, grad, forward), nearly)
	turned, again := fovea.Must(fovea.Strided(weight, 0, []int{2, 4}, []int{1, 2})), make([]float32, 6)
	gradients = &fovea.LinearGradients{Out: out, X: view(again, 3, 2)}
	ok(t, fovea.LinearBackward(nil, rows, turned, fovea.WeightInOut, options, gradients))
	near(t, again, gradX, 1e-6)
}

func TestMergedStatesGoBackToTheirParts(t *testing.T) {
	gradOuts, gradLses := make([]float32, 4), make([]float32, 2)
	ok(t, fovea.MergeStatesBackward(nil, view([]float32{1, 2, 5, 6}, 2, 1, 2), view([]float32{0, 0}, 2, 1),
		&fovea.MergeGradients{Out: view(ones(2), 1, 2), LogSumExp: view(ones(1)), Outs: view(gradOuts, 2, 1, 2),
			Lses: view(gradLses, 2, 1)}))
	near(t, append(gradOuts, gradLses...), []float32{0.5, 0.5, 0.5, 0.5, -1.5, 2.5}, 1e-6)
}

func TestMultiHeadAttentionGoesBackToEverythingItTakes(t *testing.T) {
	all, found := some(134), make([]float32, 134)
	grad := ramp(12)
	rows := func(from []float32) (query, key, value *fovea.Tensor) {
		return view(from[:12], 1, 3, 4), view(from[12:32], 1, 5, 4), view(from[32:52], 1, 5, 4)
	}
	weight := func(from []float32, i int) *fovea.Tensor { return view(from[52+16*i:68+16*i], 4, 4) }
	bias := func(from []float32, i int) *fovea.Tensor { return view(from[116+4*i : 120+4*i]) }
	query, key, value := rows(all)
	parameters := &fovea.MhaParameters{Heads: 2, QueryWeight: weight(all, 0), KeyWeight: weight(all, 1),
		ValueWeight: weight(all, 2), OutWeight: weight(all, 3), QueryBias: bias(all, 0), KeyBias: bias(all, 1),
		ValueBias: bias(all, 2), OutBias: bias(all, 3)}
	options := &fovea.MhaOptions{Attention: &fovea.AttentionOptions{Causal: true, Sinks: view(all[132:])},
		Rotary: &fovea.RotaryOptions{}}
	gradients := &fovea.MhaGradients{Out: view(grad, 1, 3, 4), QueryWeight: weight(found, 0), KeyWeight: weight(found, 1),
		ValueWeight: weight(found, 2), OutWeight: weight(found, 3), QueryBias: bias(found, 0), KeyBias: bias(found, 1),
		ValueBias: bias(found, 2), OutBias: bias(found, 3), Attention: &fovea.AttentionGradients{Sinks: view(found[132:])}}
	gradients.Query, gradients.Key, gradients.Value = rows(found)
	ok(t, fovea.MultiHeadAttentionBackward(nil, parameters, query, key, value, options, gradients))
	near(t, found, differences(all, grad, func() []float32 {
		out := make([]float32, 12)
		ok(t, fovea.MultiHeadAttentionOnce(nil, parameters, query, key, value, view(out, 1, 3, 4), options))
		return out
	}), nearly)
}

func TestDropoutOfAnEncodingGoesBackAlone(t *testing.T) {
	x, out, grad := make([]float32, 64), make([]float32, 64), ones(64)
	for i := range x {
		x[i] = 10
	}
	options := fovea.PositionalEncodingOptions{Dropout: 0.5, DropoutSeed: 3}
	ok(t, fovea.AddPositionalEncoding(nil, view(x, 8, 8), view(out, 8, 8), &options))
	options.DropoutAlone = true
	ok(t, fovea.AddPositionalEncoding(nil, view(grad, 8, 8), view(grad, 8, 8), &options))
	kept := 0
	for i := range out {
		if out[i] == 0 {
			near(t, grad[i:i+1], []float32{0}, 0)
			continue
		}
		near(t, grad[i:i+1], []float32{2}, 0)
		kept++
	}
	if kept == 0 || kept == 64 {
		t.Fatal("kept", kept)
	}
}

func TestGradientsThatDoNotFitAreRefusedByName(t *testing.T) {
	x, found := view([]float32{1, 1, 1, 1}, 2, 2), []float32{7, 7, 7, 7}
	written, two, line := view(found, 2, 2), view(found[:2]), view(ones(4))
	refused(t, fovea.ActivationBackward(nil, fovea.ActivationRelu, x, line, written), fovea.BadRank, "grad_out")
	refused(t, fovea.MaskedSoftmaxBackward(nil, x, nil, nil, written), fovea.NullPointer, "grad_out")
	refused(t, fovea.SoftmaxBackward(nil, x, 2, x, written), fovea.BadValue, "axis")
	refused(t, fovea.LogSoftmaxBackward(nil, x, 0, x, nil), fovea.NullPointer, "grad_x")
	refused(t, fovea.LayerNormBackward(nil, x, nil, &fovea.NormGradients{X: written}), fovea.NullPointer, "gradients.out")
	refused(t, fovea.LayerNormBackward(nil, x, nil, nil), fovea.NullPointer, "gradients")
	refused(t, fovea.RmsNormBackward(nil, x, nil, &fovea.NormGradients{Out: x, Bias: two}), fovea.BadValue, "gradients.bias")
	refused(t, fovea.LinearBackward(nil, x, x, fovea.WeightOutIn, nil, &fovea.LinearGradients{Out: x, Bias: two}),
		fovea.BadValue, "gradients.bias", "options.bias is NULL")
	refused(t, fovea.MergeStatesBackward(nil, x, view(ones(2)), &fovea.MergeGradients{Out: x}), fovea.BadRank, "gradients.out")
	parameters := &fovea.MhaParameters{Heads: 1, QueryWeight: x, KeyWeight: x, ValueWeight: x}
	refused(t, fovea.MultiHeadAttentionBackward(nil, parameters, x, nil, nil, nil, &fovea.MhaGradients{Out: x, QueryBias: two}),
		fovea.BadValue, "gradients.query_bias")
	near(t, found, []float32{7, 7, 7, 7}, 0)
}

// The gradients of 16-bit tensors are those of the same numbers in float32, rounded once.
func checkGradients[T half](t *testing.T, round func(float32) T) {
	base := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxIsa: "base"}))
	widen := func(h T) float32 { return h.Float32() }
	x, grad, found, expected := each(ramp(12), round), each(some(12), round), make([]T, 12), make([]float32, 12)
	wideX, wideGrad := view(each(x, widen), 3, 4), view(each(grad, widen), 3, 4)
	silu := fovea.ActivationSilu
	ok(t, fovea.ActivationBackward(base, silu, wideX, wideGrad, view(expected, 3, 4)))
	ok(t, fovea.ActivationBackward(base, silu, view(x, 3, 4), view(grad, 3, 4), view(found, 3, 4)))
	equal(t, found, each(expected, round))
	ok(t, fovea.RmsNormBackward(base, wideX, nil, &fovea.NormGradients{Out: wideGrad, X: view(expected, 3, 4)}))
	ok(t, fovea.RmsNormBackward(base, view(x, 3, 4), nil, &fovea.NormGradients{Out: view(grad, 3, 4), X: view(found, 3, 4)}))
	equal(t, found, each(expected, round))
}

func TestGradientsOfSixteenBitsAreFloat32RoundedOnce(t *testing.T) {
	checkGradients(t, fovea.Float16Of)
	checkGradients(t, fovea.BFloat16Of)
}

// Of one unit, tanh(0.5 q + 2 k). What the backward pass is given it does not make again: doubled, it gives other gradients.
func TestAdditiveAttentionKeepsItsProjections(t *testing.T) {
	q, k, v := view([]float32{1}, 1, 1), view([]float32{0.25, -0.5}, 2, 1), view([]float32{0, 1}, 2, 1)
	score := &fovea.Score{Kind: fovea.ScoreAdditive, QueryWeight: view([]float32{0.5}, 1, 1), KeyWeight: view([]float32{2}, 1, 1),
		ScoreVector: view([]float32{1})}
	keptQuery, keptKey, out, found, again := make([]float32, 1), make([]float32, 2), make([]float32, 1), make([]float32, 2), make([]float32, 2)
	options := &fovea.AttentionOptions{LogSumExp: view(make([]float32, 1)), ProjectedQuery: view(keptQuery, 1, 1),
		ProjectedKey: view(keptKey, 2, 1)}
	ok(t, fovea.Attention(nil, score, q, k, v, view(out, 1, 1), options))
	equal(t, keptQuery, []float32{0.5})
	equal(t, keptKey, []float32{0.5, -1})
	backward := func(to []float32, options *fovea.AttentionOptions) {
		ok(t, fovea.AttentionBackward(nil, score, q, k, v, view(out, 1, 1), options,
			&fovea.AttentionGradients{Out: view([]float32{1}, 1, 1), Key: view(to, 2, 1)}))
	}
	backward(found, options)
	backward(again, &fovea.AttentionOptions{LogSumExp: options.LogSumExp})
	equal(t, found, again)
	keptKey[0] *= 2
	if backward(again, options); again[0] == found[0] {
		t.Errorf("%v of other projections, too", again)
	}
}

func TestKernelRegressionGoesBackAsGaussianAttention(t *testing.T) {
	all, found, width := some(3+5+5+1), make([]float32, 3+5+5+1), float32(0.7)
	at, inputs, targets, sigma := all[:3], all[3:8], all[8:13], all[13:]
	sigma[0] = width
	grad, out, sums := ramp(3), make([]float32, 3), make([]float32, 3)
	q, k, v := view(at, 3, 1), view(inputs, 5, 1), view(targets, 5, 1)
	score, options := &fovea.Score{Kind: fovea.ScoreGaussian, Sigma: width}, &fovea.AttentionOptions{LogSumExp: view(sums)}
	ok(t, fovea.Attention(nil, score, q, k, v, view(out, 3, 1), options))
	ok(t, fovea.AttentionBackward(nil, score, q, k, v, view(out, 3, 1), options, &fovea.AttentionGradients{Out: view(grad, 3, 1),
		Query: view(found[:3], 3, 1), Key: view(found[3:8], 5, 1), Value: view(found[8:13], 5, 1), Sigmas: view(found[13:])}))
	near(t, found, differences(all, grad, func() []float32 {
		out := make([]float32, 3)
		ok(t, fovea.KernelRegression(nil, view(at), view(inputs), view(targets), view(out),
			&fovea.KernelRegressionOptions{Sigma: &sigma[0]}))
		return out
	}), nearly)
}
