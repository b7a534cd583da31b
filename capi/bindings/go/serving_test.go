package fovea_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"fovea"
)

const (
	poolHeads = 2
	poolDim   = 8
	poolRow   = poolHeads * poolDim
	most      = 32 // tokens of a step
)

func poolSizes() fovea.KvPoolSizes {
	return fovea.KvPoolSizes{Layers: 1, KvHeads: poolHeads, HeadDim: poolDim, Positions: 64, PageSize: 4, Sequences: 4}
}

func newSchedule(pool *fovea.KvPool, workers int64) *fovea.Schedule {
	pages, rows := fovea.Must(pool.Pages(0)), fovea.Must(fovea.ShapeOnly[float32](most, poolHeads, poolDim))
	return fovea.Must(fovea.NewSchedule(nil, nil, rows, pages.Keys, pages.Values, rows, &fovea.AttentionOptions{Causal: true},
		fovea.ScheduleLimits{Sequences: 4, Workers: workers}))
}

// text is a query, key and value for each token.
type text struct{ query, key, value []float32 }

func newText(tokens, from int) text {
	all := ramp(from + 7 + tokens*poolRow)
	part := func(from int) []float32 { return all[from : from+tokens*poolRow] }
	return text{part(from), part(from + 3), part(from + 7)}
}

// attend is causal attention over the whole of it.
func (x text) attend(t *testing.T) []float32 {
	tokens, out := len(x.query)/poolRow, make([]float32, len(x.query))
	heads := func(data []float32) *fovea.Tensor {
		return fovea.Must(fovea.Strided(data, 0, []int{1, poolHeads, tokens, poolDim}, []int{0, poolDim, poolRow, 1}))
	}
	ok(t, fovea.Sdpa(nil, heads(x.query), heads(x.key), heads(x.value), heads(out), &fovea.AttentionOptions{Causal: true}))
	return out
}

// part are tokens [from, to) of a text.
type part struct {
	text     text
	from, to int
}

// takeStep appends the tokens of the present step, parts of texts one behind the other, and attends.
func takeStep(t *testing.T, schedule *fovea.Schedule, pool *fovea.KvPool, parts ...part) []float32 {
	var query, key, value []float32
	for _, p := range parts {
		from, to := p.from*poolRow, p.to*poolRow
		query, key = append(query, p.text.query[from:to]...), append(key, p.text.key[from:to]...)
		value = append(value, p.text.value[from:to]...)
	}
	tokens, pages := len(query)/poolRow, fovea.Must(pool.Pages(0))
	rows := func(data []float32) *fovea.Tensor { return view(data, tokens, poolHeads, poolDim) }
	ok(t, schedule.Append(rows(key), rows(value), pages, nil))
	out := make([]float32, most*poolRow)
	query = append(query, make([]float32, len(out)-len(query))...)
	ok(t, schedule.Run(&fovea.Buffers{Query: fovea.Slice(query), Key: fovea.DataOf(pages.Keys),
		Value: fovea.DataOf(pages.Values), Out: fovea.Slice(out)}, &fovea.Workspace{}))
	return out[:tokens*poolRow]
}

func set(t *testing.T, schedule *fovea.Schedule, pool *fovea.KvPool, growths ...fovea.Growth) {
	t.Helper()
	step, err := pool.Step(nil, growths...)
	ok(t, err)
	ok(t, schedule.Set(step))
}

