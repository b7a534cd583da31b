package fovea

/*
#include "generated_shim.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Plan is a checked call with everything but the data decided. Any number of goroutines may run one at once, each with a
// workspace of its own. It keeps its context and its keys, which may be closed before it.
type Plan struct {
	handle
	planned layouts
	keys    *handle
}

// Workspace is a run's scratch memory. One of no bytes is for a Schedule, which makes it larger where a step needs that.
type Workspace struct {
	memory []byte
	inUse  atomic.Bool
}

// begin is for one run at a time.
func (w *Workspace) begin() error {
	if !w.inUse.CompareAndSwap(false, true) {
		return refuse(BadValue, "the workspace is in use by another run")
	}
	return nil
}

func (w *Workspace) end() { w.inUse.Store(false) }

func (w *Workspace) pointer() *C.uchar {
	if len(w.memory) == 0 {
		return nil
	}
	return (*C.uchar)(unsafe.Pointer(&w.memory[0]))
}

// What create makes keeps using the context and the keys: they are held from before it is there.
func newPlan(context *Context, keys *PreparedKeys, planned layouts, create func() (*C.fovea_plan, error)) (*Plan, error) {
	needed := []*handle{context.held(), keys.held()}
	if err := keep(needed...); err != nil {
		return nil, err
	}
	raw, err := create()
	if err != nil {
		giveUp(needed)
		return nil, err
	}
	plan := &Plan{planned: planned, keys: keys.held()}
	plan.open("plan", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_plan_destroy((*C.fovea_plan)(raw))
	}, needed...)
	runtime.SetFinalizer(plan, (*Plan).Close)
	return plan, nil
}

// PlanSdpa plans the call that Sdpa would make. No data is read: ShapeOnly will do.
func PlanSdpa(context *Context, query, key, value, out *Tensor, options *AttentionOptions) (*Plan, error) {
	return newPlan(context, nil, layoutsOf(nil, query, key, value, out, options), func() (*C.fovea_plan, error) {
		return cSdpaPlanCreate(context, query, key, value, out, options)
	})
}

// PlanAttention plans the call that Attention would make. Of the score, a width is taken now, tensors in each run.
func PlanAttention(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions) (*Plan, error) {
	return newPlan(context, nil, layoutsOf(score, query, key, value, out, options), func() (*C.fovea_plan, error) {
		return cAttentionPlanCreate(context, score, query, key, value, out, options)
	})
}

// PlanAttentionBackward plans the call that AttentionBackward would make. Runs take the gradients' data too, and read Out.
func PlanAttentionBackward(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions,
	gradients *AttentionGradients) (*Plan, error) {
	if gradients == nil {
		gradients = &AttentionGradients{}
	}
	planned := layoutsOf(score, query, key, value, out, options).withGradients(gradients)
	return newPlan(context, nil, planned, func() (*C.fovea_plan, error) {
		return cAttentionBackwardPlanCreate(context, score, query, key, value, out, options, gradients)
	})
}

// PlanPrepared plans the call that PreparedKeys.Attend would make. Runs attend what the keys hold then, but for as many
// keys as now.
func PlanPrepared(context *Context, query *Tensor, keys *PreparedKeys, value, out *Tensor,
	options *AttentionOptions) (*Plan, error) {
	return newPlan(context, keys, layoutsOf(nil, query, nil, value, out, options), func() (*C.fovea_plan, error) {
		return cAttentionPreparedPlanCreate(context, query, keys, value, out, options)
	})
}

func (p *Plan) held() *handle {
	if p == nil {
		return nil
	}
	return &p.handle
}

func (p *Plan) pointer() *C.fovea_plan { return (*C.fovea_plan)(p.held().pointer()) }

// NewWorkspace makes scratch memory for one run at a time.
func (p *Plan) NewWorkspace() *Workspace { return &Workspace{memory: make([]byte, p.WorkspaceSize())} }

// WorkspaceSize is how many bytes of scratch memory a run needs; 0 once the plan was closed.
func (p *Plan) WorkspaceSize() int {
	return p.held().ask(func() int { return int(C.fovea_plan_workspace_size(p.pointer())) })
}

// Run runs the call on other data in the layouts that were planned.
func (p *Plan) Run(buffers *Buffers, workspace *Workspace) error {
	held := uses{{p.held(), false}}
	if err := held.begin(); err != nil {
		return err
	}
	defer held.end()
	if p.keys != nil { // the plan holds them, closed or not
		if err := p.keys.begin(false); err != nil {
			return err
		}
		defer p.keys.end(false)
	}
	if err := buffers.check(&p.planned); err != nil {
		return err
	}
	if workspace == nil {
		workspace = &Workspace{}
	}
	if err := workspace.begin(); err != nil {
		return err
	}
	defer workspace.end()
	return buffers.run(p.pointer(), &p.planned, workspace.pointer(), len(workspace.memory))
}

// Describe tells instruction set, path, tiles, tasks, threads and bytes in a line; "" once the plan was closed.
func (p *Plan) Describe() string {
	if p.held().hold() != nil {
		return ""
	}
	defer p.held().letGo()
	text := make([]byte, int(C.fovea_plan_describe(p.pointer(), nil, 0))+1)
	C.fovea_plan_describe(p.pointer(), (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return string(text[:len(text)-1])
}

// Close frees the plan, when no run uses it any more.
func (p *Plan) Close() { p.held().close() }
