package fovea_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"fovea"
)

func contains(text, word string) bool { return strings.Contains(text, word) }

func TestViewsThatLeaveTheirSliceAreRefused(t *testing.T) {
	data := make([]float32, 12)
	for _, bad := range []struct {
		offset         int
		shape, strides []int
		status         fovea.Status
	}{
		{0, []int{3, 4}, []int{4, 1}, fovea.OK}, {1, []int{3, 4}, []int{4, 1}, fovea.BadShape},
		{8, []int{3, 4}, []int{-4, 1}, fovea.OK}, {7, []int{3, 4}, []int{-4, 1}, fovea.BadShape},
		{0, []int{3, 4}, []int{1 << 62, 1}, fovea.BadShape}, {0, []int{2, 2}, []int{-1 << 63, 1}, fovea.BadShape},
		{0, []int{3, 4}, []int{1}, fovea.BadStride}, {1 << 62, []int{1}, []int{1}, fovea.BadShape},
		{-1, []int{1}, []int{1}, fovea.BadShape}, {12, []int{1}, []int{1}, fovea.BadShape},
		{0, []int{-1}, []int{1}, fovea.BadShape}, {99, []int{0, 4}, []int{4, 1}, fovea.OK},
		{0, []int{1 << 40, 1 << 40}, []int{0, 0}, fovea.SizeOverflow},
	} {
		_, err := fovea.Strided(data, bad.offset, bad.shape, bad.strides)
		if bad.status == fovea.OK {
			ok(t, err)
		} else {
			refused(t, err, bad.status)
		}
	}
	_, err := fovea.New(data, 3, 5)
	refused(t, err, fovea.BadShape)
	_, err = fovea.New(data, 1, 1, 1, 1, 1, 3, 4)
	refused(t, err, fovea.BadRank)
}

func TestGoroutinesReadTheMessageOfTheirOwnCall(t *testing.T) {
	var group sync.WaitGroup
	for n := 0; n < 64; n++ {
		group.Add(1)
		go func(rank int) {
			defer group.Done()
			shape := []int{1, 1, 1, 1, 1, 1}[:rank]
			for i := 0; i < 50; i++ {
				x := view([]float32{1}, shape...)
				err := fovea.Matmul(nil, x, x, view([]float32{1}, shape...))
				runtime.Gosched()
				if err == nil || !contains(err.Error(), fmt.Sprint("rank ", rank)) {
					t.Errorf("%v does not name rank %d", err, rank)
				}
			}
		}(5 + n%2)
	}
	group.Wait()
}

func TestOptionsSetTheFlagsTheyNeedAndNoOthers(t *testing.T) {
	x := []float32{1, 0, 0, 1, 1, 1}
	attend := func(options *fovea.AttentionOptions) ([]float32, error) {
		v, out := view(x, 1, 1, 3, 2), make([]float32, 6)
		return out, fovea.Sdpa(nil, v, v, v, view(out, 1, 1, 3, 2), options)
	}
	weights, lse := make([]float32, 9), []float32{7, 7, 7}
	_, err := attend(&fovea.AttentionOptions{Weights: view(weights, 1, 1, 3, 3), LogSumExp: view(lse, 1, 1, 3)})
	ok(t, err)
	sum := float32(0)
	for _, weight := range weights {
		sum += weight
	}
	near(t, []float32{sum}, []float32{3}, 1e-6)
	_, err = attend(&fovea.AttentionOptions{Weights: view(weights, 1, 3, 3), AverageWeights: true})
	ok(t, err)
	minusOne, zero := int64(-1), int64(0)
	out, err := attend(&fovea.AttentionOptions{Causal: true, QueryOffset: &minusOne})
	ok(t, err)
	near(t, out[:4], []float32{0, 0, 1, 0}, 0)
	out, err = attend(&fovea.AttentionOptions{WindowLeft: &zero, WindowRight: &zero})
	ok(t, err)
	near(t, out, x, 0)
	_, err = attend(&fovea.AttentionOptions{Dropout: 1.5})
	refused(t, err, fovea.BadValue, "dropout")
}