func TestSequencesGetInStepsWhatTheyGetAlone(t *testing.T) {
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	schedule := newSchedule(pool, 0)
	one, two := newText(9, 1), newText(6, 50)
	allOne, allTwo := one.attend(t), two.attend(t)
	first, second := fovea.Must(pool.Open()), fovea.Must(pool.Open())

	set(t, schedule, pool, fovea.Growth{Sequence: first, Tokens: 5})
	near(t, takeStep(t, schedule, pool, part{one, 0, 5}), allOne[:5*poolRow], 1e-5)
	set(t, schedule, pool, fovea.Growth{Sequence: second, Tokens: 6}, fovea.Growth{Sequence: first, Tokens: 4})
	if found := fmt.Sprint(schedule.Positions()); found != "[0 1 2 3 4 5 5 6 7 8]" {
		t.Fatal(found)
	}
	near(t, takeStep(t, schedule, pool, part{two, 0, 6}, part{one, 5, 9}), append(allTwo, allOne[5*poolRow:]...), 1e-5)
	if !contains(schedule.Describe(), "op=ragged") || !contains(schedule.Describe(), "sequences=2") {
		t.Fatal(schedule.Describe())
	}

	third := fovea.Must(pool.Open())
	step := fovea.Must(pool.Step(nil, fovea.Growth{Sequence: third, Tokens: 3})) // a copy: sequences may change
	third.Close()
	fovea.Must(first.Fork(9)).Close()
	ok(t, schedule.Set(step))
	if found := fmt.Sprint(schedule.Positions()); found != "[0 1 2]" {
		t.Fatal(found)
	}

	free, forked := pool.FreePages(), fovea.Must(first.Fork(5)) // which shares pages
	if forked.Len() != 5 || pool.FreePages() != free {
		t.Fatal(forked.Len(), pool.FreePages(), free)
	}
	ok(t, first.Truncate(2))
	set(t, schedule, pool, fovea.Growth{Sequence: forked, Tokens: 4})
	near(t, takeStep(t, schedule, pool, part{one, 5, 9}), allOne[5*poolRow:], 1e-5)
	if first.Len() != 2 || forked.Len() != 9 {
		t.Fatal(first.Len(), forked.Len())
	}
}

func TestSequencesAreSavedAndDropped(t *testing.T) {
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	schedule, x, sequence := newSchedule(pool, 0), newText(9, 1), fovea.Must(pool.Open())
	set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: 8})
	takeStep(t, schedule, pool, part{x, 0, 8})
	saved := fovea.Must(sequence.Save())
	restored := fovea.Must(pool.Restore(saved))
	if restored.Len() != 8 || pool.FreePages() != 12 || pool.Size() == 0 {
		t.Fatal(restored.Len(), pool.FreePages(), pool.Size())
	}
	set(t, schedule, pool, fovea.Growth{Sequence: restored, Tokens: 1})
	near(t, takeStep(t, schedule, pool, part{x, 8, 9}), x.attend(t)[8*poolRow:], 1e-5)
	_, err := pool.Restore(saved[:20])
	refused(t, err, fovea.BadValue)
	ok(t, sequence.DropFront(5))
	refused(t, sequence.Truncate(3), fovea.BadValue) // those are gone
	restored.Close()
	if sequence.Len() != 8 || pool.FreePages() != 15 {
		t.Fatal(sequence.Len(), pool.FreePages())
	}
}

func TestWhatThereIsNoRoomForChangesNothing(t *testing.T) {
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	schedule, sequence := newSchedule(pool, 0), fovea.Must(pool.Open())
	_, err := pool.Step(nil, fovea.Growth{Sequence: sequence, Tokens: 65})
	refused(t, err, fovea.PoolExhausted, "17")
	if !errors.Is(err, fovea.ErrPoolExhausted) || errors.Is(err, fovea.BadShape) || sequence.Len() != 0 || pool.FreePages() != 16 {
		t.Fatal(err, sequence.Len(), pool.FreePages())
	}
	_, err = pool.Pages(1)
	refused(t, err, fovea.BadValue, "no layer 1")
	if pages := fovea.Must(pool.Pages(0)); pages.KeyScales != nil || fmt.Sprint(pages.Keys.Shape()) != "[16 2 4 8]" {
		t.Fatal(pages.Keys.Shape())
	}
	set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: 2})
	refused(t, schedule.Set(&fovea.Step{QueryStarts: view([]int32{0, 2}), KeyLens: view([]int32{2}),
		PageIds: view([]int32{16}, 1, 1)}), fovea.BadValue) // a page that there is not
	if fmt.Sprint(schedule.Positions()) != "[0 1]" { // as before
		t.Fatal(schedule.Positions())
	}
	other := fovea.Must(fovea.NewKvPool(poolSizes()))
	_, err = other.Step(nil, fovea.Growth{Sequence: sequence, Tokens: 1})
	refused(t, err, fovea.BadValue, "none of the pool's")
}

