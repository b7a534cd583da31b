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
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	pages, sequence := fovea.Must(pool.Pages(0)), fovea.Must(pool.Open())
	schedule := newSchedule(pool, 0)
	options := &fovea.MhaOptions{Schedule: schedule, KeyPages: pages.Keys, ValuePages: pages.Values}
	schedule.Close()
	refused(t, fovea.MultiHeadAttentionOnce(nil, parameters, x, nil, nil, out, options), fovea.BadValue, "the schedule was closed")
	refused(t, schedule.Set(&fovea.Step{}), fovea.BadValue, "the schedule was closed")
	other := fovea.Must(sequence.Fork(0))
	sequence.Close()
	sequence.Close()
	refused(t, sequence.Truncate(0), fovea.BadValue, "the sequence was closed")
	_, err := pool.Step(nil, fovea.Growth{Sequence: sequence, Tokens: 1})
	refused(t, err, fovea.BadValue, "the sequence was closed")
	pool.Close()
	_, err = other.Save()
	refused(t, err, fovea.BadValue, "the pool was closed")
	if sequence.Len() != 0 || pool.FreePages() != 0 || pool.Size() != 0 || schedule.Describe() != "" {
		t.Fatal("what was closed still answers")
	}
	other.Close()
	runtime.GC()
	ok(t, fovea.Exp(nil, pages.Keys, pages.Keys)) // whose memory is there as long as they are
	refused(t, (&fovea.Sequence{}).Truncate(0), fovea.NullPointer)
	_, err = (&fovea.KvPool{}).Open()
	refused(t, err, fovea.NullPointer)
	(&fovea.KvPool{}).Close()
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

func TestAPoolIsChangedByOneCallAlone(t *testing.T) {
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	prompt := fovea.Must(pool.Open())
	fovea.Must(pool.Step(nil, fovea.Growth{Sequence: prompt, Tokens: 6}))
	fork := func() error {
		forked, err := prompt.Fork(6)
		if err == nil {
			pool.FreePages()
			forked.Close()
		}
		return err
	}
	save := func() error { _, err := prompt.Save(); return err }
	schedule := newSchedule(pool, 0)
	set := func() error {
		return schedule.Set(&fovea.Step{QueryStarts: view([]int32{0}), KeyLens: view([]int32{}),
			PageIds: view([]int32{}, 0, 1)})
	}
	describe := func() error { schedule.Describe(); return nil }
	together(t, 200, "the pool is in use by another call; the schedule is in use by another call", fork, fork, save, set,
		describe)
	prompt.Close()
	fovea.Must(pool.Open()) // closes what is left
	if pool.FreePages() != 16 {
		t.Fatal(pool.FreePages())
	}
}

func TestPoolsAreFreedByTheGarbageCollector(t *testing.T) {
	for i := 0; i < 20; i++ {
		pool := fovea.Must(fovea.NewKvPool(poolSizes()))
		pages, sequence := fovea.Must(pool.Pages(0)), fovea.Must(pool.Open())
		pool = nil
		runtime.GC()
		ok(t, fovea.Exp(nil, pages.Values, pages.Values))
		ok(t, sequence.Truncate(0)) // which keeps the pool
	}
	runtime.GC()
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
