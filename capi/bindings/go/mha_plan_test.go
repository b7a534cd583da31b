package fovea_test

import (
	"runtime"
	"testing"

	"fovea"
)

const (
	embed      = 12
	layerHeads = 2
	layerDim   = 4
	layerMost  = 6 // tokens of a step
)

func newLayer() *fovea.MhaWeights {
	project, back := ramp(3*layerHeads*layerDim*embed), ramp(embed*layerHeads*layerDim)
	return fovea.Must(fovea.NewMhaWeights(nil, &fovea.MhaParameters{Heads: layerHeads,
		InWeight: view(project, 3*layerHeads*layerDim, embed), OutWeight: view(back, embed, layerHeads*layerDim)}))
}

func TestAPlanOfALayerGivesWhatTheLayerGives(t *testing.T) {
	layer, x, lens := newLayer(), ramp(2*5*embed), []int64{3, 5}
	frequencies := []float32{1, 0.5}
	options := func(lens []int64) *fovea.MhaOptions {
		return &fovea.MhaOptions{Rotary: &fovea.RotaryOptions{Frequencies: view(frequencies, 2)},
			Attention: &fovea.AttentionOptions{Causal: true, ValidLens: view(lens, 2)}}
	}
	expected, like := make([]float32, len(x)), fovea.Must(fovea.ShapeOnly[float32](2, 5, embed))
	ok(t, layer.Attend(nil, view(x, 2, 5, embed), nil, nil, view(expected, 2, 5, embed), options(lens)))
	context := fovea.Must(fovea.NewContext(nil))
	plan := fovea.Must(layer.Plan(context, like, nil, nil, like, options([]int64{0, 0})))
	frequencies[0] = 0 // copied, and the layer is kept
	layer.Close()
	context.Close()
	runtime.GC()
	lengths := &fovea.Buffers{ValidLens: fovea.Slice(lens)}
	for _, workspace := range []*fovea.Workspace{plan.NewWorkspace(), {}, nil} {
		found := make([]float32, len(x))
		ok(t, plan.Run(&fovea.MhaBuffers{Query: fovea.Slice(x), Out: fovea.Slice(found), Attention: lengths}, workspace))
		near(t, found, expected, 0)
	}

	found := make([]float32, len(x))
	for _, bad := range []struct {
		buffers fovea.MhaBuffers
		status  fovea.Status
		words   string
	}{
		{fovea.MhaBuffers{Query: fovea.Slice(x[1:])}, fovea.BadShape, "buffers.query has 119 elements, the plan needs 120"},
		{fovea.MhaBuffers{Query: fovea.Slice(lens)}, fovea.BadDtype, "buffers.query"},
		{fovea.MhaBuffers{Query: fovea.Slice(x), Key: fovea.Slice(x)}, fovea.BadValue, "buffers.key was not planned"},
		{fovea.MhaBuffers{Attention: lengths}, fovea.NullPointer, "buffers.query"},
		{fovea.MhaBuffers{Query: fovea.Slice(x)}, fovea.NullPointer, "valid_lens"},
	} {
		bad.buffers.Out = fovea.Slice(found)
		refused(t, plan.Run(&bad.buffers, nil), bad.status, bad.words)
	}
	near(t, found, make([]float32, len(x)), 0)
	plan.Close()
	refused(t, plan.Run(&fovea.MhaBuffers{Query: fovea.Slice(x), Out: fovea.Slice(found)}, nil), fovea.BadValue, "the plan was closed")
	if plan.WorkspaceSize() != 0 {
		t.Fatal(plan.WorkspaceSize())
	}
	_, err := newLayer().Plan(nil, fovea.Must(fovea.ShapeOnly[float32](2, 5, embed+1)), nil, nil, like, nil)
	refused(t, err, fovea.BadShape)
}

// decoder are sequences of a pool of one layer, and a schedule for its heads.
type decoder struct {
	pool     *fovea.KvPool
	schedule *fovea.Schedule
	texts    [2]*fovea.Sequence
}

