package fovea_test

import (
	"math"
	"testing"

	"fovea"
)

func TestEveryOtherOperationDoesWhatItsNameSays(t *testing.T) {
	out := make([]float32, 2)
	ok(t, fovea.AlibiSlopes(view(out)))
	near(t, out, []float32{1.0 / 16, 1.0 / 256}, 0)
	ok(t, fovea.Exp(nil, view([]float32{0, 1}), view(out)))
	near(t, out, []float32{1, math.E}, 1e-6)
	ok(t, fovea.Tanh(nil, view([]float32{0, 1}), view(out)))
	near(t, out, []float32{0, 0.7615942}, 1e-6)
	ok(t, fovea.LayerNorm(nil, view([]float32{1, 3}), view(out), &fovea.LayerNormOptions{Bias: view([]float32{5, 5})}))
	near(t, out, []float32{4, 6}, 1e-4)
	sum, mean, inverse := make([]float32, 2), make([]float32, 1), make([]float32, 1)
	ok(t, fovea.LayerNorm(nil, view([]float32{1, 2}, 1, 2), view(out, 1, 2), &fovea.LayerNormOptions{Epsilon: fovea.Given[float32](0.75),
		Residual: view([]float32{2, 2}, 1, 2), Sum: view(sum, 1, 2), Mean: view(mean), InverseDeviation: view(inverse)}))
	near(t, append(append(append(out, sum...), mean...), inverse...), []float32{-0.5, 0.5, 3, 4, 3.5, 1}, 1e-6)
	ok(t, fovea.RmsNorm(nil, view([]float32{1, 2}, 1, 2), view(out, 1, 2), &fovea.RmsNormOptions{Epsilon: fovea.Given[float32](3.5),
		WeightFromOne: true, Weight: view([]float32{1, 2}), Residual: view([]float32{2, 2}, 1, 2)}))
	near(t, out, []float32{1.5, 3}, 1e-6)
	ok(t, fovea.Softmax(nil, view([]float32{1, 1}, 2, 1), 0, view(out, 2, 1)))
	near(t, out, []float32{0.5, 0.5}, 0)
	ok(t, fovea.LogSoftmax(nil, view([]float32{1, 1}), -1, view(out)))
	near(t, out, []float32{float32(-math.Log(2)), float32(-math.Log(2))}, 1e-6)
	ok(t, fovea.ApplyActivation(nil, fovea.ActivationRelu, view([]float32{-1, 2}), view(out)))
	near(t, out, []float32{0, 2}, 0)
	ok(t, fovea.Gemm(nil, view([]float32{1, 2}, 1, 2), view([]float32{1, 0, 0, 1}, 2, 2), view(out, 1, 2),
		&fovea.GemmOptions{Alpha: fovea.Given[float32](3), Beta: fovea.Given[float32](-1), C: view([]float32{1}, 1, 1)}))
	near(t, out, []float32{2, 5}, 0)
	ok(t, fovea.Rotary(nil, view([]float32{1, 0}, 1, 2), view(out, 1, 2), &fovea.RotaryOptions{Offset: 1}))
	near(t, out, []float32{float32(math.Cos(1)), float32(math.Sin(1))}, 1e-6)
	factor := fovea.Must(fovea.RotaryFrequencies(view(out), &fovea.RotaryFrequenciesOptions{Kind: fovea.FrequenciesYarn, Base: 100, Factor: 4, OriginalLength: 4096, FastRotations: 32, SlowRotations: 1}))
	near(t, append([]float32{factor}, out...), []float32{float32(1 + math.Log(4)/10), 1, 0.1}, 1e-6)
	turn := &fovea.RotaryOptions{Offset: 1, Frequencies: view([]float32{0.5}), AttentionFactor: fovea.Given[float32](2)}
	ok(t, fovea.Rotary(nil, view([]float32{1, 0}, 1, 2), view(out, 1, 2), turn))
	near(t, out, []float32{float32(2 * math.Cos(0.5)), float32(2 * math.Sin(0.5))}, 1e-6)
	ok(t, fovea.AddPositionalEncoding(nil, view([]float32{2, 2}, 1, 2), view(out, 1, 2), nil))
	near(t, out, []float32{2, 3}, 1e-6)
	total := make([]float32, 1)
	ok(t, fovea.MergeStates(nil, view([]float32{1, 2, 5, 6}, 2, 1, 2), view([]float32{0, 0}, 2, 1), view(out, 1, 2), view(total)))
	near(t, append(out, total...), []float32{3, 4, float32(math.Log(2))}, 1e-6)
	ok(t, fovea.Matmul(nil, view([]float32{1, 2}, 1, 2), view([]float32{3, 4, 5, 6}, 2, 2), view(out[:2], 1, 2)))
	near(t, out, []float32{13, 16}, 0)
	packed := fovea.Must(fovea.PackMatrix(nil, view([]float32{3, 4, 5, 6}, 2, 2), nil))
	if packed.Size() == 0 {
		t.Fatal("a packed matrix of no bytes")
	}
	ok(t, packed.Multiply(nil, view([]float32{2, 1}, 1, 2), view(out, 1, 2)))
	near(t, out, []float32{11, 14}, 0)
	turned := fovea.Must(fovea.PackLinear(nil, view([]float32{3, 4, 5, 6}, 2, 2), &fovea.LinearPackOptions{Layout: fovea.WeightInOut}))
	ok(t, turned.Linear(nil, view([]float32{2, 1}, 1, 2), view(out, 1, 2), nil))
	near(t, out, []float32{11, 14}, 0)
	unit := view([]float32{1, 0, 0, 1}, 2, 2)
	parameters := &fovea.MhaParameters{Heads: 1, QueryWeight: unit, KeyWeight: unit, ValueWeight: unit}
	options := &fovea.MhaOptions{Rotary: &fovea.RotaryOptions{}}
	ok(t, fovea.MultiHeadAttentionOnce(nil, parameters, view([]float32{7, 9}, 1, 2), nil, nil, view(out, 1, 2), options))
	near(t, out, []float32{7, 9}, 1e-5)
	weights := fovea.Must(fovea.NewMhaWeights(nil, parameters))
	if weights.Size() == 0 {
		t.Fatal("weights of no bytes")
	}
	rows, small, scales := ramp(32), make([]int8, 32), make([]fovea.Float16, 2)
	ok(t, fovea.Quantize(nil, view(rows, 1, 32), view(small, 1, 32), view(scales, 1, 2)))
	back := make([]float32, 32)
	ok(t, fovea.Dequantize(nil, view(small, 1, 32), view(scales, 1, 2), view(back, 1, 32)))
	near(t, back, rows, 0.51/127)
	fours, pairs := make([]fovea.FourBits, 16), make([]fovea.Float16, 2)
	ok(t, fovea.Quantize(nil, view(rows, 1, 32), view(fours, 1, 16), view(pairs, 1, 2)))
	ok(t, fovea.Dequantize(nil, view(fours, 1, 16), view(pairs, 1, 2), view(back, 1, 32)))
	near(t, back, rows, 2.1/30)
	attended, exact := make([]float32, 32), make([]float32, 32)
	ok(t, fovea.Sdpa(nil, view(rows, 1, 32), view(rows, 1, 32), view(fours, 1, 16), view(attended, 1, 32),
		&fovea.AttentionOptions{ValueScales: view(pairs, 1, 2)}))
	ok(t, fovea.Sdpa(nil, view(rows, 1, 32), view(rows, 1, 32), view(back, 1, 32), view(exact, 1, 32), nil))
	near(t, attended, exact, 0)
	plan := fovea.Must(fovea.PlanAttention(nil, &fovea.Score{Kind: fovea.ScoreBilinear, Weight: unit}, unit, unit, unit,
		view(make([]float32, 4), 2, 2), nil))
	once, planned, data := make([]float32, 4), make([]float32, 4), []float32{1, 0, 0, 1}
	ok(t, fovea.Attention(nil, &fovea.Score{Kind: fovea.ScoreBilinear, Weight: unit}, unit, unit, unit, view(once, 2, 2), nil))
	ok(t, plan.Run(&fovea.Buffers{Query: fovea.Slice(data), Key: fovea.Slice(data), Value: fovea.Slice(data),
		Weight: fovea.Slice(data), Out: fovea.Slice(planned)}, plan.NewWorkspace()))
	near(t, planned, once, 0)
}