func TestGoroutinesShareARun(t *testing.T) {
	sizes := poolSizes()
	sizes.Positions, sizes.PageSize = 4096, 64
	pool := fovea.Must(fovea.NewKvPool(sizes))
	schedule, sequence, x := newSchedule(pool, 2), fovea.Must(pool.Open()), newText(2049, 1)
	for from := 0; from < 2048; from += most {
		set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: most})
		takeStep(t, schedule, pool, part{x, from, from + most})
	}
	set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: 1})
	expected := takeStep(t, schedule, pool, part{x, 2048, 2049})

	query, found, pages := make([]float32, most*poolRow), make([]float32, most*poolRow), fovea.Must(pool.Pages(0))
	copy(query, x.query[2048*poolRow:])
	buffers := &fovea.Buffers{Query: fovea.Slice(query), Key: fovea.DataOf(pages.Keys), Value: fovea.DataOf(pages.Values),
		Out: fovea.Slice(found)}
	workspace, tasks := schedule.NewWorkspace(), 0
	for phase := 0; phase < schedule.Phases(); phase++ {
		var group sync.WaitGroup
		tasks += schedule.Tasks(phase)
		for worker := 0; worker < 2; worker++ {
			group.Add(1)
			go func(phase, worker int) {
				defer group.Done()
				for task := worker; task < schedule.Tasks(phase); task += 2 {
					ok(t, schedule.RunTasks(buffers, workspace, phase, task, task+1, worker))
				}
			}(phase, worker)
		}
		group.Wait()
	}
	near(t, found[:poolRow], expected, 0)
	if tasks < 3 {
		t.Fatal(schedule.Describe())
	}
	refused(t, schedule.RunTasks(buffers, workspace, 0, 0, 99, 0), fovea.BadValue)
	refused(t, schedule.RunTasks(buffers, &fovea.Workspace{}, 0, 0, 0, 0), fovea.WorkspaceTooSmall)
}

func TestLayersTakeAScheduleAndPages(t *testing.T) {
	pool := fovea.Must(fovea.NewKvPool(poolSizes()))
	schedule, pages, sequence := newSchedule(pool, 0), fovea.Must(pool.Pages(0)), fovea.Must(pool.Open())
	weights, x := ramp(4*poolRow*poolRow), ramp(5*poolRow)
	weight := func(i int) *fovea.Tensor {
		return view(weights[i*poolRow*poolRow:(i+1)*poolRow*poolRow], poolRow, poolRow)
	}
	layer := fovea.Must(fovea.NewMhaWeights(nil, &fovea.MhaParameters{Heads: poolHeads, QueryWeight: weight(0),
		KeyWeight: weight(1), ValueWeight: weight(2), OutWeight: weight(3)}))
	alone, found := make([]float32, len(x)), make([]float32, len(x))
	rotary := &fovea.RotaryOptions{}
	ok(t, layer.Attend(nil, view(x, 5, poolRow), nil, nil, view(alone, 5, poolRow),
		&fovea.MhaOptions{Attention: &fovea.AttentionOptions{Causal: true}, Rotary: rotary}))
	for _, span := range [][2]int{{0, 3}, {3, 5}} {
		tokens, from, to := span[1]-span[0], span[0]*poolRow, span[1]*poolRow
		set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: tokens})
		ok(t, layer.Attend(nil, view(x[from:to], tokens, poolRow), nil, nil, view(found[from:to], tokens, poolRow),
			&fovea.MhaOptions{Schedule: schedule, KeyPages: pages.Keys, ValuePages: pages.Values, Rotary: rotary}))
	}
	near(t, found, alone, 1e-5)
}

func TestPoolsOf8BitsHaveScales(t *testing.T) { checkScaledPool(t, fovea.DtypeI8, 16, 0.02) }

func TestPoolsOf4BitsHaveScales(t *testing.T) { checkScaledPool(t, fovea.DtypeU8, 32, 0.15) }

// Keys of 8 bits, and values of a type.
func checkScaledPool(t *testing.T, values fovea.Dtype, group int64, off float64) {
	const dim = 32
	sizes := fovea.KvPoolSizes{Layers: 1, KvHeads: 1, HeadDim: dim, Positions: 8, PageSize: 4, Sequences: 1,
		KeyDtype: fovea.DtypeI8, ValueDtype: values, ScaleGroup: group}
	pool := fovea.Must(fovea.NewKvPool(sizes))
	pages, sequence := fovea.Must(pool.Pages(0)), fovea.Must(pool.Open())
	rows := fovea.Must(fovea.ShapeOnly[float32](5, 1, dim))
	schedule := fovea.Must(fovea.NewSchedule(nil, nil, rows, pages.Keys, pages.Values, rows,
		&fovea.AttentionOptions{KeyScales: pages.KeyScales, ValueScales: pages.ValueScales}, fovea.ScheduleLimits{Sequences: 1}))
	set(t, schedule, pool, fovea.Growth{Sequence: sequence, Tokens: 5})
	x, found, expected := ramp(5*dim), make([]float32, 5*dim), make([]float32, 5*dim)
	ok(t, schedule.Append(view(x, 5, 1, dim), view(x, 5, 1, dim), pages, nil))
	ok(t, schedule.Run(&fovea.Buffers{Query: fovea.Slice(x), Key: fovea.DataOf(pages.Keys), Value: fovea.DataOf(pages.Values),
		KeyScales: fovea.DataOf(pages.KeyScales), ValueScales: fovea.DataOf(pages.ValueScales), Out: fovea.Slice(found)}, nil))
	ok(t, fovea.Sdpa(nil, view(x, 5, dim), view(x, 5, dim), view(x, 5, dim), view(expected, 5, dim), nil))
	near(t, found, expected, off)
}

