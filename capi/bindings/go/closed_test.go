package fovea_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"fovea"
)

func preparedKeys() (keys *fovea.PreparedKeys, query, value []float32) {
	score := &fovea.Score{Kind: fovea.ScoreAdditive, QueryWeight: view(ramp(12), 3, 4), KeyWeight: view(ramp(15), 3, 5),
		ScoreVector: view(ramp(3))}
	sizes := fovea.PreparedKeysSizes{Batch: 1, KvHeads: 1, Capacity: 8, QueryDim: 4, KeyDim: 5}
	keys = fovea.Must(fovea.NewPreparedKeys(nil, score, sizes))
	if err := keys.Append(nil, view(ramp(35), 7, 5)); err != nil {
		panic(err)
	}
	return keys, ramp(8), ramp(14)
}

func TestAPlanKeepsItsKeysAndItsContext(t *testing.T) {
	keys, query, value := preparedKeys()
	q, v, expected, found := view(query, 2, 4), view(value, 7, 2), make([]float32, 4), make([]float32, 4)
	ok(t, keys.Attend(nil, q, v, view(expected, 2, 2), nil))
	context := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxThreads: 1}))
	plan := fovea.Must(fovea.PlanPrepared(context, q, keys, v, view(found, 2, 2), nil))
	keys.Close()
	context.Close()
	keys.Close()
	runtime.GC()
	buffers := &fovea.Buffers{Query: fovea.Slice(query), Value: fovea.Slice(value), Out: fovea.Slice(found)}
	workspace := plan.NewWorkspace()
	ok(t, plan.Run(buffers, workspace))
	near(t, found, expected, 0)
	if !contains(plan.Describe(), "op=") {
		t.Fatal(plan.Describe())
	}
	refused(t, keys.Append(nil, view(ramp(5), 1, 5)), fovea.BadValue, "was closed")
	refused(t, fovea.Exp(context, view(query), view(make([]float32, 8))), fovea.BadValue, "the context was closed")
	_, err := fovea.PlanPrepared(nil, q, keys, v, view(found, 2, 2), nil)
	refused(t, err, fovea.BadValue, "was closed")
	plan.Close()
	plan.Close()
	refused(t, plan.Run(buffers, workspace), fovea.BadValue, "the plan was closed")
	if plan.WorkspaceSize() != 0 || plan.Describe() != "" || keys.Len() != 0 || keys.Size() != 0 {
		t.Fatal("what was closed still answers")
	}
}

func TestWhatWasClosedIsRefused(t *testing.T) {
	packed := fovea.Must(fovea.PackLinear(nil, view(ramp(6), 2, 3), nil))
	packed.Close()
	out := view(make([]float32, 2), 1, 2)
	refused(t, packed.Linear(nil, view(ramp(3), 1, 3), out, nil), fovea.BadValue, "the matrix was closed")
	unit := view([]float32{1, 0, 0, 1}, 2, 2)
	parameters := &fovea.MhaParameters{Heads: 1, QueryWeight: unit, KeyWeight: unit, ValueWeight: unit}
	layer := fovea.Must(fovea.NewMhaWeights(nil, parameters))
	layer.Close()
	x := view(ramp(2), 1, 2)
	refused(t, layer.Attend(nil, x, nil, nil, out, nil), fovea.BadValue, "the layer was closed")
	cache := fovea.Must(fovea.NewKvCache(fovea.KvCacheSizes{Batch: 1, KvHeads: 1, Capacity: 1, HeadDim: 2}))
	cache.Close()
	_, err := cache.Save()
	refused(t, err, fovea.BadValue, "the cache was closed")
	refused(t, cache.Truncate(0), fovea.BadValue, "the cache was closed")
	options := &fovea.MhaOptions{Cache: cache}
	refused(t, fovea.MultiHeadAttentionOnce(nil, parameters, x, nil, nil, out, options), fovea.BadValue, "the cache was closed")
	refused(t, (&fovea.KvCache{}).Truncate(0), fovea.NullPointer)
	(&fovea.KvCache{}).Close()
}

// Each of them goes well or says why not.
func together(t *testing.T, count int, reasons string, tasks ...func() error) {
	t.Helper()
	var group sync.WaitGroup
	begin := make(chan struct{})
	for _, task := range tasks {
		task := task
		group.Add(1)
		go func() {
			defer group.Done()
			<-begin
			for i := 0; i < count; i++ {
				if err := task(); err != nil && !strings.Contains(reasons, err.Error()) {
					t.Error(err)
				}
			}
		}()
	}
	close(begin)
	group.Wait()
}

func TestACacheIsChangedByOneCallAlone(t *testing.T) {
	const l, d = 64, 32
	x := ramp(l * d)
	rows := view(x, 1, 1, l, d)
	cache := fovea.Must(fovea.NewKvCache(fovea.KvCacheSizes{Batch: 1, KvHeads: 1, Capacity: l, HeadDim: d}))
	ok(t, cache.Append(nil, rows, rows))
	expected := make([]float32, l*d)
	ok(t, cache.Attend(nil, nil, rows, view(expected, 1, 1, l, d), nil))
	attend := func() error {
		out := make([]float32, l*d)
		err := cache.Attend(nil, nil, rows, view(out, 1, 1, l, d), nil)
		if err == nil {
			near(t, out, expected, 0)
		}
		return err
	}
	truncate := func() error { cache.Len(); return cache.Truncate(l) }
	save := func() error { _, err := cache.Save(); return err }
	together(t, 200, "the cache is in use by another call", attend, attend, truncate, save)
	ok(t, attend())
}

func TestHandlesMayBeClosedWhileTheyAreUsed(t *testing.T) {
	for i := 0; i < 50; i++ {
		keys, query, value := preparedKeys()
		q, v := view(query, 2, 4), view(value, 7, 2)
		context := fovea.Must(fovea.NewContext(&fovea.ContextOptions{MaxThreads: 1}))
		plan := fovea.Must(fovea.PlanPrepared(context, q, keys, v, view(make([]float32, 4), 2, 2), nil))
		workspace := plan.NewWorkspace()
		attend := func() error { return keys.Attend(context, q, v, view(make([]float32, 4), 2, 2), nil) }
		run := func() error {
			return plan.Run(&fovea.Buffers{Query: fovea.Slice(query), Value: fovea.Slice(value),
				Out: fovea.Slice(make([]float32, 4))}, workspace)
		}
		closing := func() error { runtime.Gosched(); keys.Close(); context.Close(); plan.Close(); return nil }
		together(t, 20, "the context was closed; the plan was closed; the set of prepared keys was closed; "+
			"the workspace is in use by another run", attend, attend, run, run, closing)
	}
}
