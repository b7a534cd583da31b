package fovea_test

import (
	"reflect"
	"testing"

	"fovea"
)

// A 0 that is given is another number than one that is left out.
func TestAZeroThatIsGivenIsANumber(t *testing.T) {
	x, mean, zero := []float32{1, 0, 0, 4, 2, 2}, []float32{1, 2, 1, 2, 1, 2}, fovea.Given[float32](0)
	rows, found := view(x, 3, 2), make([]float32, 6)
	out := view(found, 3, 2)
	same := func(expected []float32) bool { return reflect.DeepEqual(found, expected) }
	for _, score := range []*fovea.Score{nil, {Kind: fovea.ScoreGaussian, Sigma: 1}} {
		ok(t, fovea.Attention(nil, score, rows, rows, rows, out, &fovea.AttentionOptions{Scale: zero}))
		if !same(mean) {
			t.Fatal("a scale of 0 gave", found)
		}
		ok(t, fovea.Attention(nil, score, rows, rows, rows, out, nil))
		if same(mean) {
			t.Fatal("no scale is one of 0")
		}
	}
	unit := view([]float32{1, 0, 0, 1}, 2, 2)
	parameters := &fovea.MhaParameters{Heads: 1, QueryWeight: unit, KeyWeight: unit, ValueWeight: unit}
	inner := &fovea.MhaOptions{Attention: &fovea.AttentionOptions{Scale: zero}}
	ok(t, fovea.MultiHeadAttentionOnce(nil, parameters, rows, nil, nil, out, inner))
	if !same(mean) {
		t.Fatal("within multi-head attention a scale of 0 gave", found)
	}
	for _, options := range []*fovea.RotaryOptions{{PositionScale: zero}, {RotaryDim: fovea.Given[int64](0)}} {
		ok(t, fovea.Rotary(nil, rows, out, options))
		if !same(x) {
			t.Fatal("it turned", found)
		}
	}
	ok(t, fovea.Rotary(nil, rows, out, nil))
	if same(x) {
		t.Fatal("it turned nothing")
	}
	refused(t, fovea.Rotary(nil, rows, out, &fovea.RotaryOptions{Base: zero}), fovea.BadValue, "base")
	refused(t, fovea.PositionalEncoding(nil, out, &fovea.PositionalEncodingOptions{Base: zero}), fovea.BadValue, "base")
	refused(t, fovea.KernelRegression(nil, rows, rows, rows, out, &fovea.KernelRegressionOptions{Sigma: zero}), fovea.BadValue,
		"sigma")
	ok(t, fovea.KernelRegression(nil, rows, rows, rows, out, &fovea.KernelRegressionOptions{}))

	small, normed := view([]float32{-1e-3, 1e-3}, 1, 2), make([]float32, 2)
	ok(t, fovea.LayerNorm(nil, small, view(normed, 1, 2), &fovea.LayerNormOptions{Epsilon: zero}))
	near(t, normed, []float32{-1, 1}, 1e-3)
	ok(t, fovea.LayerNorm(nil, small, view(normed, 1, 2), nil))
	near(t, normed, []float32{-0.3015, 0.3015}, 1e-3)
}
