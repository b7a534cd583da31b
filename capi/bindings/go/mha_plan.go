package fovea

/*
#include "generated_shim.h"
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// MhaPlan is a checked call of multi-head attention with everything but the data decided. Any number of goroutines may run
// one at once, each with a workspace of its own. It keeps its context, its weights and its schedule, which may be closed
// before it, and copies of what rotary was given.
type MhaPlan struct {
	handle
	planned  mhaLayouts
	schedule *handle
}

// lasting are tensors in C's memory: it reads them after the call, where Go's may have moved.
type lasting []unsafe.Pointer

func (l *lasting) copy(t *Tensor) *Tensor {
	if t == nil || t.data == nil {
		return t
	}
	size, reached := sizeOf(t.desc.dtype), t.layout()
	bytes := C.size_t(reached.len * size)
	memory := C.malloc(bytes + 1)
	C.memcpy(memory, unsafe.Add(t.data, -reached.first*size), bytes)
	runtime.KeepAlive(t)
	*l = append(*l, memory)
	return &Tensor{desc: t.desc, data: unsafe.Add(memory, reached.first*size)}
}

func (l *lasting) copyRotary(given *RotaryOptions) *RotaryOptions {
	if given == nil {
		return nil
	}
	made := *given
	for _, tensor := range []**Tensor{&made.Positions, &made.Frequencies, &made.Sections, &made.Cosines, &made.Sines} {
		*tensor = l.copy(*tensor)
	}
	return &made
}

func (l *lasting) free() {
	for _, memory := range *l {
		C.free(memory)
	}
}

// Plan plans the call that Attend would make. No data is read: ShapeOnly will do; but what rotary is given is copied. With a
// schedule, query and out are for the most tokens that a step may have, and each run is of its present step.
func (w *MhaWeights) Plan(context *Context, query, key, value, out *Tensor, options *MhaOptions) (*MhaPlan, error) {
	with := MhaOptions{}
	if options != nil {
		with = *options
	}
	needed := []*handle{context.held(), w.held(), with.Schedule.held()}
	if err := keep(needed...); err != nil {
		return nil, err
	}
	var copies lasting
	with.Rotary = copies.copyRotary(with.Rotary)
	raw, err := cMhaPlanCreate(context, w, query, key, value, out, &with)
	if err != nil {
		copies.free()
		giveUp(needed)
		return nil, err
	}
	plan := &MhaPlan{schedule: with.Schedule.held(), planned: mhaLayouts{
		query: query.layout(), key: key.layout(), value: value.layout(), out: out.layout(),
		keyPages: with.KeyPages.layout(), valuePages: with.ValuePages.layout(),
		keyScales: with.KeyScales.layout(), valueScales: with.ValueScales.layout(),
		attention: layoutsOf(with.Score, nil, nil, nil, nil, with.Attention),
	}}
	plan.open("plan", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_mha_plan_destroy((*C.fovea_mha_plan)(raw))
		copies.free()
	}, needed...)
	runtime.SetFinalizer(plan, (*MhaPlan).Close)
	return plan, nil
}

func (p *MhaPlan) held() *handle {
	if p == nil {
		return nil
	}
	return &p.handle
}

func (p *MhaPlan) pointer() *C.fovea_mha_plan { return (*C.fovea_mha_plan)(p.held().pointer()) }

// reading keeps others from setting another step of the schedule meanwhile.
func (p *MhaPlan) reading(call func() error) error {
	if p == nil {
		return refuse(NullPointer, "the plan is nil")
	}
	held := uses{{p.held(), false}}
	if err := held.begin(); err != nil {
		return err
	}
	defer held.end()
	if p.schedule != nil { // the plan holds it, closed or not
		if err := p.schedule.begin(false); err != nil {
			return err
		}
		defer p.schedule.end(false)
	}
	return call()
}

// NewWorkspace makes scratch memory for one run at a time, with a schedule of its present step.
func (p *MhaPlan) NewWorkspace() *Workspace {
	return &Workspace{memory: make([]byte, p.WorkspaceSize())}
}

// WorkspaceSize is how many bytes of scratch memory a run needs, with a schedule one of its present step; 0 once the plan was
// closed.
func (p *MhaPlan) WorkspaceSize() (size int) {
	_ = p.reading(func() error { size = int(C.fovea_mha_plan_workspace_size(p.pointer())); return nil })
	return size
}

// Run runs the call on other data in the layouts that were planned. The workspace grows where more is needed; nil is one for
// this run alone.
func (p *MhaPlan) Run(buffers *MhaBuffers, workspace *Workspace) error {
	return p.reading(func() error {
		if err := buffers.check(&p.planned); err != nil {
			return err
		}
		if err := buffers.havePages(&p.planned); err != nil {
			return err
		}
		if workspace == nil {
			workspace = &Workspace{}
		}
		if err := workspace.begin(); err != nil {
			return err
		}
		defer workspace.end()
		if needed := int(C.fovea_mha_plan_workspace_size(p.pointer())); len(workspace.memory) < needed {
			workspace.memory = make([]byte, needed)
		}
		return buffers.run(p.pointer(), &p.planned, workspace.pointer(), len(workspace.memory))
	})
}

// havePages refuses a run without the pages that were planned.
func (b *MhaBuffers) havePages(planned *mhaLayouts) error {
	for _, one := range []struct {
		name    string
		given   *Data
		planned *layout
	}{
		{"key_pages", &b.KeyPages, &planned.keyPages}, {"value_pages", &b.ValuePages, &planned.valuePages},
		{"key_scales", &b.KeyScales, &planned.keyScales}, {"value_scales", &b.ValueScales, &planned.valueScales},
	} {
		if one.given.pointer == nil && one.planned.dtype != 0 {
			return refuse(NullPointer, "buffers.%s is missing, and was planned with", one.name)
		}
	}
	return nil
}

// Close frees the plan, when no run uses it any more.
func (p *MhaPlan) Close() { p.held().close() }