func newDecoder() *decoder {
	d := &decoder{pool: fovea.Must(fovea.NewKvPool(fovea.KvPoolSizes{Layers: 1, KvHeads: layerHeads, HeadDim: layerDim,
		Positions: 64, PageSize: 4, Sequences: 2}))}
	pages, rows := fovea.Must(d.pool.Pages(0)), fovea.Must(fovea.ShapeOnly[float32](layerMost, layerHeads, layerDim))
	d.schedule = fovea.Must(fovea.NewSchedule(nil, nil, rows, pages.Keys, pages.Values, rows,
		&fovea.AttentionOptions{Causal: true}, fovea.ScheduleLimits{Sequences: 2}))
	d.texts = [2]*fovea.Sequence{fovea.Must(d.pool.Open()), fovea.Must(d.pool.Open())}
	return d
}

func (d *decoder) options() *fovea.MhaOptions {
	pages := fovea.Must(d.pool.Pages(0))
	return &fovea.MhaOptions{Rotary: &fovea.RotaryOptions{}, Schedule: d.schedule, KeyPages: pages.Keys, ValuePages: pages.Values}
}

func (d *decoder) step(t *testing.T, first, second int) {
	set(t, d.schedule, d.pool, fovea.Growth{Sequence: d.texts[0], Tokens: first}, fovea.Growth{Sequence: d.texts[1], Tokens: second})
}

func TestAPlanOfALayerRunsOverAScheduleSSteps(t *testing.T) {
	layer, planned, called := newLayer(), newDecoder(), newDecoder()
	like := fovea.Must(fovea.ShapeOnly[float32](layerMost, embed))
	plan := fovea.Must(layer.Plan(nil, like, nil, nil, like, planned.options()))
	pages, x, workspace := fovea.Must(planned.pool.Pages(0)), ramp(layerMost*embed), &fovea.Workspace{}
	found := make([]float32, len(x))
	buffers := &fovea.MhaBuffers{Query: fovea.Slice(x), Out: fovea.Slice(found),
		KeyPages: fovea.DataOf(pages.Keys), ValuePages: fovea.DataOf(pages.Values)}
	for _, tokens := range [][2]int{{4, 2}, {1, 1}, {0, 3}, {0, 0}} {
		planned.step(t, tokens[0], tokens[1])
		called.step(t, tokens[0], tokens[1])
		count := tokens[0] + tokens[1]
		expected := make([]float32, count*embed)
		ok(t, layer.Attend(nil, view(x[:count*embed], count, embed), nil, nil, view(expected, count, embed), called.options()))
		ok(t, plan.Run(buffers, workspace))
		near(t, found[:count*embed], expected, 0)
	}
	planned.step(t, 1, 0)
	planned.schedule.Close() // the plan keeps it
	runtime.GC()
	ok(t, plan.Run(buffers, nil))
	buffers.KeyPages = fovea.Data{}
	refused(t, plan.Run(buffers, nil), fovea.NullPointer, "key_pages")
}

func TestLatentAttentionAppendsKeysAlone(t *testing.T) {
	rows, query, pages, found := ramp(3*4), ramp(3*2*4), make([]float32, 2*2*4), make([]float32, 3*2*2)
	keys := view(pages, 2, 1, 2, 4)
	values := fovea.Must(fovea.Strided(pages, 0, []int{2, 1, 2, 2}, []int{8, 8, 4, 1}))
	schedule := fovea.Must(fovea.NewSchedule(nil, nil, fovea.Must(fovea.ShapeOnly[float32](3, 2, 4)), keys, values,
		fovea.Must(fovea.ShapeOnly[float32](3, 2, 2)), &fovea.AttentionOptions{Causal: true}, fovea.ScheduleLimits{Sequences: 1}))
	ok(t, schedule.Set(&fovea.Step{QueryStarts: view([]int32{0, 3}), KeyLens: view([]int32{3}), PageIds: view([]int32{1, 0}, 1, 2)}))
	ok(t, schedule.Append(view(rows, 3, 1, 4), nil, fovea.Pages{Keys: keys}, nil))
	near(t, append(append([]float32{}, pages[8:]...), pages[:4]...), rows, 0)
	ok(t, schedule.Run(&fovea.Buffers{Query: fovea.Slice(query), Key: fovea.Slice(pages), Value: fovea.Slice(pages),
		Out: fovea.Slice(found)}, nil))
	near(t, found[:2], rows[:2], 0) // the first token attends itself
}