func TestContexts(t *testing.T) {
	_, err := fovea.NewContext(&fovea.ContextOptions{MaxIsa: "nonsense"})
	refused(t, err, fovea.UnknownIsa, "nonsense")
	context := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxThreads: 1, MaxIsa: "base"}))
	if context.Threads() != 1 || context.IsaName() != "base" || fovea.IsaAvailable()[0] != "base" {
		t.Fatal("the context is another than was asked for")
	}
	context.Close()
	context.Close()
	defer func() {
		if recover() == nil {
			t.Fatal("a closed context was taken for the default one")
		}
	}()
	context.Threads()
}

func ramp(count int) []float32 {
	numbers := make([]float32, count)
	for i := range numbers {
		numbers[i] = float32(i*37%101-50) / 50
	}
	return numbers
}

func TestPlansRunOnOtherDataAndRefuseWhatDoesNotFit(t *testing.T) {
	q, k := fovea.Must(fovea.ShapeOnly[float32](4, 2)), fovea.Must(fovea.ShapeOnly[float32](6, 2))
	lens := fovea.Must(fovea.ShapeOnly[int32](1))
	plan := fovea.Must(fovea.PlanSdpa(nil, q, k, k, q, &fovea.AttentionOptions{ValidLens: lens}))
	defer plan.Close()
	workspace, x, out := plan.NewWorkspace(), ones(12), make([]float32, 8)
	buffers := func() *fovea.Buffers {
		return &fovea.Buffers{Query: fovea.Slice(x[:8]), Key: fovea.Slice(x), Value: fovea.Slice(x), Out: fovea.Slice(out),
			ValidLens: fovea.Slice([]int32{3})}
	}
	ok(t, plan.Run(buffers(), workspace))
	near(t, out, ones(8), 0)
	for name, spoil := range map[string]func(*fovea.Buffers) fovea.Status{
		"a short key":  func(b *fovea.Buffers) fovea.Status { b.Key = fovea.Slice(x[:11]); return fovea.BadShape },
		"a short out":  func(b *fovea.Buffers) fovea.Status { b.Out = fovea.Slice(out[:7]); return fovea.BadShape },
		"64-bit":       func(b *fovea.Buffers) fovea.Status { b.ValidLens = fovea.Slice([]int64{3}); return fovea.BadDtype },
		"no key":       func(b *fovea.Buffers) fovea.Status { b.Key = fovea.Data{}; return fovea.NullPointer },
		"no lengths":   func(b *fovea.Buffers) fovea.Status { b.ValidLens = fovea.Data{}; return fovea.NullPointer },
		"what is new":  func(b *fovea.Buffers) fovea.Status { b.Mask = fovea.Slice(make([]bool, 24)); return fovea.BadValue },
		"a long value": func(b *fovea.Buffers) fovea.Status { b.Value = fovea.Slice(ones(13)); return fovea.OK },
	} {
		spoilt := buffers()
		status := spoil(spoilt)
		err := plan.Run(spoilt, workspace)
		if status == fovea.OK {
			ok(t, err)
		} else if failure, is := err.(*fovea.Error); !is || failure.Status != status {
			t.Fatalf("%s: %v, expected %v", name, err, status)
		}
	}
	if !contains(plan.Describe(), "op=sdpa") {
		t.Fatal(plan.Describe())
	}
}

func TestPlannedViewsOfAnyStridesAreLaidOverTheSlicesOfARun(t *testing.T) {
	data, query, once, planned := ramp(12), []float32{1, -1}, make([]float32, 2), make([]float32, 2)
	left := int64(2)
	backwards := fovea.Must(fovea.Strided(data, 10, []int{6, 2}, []int{-2, 1}))
	options := &fovea.AttentionOptions{WindowLeft: &left}
	ok(t, fovea.Sdpa(nil, view(query, 1, 2), backwards, backwards, view(once, 1, 2), options))
	plan := fovea.Must(fovea.PlanSdpa(nil, view(query, 1, 2), backwards, backwards, view(planned, 1, 2), options))
	ok(t, plan.Run(&fovea.Buffers{Query: fovea.Slice(query), Key: fovea.Slice(data), Value: fovea.Slice(data),
		Out: fovea.Slice(planned)}, plan.NewWorkspace()))
	near(t, planned, once, 0)
}

