package fovea_test

import (
	"fmt"
	"math"
	"testing"

	"fovea"
)

func Example() {
	query := []float32{3, 0, 0, 3}
	key := []float32{1, 0, 0, 1, 1, 1}
	value := []float32{10, 20, 30, 40, 50, 60}
	out := make([]float32, 4)
	q, k := fovea.Must(fovea.New(query, 2, 2)), fovea.Must(fovea.New(key, 3, 2))
	v, o := fovea.Must(fovea.New(value, 3, 2)), fovea.Must(fovea.New(out, 2, 2))
	if err := fovea.Sdpa(nil, q, k, v, o, nil); err != nil {
		panic(err)
	}
	fmt.Printf("%.2f\n", out)
	// Output: [30.00 40.00 38.30 48.30]
}

// some gives any numbers in (-1, 1).
func some(count int) []float32 {
	numbers, state := make([]float32, count), uint32(2463534242)
	for i := range numbers {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		numbers[i] = float32(state>>8)/8388608 - 1
	}
	return numbers
}

func view[T fovea.Element](data []T, shape ...int) *fovea.Tensor {
	return fovea.Must(fovea.New(data, shape...))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, status fovea.Status, words ...string) {
	t.Helper()
	failure, is := err.(*fovea.Error)
	if !is || failure.Status != status {
		t.Fatalf("%v, expected %v", err, status)
	}
	for _, word := range words {
		if !contains(failure.Message, word) {
			t.Fatalf("%q does not name %q", failure.Message, word)
		}
	}
}

func near(t *testing.T, found, expected []float32, tolerance float64) {
	t.Helper()
	if len(found) != len(expected) {
		t.Fatalf("%d numbers, expected %d", len(found), len(expected))
	}
	for i := range found {
		if !(math.Abs(float64(found[i]-expected[i])) <= tolerance) {
			t.Fatalf("%v, expected %v", found, expected)
		}
	}
}

func TestMaskedSoftmaxIsZeroBehindTheLengths(t *testing.T) {
	x, out := some(16), make([]float32, 16)
	ok(t, fovea.MaskedSoftmax(nil, view(x, 2, 2, 4), view([]int32{2, 3}), view(out, 2, 2, 4), nil))
	for row := 0; row < 4; row++ {
		length, sum, expected := []int{2, 2, 3, 3}[row], 0.0, make([]float32, 4)
		for k := 0; k < length; k++ {
			sum += math.Exp(float64(x[4*row+k]))
		}
		for k := 0; k < length; k++ {
			expected[k] = float32(math.Exp(float64(x[4*row+k])) / sum)
		}
		near(t, out[4*row:4*row+4], expected, 1e-6)
		near(t, out[4*row+length:4*row+4], make([]float32, 4-length), 0)
	}
	each := view([]int64{1, 3, 2, 4}, 2, 2)
	ok(t, fovea.MaskedSoftmax(nil, view(x, 2, 2, 4), each, view(x, 2, 2, 4), nil)) // in place
	near(t, x[:4], []float32{1, 0, 0, 0}, 0)
	for _, weight := range x[12:] {
		if weight == 0 {
			t.Fatal("a row without a mask has a zero")
		}
	}
}

// overEqualKeys attends to ten equal keys with the values 0 to 39, the same for both sequences by a stride of 0.
func overEqualKeys(score *fovea.Score, queryDim int, lengths ...int32) ([]float32, error) {
	key, value, out := make([]float32, 20), make([]float32, 40), make([]float32, 8)
	for i := range key {
		key[i] = 1
	}
	for i := range value {
		value[i] = float32(i)
	}
	k := fovea.Must(fovea.Strided(key, 0, []int{2, 10, 2}, []int{0, 2, 1}))
	v := fovea.Must(fovea.Strided(value, 0, []int{2, 10, 4}, []int{0, 4, 1}))
	options := &fovea.AttentionOptions{ValidLens: view(lengths)}
	return out, fovea.Attention(nil, score, view(some(2*queryDim), 2, 1, queryDim), k, v, view(out, 2, 1, 4), options)
}

func TestEqualKeysGiveTheMeanOfTheValidValues(t *testing.T) {
	means := []float32{2, 3, 4, 5, 10, 11, 12, 13}
	out, err := overEqualKeys(nil, 2, 2, 6)
	ok(t, err)
	near(t, out, means, 1e-5)
	score := &fovea.Score{Kind: fovea.ScoreAdditive, QueryWeight: view(some(8*20), 8, 20), KeyWeight: view(some(16), 8, 2),
		ScoreVector: view(some(8))}
	out, err = overEqualKeys(score, 20, 2, 6)
	ok(t, err)
	near(t, out, means, 1e-5)
	out, err = overEqualKeys(nil, 2, 0, 1)
	ok(t, err)
	near(t, out, []float32{0, 0, 0, 0, 0, 1, 2, 3}, 0)
	_, err = overEqualKeys(nil, 2, 2, 11)
	refused(t, err, fovea.BadValue, "valid_lens", "11")
}