// A server in small: requests that begin with the same prompt come and go while others are being answered. Every step takes
// all there are, prompts and single tokens alike, in one run for each layer; sequences share the pages of the prompt.
func ExampleSchedule_continuousBatching() {
	const layers, heads, dim, most = 2, 4, 32, 64
	pool := fovea.Must(fovea.NewKvPool(fovea.KvPoolSizes{Layers: layers, KvHeads: heads, HeadDim: dim, Positions: 512,
		PageSize: 16, Sequences: 8}))
	defer pool.Close()
	var pages [layers]fovea.Pages
	for layer := range pages {
		pages[layer] = fovea.Must(pool.Pages(layer))
	}
	rows := fovea.Must(fovea.ShapeOnly[float32](most, heads, dim)) // up to 64 tokens a step
	schedule := fovea.Must(fovea.NewSchedule(nil, nil, rows, pages[0].Keys, pages[0].Values, rows,
		&fovea.AttentionOptions{Causal: true}, fovea.ScheduleLimits{Sequences: 8}))
	defer schedule.Close()
	workspace := &fovea.Workspace{}
	step := func(growths ...fovea.Growth) error {
		step, err := pool.Step(nil, growths...)
		if err != nil {
			return err // fovea.ErrPoolExhausted where pages ran out: nothing has changed
		}
		if err := schedule.Set(step); err != nil {
			return err
		}
		tokens := len(schedule.Positions())
		for layer := range pages {
			// What a model would project of its tokens, each at its position.
			query, key, value := ramp(most*heads*dim), ramp(tokens*heads*dim), ramp(tokens*heads*dim)
			if err := schedule.Append(view(key, tokens, heads, dim), view(value, tokens, heads, dim), pages[layer], nil); err != nil {
				return err
			}
			out := make([]float32, most*heads*dim)
			if err := schedule.Run(&fovea.Buffers{Query: fovea.Slice(query), Key: fovea.DataOf(pages[layer].Keys),
				Value: fovea.DataOf(pages[layer].Values), Out: fovea.Slice(out)}, workspace); err != nil {
				return err
			}
		}
		return nil
	}

	prompt := fovea.Must(pool.Open())
	fovea.Must(true, step(fovea.Growth{Sequence: prompt, Tokens: 40}))
	type request struct {
		growth fovea.Growth // by its question first, then by the token that was said last
		left   int          // of its answer
	}
	var requests []request
	for number := 0; number < 4 || len(requests) > 0; number++ {
		if number < 4 {
			growth := fovea.Growth{Sequence: fovea.Must(prompt.Fork(prompt.Len())), Tokens: 3 + 4*number}
			requests = append(requests, request{growth, 2 + number%2})
		}
		var growths []fovea.Growth
		for _, one := range requests {
			growths = append(growths, one.growth)
		}
		if err := step(growths...); errors.Is(err, fovea.ErrPoolExhausted) {
			requests = requests[:len(requests)-1] // and ask it to come back
			continue
		} else if err != nil {
			panic(err)
		}
		fmt.Println(len(requests), "requests,", len(schedule.Positions()), "tokens,", pool.FreePages(), "free pages")
		var going []request
		for _, one := range requests {
			if one.left--; one.left == 0 {
				one.growth.Sequence.Close()
				continue
			}
			one.growth.Tokens = 1
			going = append(going, one)
		}
		requests = going
	}
	// Output:
	// 1 requests, 3 tokens, 28 free pages
	// 2 requests, 8 tokens, 27 free pages
	// 2 requests, 12 tokens, 26 free pages
	// 3 requests, 17 tokens, 23 free pages
	// 1 requests, 1 tokens, 27 free pages
	// 1 requests, 1 tokens, 27 free pages
}