func TestPreparedKeysGiveWhatTheWholeCallGives(t *testing.T) {
	score := &fovea.Score{Kind: fovea.ScoreAdditive, QueryWeight: view(ramp(12), 3, 4), KeyWeight: view(ramp(15), 3, 5),
		ScoreVector: view(ramp(3))}
	query, value, expected, found := ramp(8), ramp(14), make([]float32, 4), make([]float32, 4)
	q, k, v := view(query, 2, 4), view(ramp(35), 7, 5), view(value, 7, 2)
	ok(t, fovea.Attention(nil, score, q, k, v, view(expected, 2, 2), nil))
	keys := fovea.Must(fovea.NewPreparedKeys(nil, score, fovea.PreparedKeysSizes{Batch: 1, KvHeads: 1, Capacity: 8, QueryDim: 4,
		KeyDim: 5}))
	ok(t, keys.Append(nil, k))
	ok(t, keys.Attend(nil, q, v, view(found, 2, 2), nil))
	near(t, found, expected, 0)
	plan := fovea.Must(fovea.PlanPrepared(nil, q, keys, v, view(found, 2, 2), nil))
	run := func() error {
		return plan.Run(&fovea.Buffers{Query: fovea.Slice(query), Value: fovea.Slice(value), Out: fovea.Slice(found)},
			plan.NewWorkspace())
	}
	found[0] = 9
	ok(t, run())
	near(t, found, expected, 0)
	ok(t, keys.Truncate(6))
	refused(t, run(), fovea.BadShape)
	if keys.Len() != 6 || keys.Size() == 0 {
		t.Fatal("truncating went wrong")
	}
}

func TestPackedWeightsServeManyGoroutines(t *testing.T) {
	weight, bias, x := ramp(12*7), ramp(12), ramp(5*7)
	packed := fovea.Must(fovea.PackLinear(nil, view(weight, 12, 7), nil))
	apply := func() []float32 {
		out := make([]float32, 60)
		ok(t, packed.Linear(nil, view(x, 5, 7), view(out, 5, 12), &fovea.LinearOptions{Bias: view(bias), Activation: fovea.ActivationRelu}))
		return out
	}
	expected := apply()
	for row := 0; row < 5; row++ {
		plain := times(weight, x[7*row:7*row+7])
		for i := range plain {
			if plain[i] += bias[i]; plain[i] < 0 {
				plain[i] = 0
			}
		}
		near(t, expected[12*row:12*row+12], plain, 1e-5)
	}
	var group sync.WaitGroup
	for n := 0; n < 8; n++ {
		group.Add(1)
		go func() { defer group.Done(); near(t, apply(), expected, 0) }()
	}
	group.Wait()
}

func TestHandlesOutliveTheGarbageCollector(t *testing.T) {
	context := fovea.Must(fovea.NewContext(nil))
	x := view(ones(6), 3, 2)
	plan := fovea.Must(fovea.PlanSdpa(context, x, x, x, x, nil))
	context = nil
	for i := 0; i < 20; i++ {
		runtime.GC()
		out := make([]float32, 6)
		data := fovea.Slice(ones(6))
		ok(t, plan.Run(&fovea.Buffers{Query: data, Key: data, Value: data, Out: fovea.Slice(out)}, plan.NewWorkspace()))
		near(t, out, ones(6), 0)
		ok(t, fovea.Matmul(nil, x, view([]float32{1, 0, 0, 1}, 2, 2), view(make([]float32, 6), 3, 2)))
	}
}