func TestConcatIsAdditiveWithTheWeightCutInTwo(t *testing.T) {
	weight, concat, additive := some(6*9), make([]float32, 3), make([]float32, 3)
	q, k, v, vector := view(some(15), 3, 5), view(some(28), 7, 4), view(some(7), 7, 1), view(some(6))
	ok(t, fovea.Attention(nil, &fovea.Score{Kind: fovea.ScoreConcat, Weight: view(weight, 6, 9), ScoreVector: vector}, q, k, v,
		view(concat, 3, 1), nil))
	parts := &fovea.Score{Kind: fovea.ScoreAdditive, ScoreVector: vector,
		QueryWeight: fovea.Must(fovea.Strided(weight, 0, []int{6, 5}, []int{9, 1})),
		KeyWeight:   fovea.Must(fovea.Strided(weight, 5, []int{6, 4}, []int{9, 1}))}
	ok(t, fovea.Attention(nil, parts, q, k, v, view(additive, 3, 1), nil))
	near(t, concat, additive, 1e-6)
}

func ones(count int) []float32 {
	numbers := make([]float32, count)
	for i := range numbers {
		numbers[i] = 1
	}
	return numbers
}

func times(weight, x []float32) []float32 {
	out := make([]float32, len(weight)/len(x))
	for i := range out {
		for j := range x {
			out[i] += weight[i*len(x)+j] * x[j]
		}
	}
	return out
}

func TestMultiHeadAttentionOverEqualKeysProjectsTheOneValue(t *testing.T) {
	const e = 100
	all := some(4 * e * e)
	part := func(n int) []float32 { return all[n*e*e : (n+1)*e*e] }
	parameters := &fovea.MhaParameters{Heads: 5, QueryWeight: view(part(0), e, e), KeyWeight: view(part(1), e, e),
		ValueWeight: view(part(2), e, e), OutWeight: view(part(3), e, e)}
	weights := fovea.Must(fovea.NewMhaWeights(nil, parameters))
	defer weights.Close()
	expected := times(part(3), times(part(2), ones(e)))
	options := &fovea.MhaOptions{Attention: &fovea.AttentionOptions{ValidLens: view([]int32{3, 2})}}
	for _, key := range []*fovea.Tensor{nil, view(ones(2*6*e), 2, 6, e)} {
		out := make([]float32, 2*4*e)
		ok(t, weights.Attend(nil, view(ones(2*4*e), 2, 4, e), key, nil, view(out, 2, 4, e), options))
		for row := 0; row < 8; row++ {
			near(t, out[row*e:(row+1)*e], expected, 2e-3)
		}
	}
}

func TestTheEncodingTurnsSlowerFromPairToPair(t *testing.T) {
	encoding := make([]float32, 60*32)
	ok(t, fovea.PositionalEncoding(nil, view(encoding, 60, 32), nil))
	changes := make([]int, 32)
	for i := range encoding {
		step, column := i/32, i%32
		sine, cosine := math.Sincos(float64(step) / math.Pow(10000, float64(column/2*2)/32))
		expected := []float64{sine, cosine}[column%2]
		if !(math.Abs(float64(encoding[i])-expected) <= 1e-6) {
			t.Fatalf("step %d, column %d: %v, expected %v", step, column, encoding[i], expected)
		}
		if step > 0 && (encoding[i] < 0) != (encoding[i-32] < 0) {
			changes[column]++
		}
	}
	if changes[6] <= changes[8] || changes[7] <= changes[9] {
		t.Fatal("the later pair is not slower")
	}
}

func TestAWideKernelRegressesToTheMeanAndANarrowOneToTheData(t *testing.T) {
	x, y, mean := make([]float32, 50), some(50), float32(0)
	for i := range x {
		x[i] = float32(i) / 10
		y[i] = float32(2*math.Sin(float64(x[i]))+math.Pow(float64(x[i]), 0.8)) + y[i]/2
		mean += y[i] / 50
	}
	regress := func(sigma float32) []float32 {
		out := make([]float32, 50)
		ok(t, fovea.KernelRegression(nil, view(x), view(x), view(y), view(out), &fovea.KernelRegressionOptions{Sigma: &sigma}))
		return out
	}
	wide, means := regress(1e6), ones(50)
	for i := range means {
		means[i] = mean
	}
	near(t, wide, means, 1e-5)
	near(t, regress(0.01), y, 1e-6)
}
