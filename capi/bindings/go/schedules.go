package fovea

/*
#include "generated_shim.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Schedule is a plan of attention whose sequences change from step to step. It is made once for one kind of layer, with room
// for the most that a step may bring; is set once a step; and runs once for each layer of that kind, in any number of
// goroutines at once, each with a workspace of its own.
type Schedule struct {
	handle
	planned layouts
}

// taskRange are tasks of a phase, and who runs them.
type taskRange struct{ phase, begin, end, worker C.int64_t }

// NewSchedule makes one of queries [T,H,D], and of keys [N,Hkv,D] packed or [P,Hkv,page,D] in pages, as KvPool.Pages are. No
// data is read: ShapeOnly will do. Until a step is set there is nothing to run.
func NewSchedule(context *Context, score *Score, query, key, value, out *Tensor, options *AttentionOptions,
	limits ScheduleLimits) (*Schedule, error) {
	if err := keep(context.held()); err != nil {
		return nil, err
	}
	raw, err := cScheduleCreate(context, score, query, key, value, out, options, &limits)
	if err != nil {
		giveUp([]*handle{context.held()})
		return nil, err
	}
	schedule := &Schedule{planned: layoutsOf(score, query, key, value, out, options)}
	schedule.open("schedule", unsafe.Pointer(raw), func(raw unsafe.Pointer) {
		C.fovea_schedule_destroy((*C.fovea_schedule)(raw))
	}, context.held())
	runtime.SetFinalizer(schedule, (*Schedule).Close)
	return schedule, nil
}

func (s *Schedule) held() *handle {
	if s == nil {
		return nil
	}
	return &s.handle
}

func (s *Schedule) pointer() *C.fovea_schedule { return (*C.fovea_schedule)(s.held().pointer()) }

// Set sets a step, a copy of it: what KvPool.Step gives, or one of your own. After an error the schedule is as before.
func (s *Schedule) Set(step *Step) error { return cScheduleSet(s, step) }

// Append writes a layer's new keys [T,Hkv,D] and values [T,Hkv,Dv] into its pages. value nil, in pages too, is for latent
// attention, whose values are the first features of keys' rows, as a view of whose memory they were planned.
func (s *Schedule) Append(key, value *Tensor, pages Pages, options *AppendOptions) error {
	with := AppendOptions{}
	if options != nil {
		with = *options
	}
	if with.KeyScales == nil {
		with.KeyScales = pages.KeyScales
	}
	if with.ValueScales == nil {
		with.ValueScales = pages.ValueScales
	}
	return cScheduleAppend(s, key, value, pages.Keys, pages.Values, &with)
}

// Run attends for the present step with one layer's data. The workspace grows where the step needs more; with none the
// context lends scratch memory.
func (s *Schedule) Run(buffers *Buffers, workspace *Workspace) error {
	return s.reading(func() error {
		if err := buffers.check(&s.planned); err != nil {
			return err
		}
		if workspace == nil {
			return buffers.runSchedule(s.pointer(), &s.planned, nil, 0)
		}
		if err := workspace.begin(); err != nil {
			return err
		}
		defer workspace.end()
		if needed := int(C.fovea_schedule_workspace_size(s.pointer())); len(workspace.memory) < needed {
			workspace.memory = make([]byte, needed)
		}
		return buffers.runSchedule(s.pointer(), &s.planned, workspace.pointer(), len(workspace.memory))
	})
}

// RunTasks runs tasks [begin, end) of a phase on the calling goroutine, for a run that goroutines share: with the same
// buffers and the same workspace, which NewWorkspace made after the step was set. Each task is to be run once, in any order; a
// phase begins when all tasks of the one before it are done, which is the caller's to see to. Who run at once have each a
// worker of their own, from 0 to what limits say.
func (s *Schedule) RunTasks(buffers *Buffers, workspace *Workspace, phase, begin, end, worker int) error {
	return s.reading(func() error {
		if err := buffers.check(&s.planned); err != nil {
			return err
		}
		if workspace == nil {
			return refuse(NullPointer, "workspace is nil, and goroutines that share a run share one")
		}
		tasks := taskRange{C.int64_t(phase), C.int64_t(begin), C.int64_t(end), C.int64_t(worker)}
		return buffers.runTasks(tasks, s.pointer(), &s.planned, workspace.pointer(), len(workspace.memory))
	})
}

// Phases is how many a run of the present step has, one after the other.
func (s *Schedule) Phases() int {
	return s.asked(func() int { return int(C.fovea_schedule_phases(s.pointer())) })
}

// Tasks is how many a phase has, in any order.
func (s *Schedule) Tasks(phase int) int {
	return s.asked(func() int { return int(C.fovea_schedule_tasks(s.pointer(), C.int64_t(phase))) })
}

// NewWorkspace makes scratch memory for a run of the present step.
func (s *Schedule) NewWorkspace() *Workspace {
	return &Workspace{memory: make([]byte, s.WorkspaceSize())}
}

// WorkspaceSize is how many bytes of scratch memory a run of the present step needs.
func (s *Schedule) WorkspaceSize() int {
	return s.asked(func() int { return int(C.fovea_schedule_workspace_size(s.pointer())) })
}

// Positions says where each token of the present step stands in its sequence.
func (s *Schedule) Positions() (positions []int32) {
	_ = s.reading(func() error {
		told := C.fovea_schedule_positions(s.pointer())
		if told.rank == 1 && told.shape[0] > 0 {
			positions = append(positions, unsafe.Slice((*int32)(told.data), int(told.shape[0]))...)
		}
		return nil
	})
	return positions
}

// Describe tells in a line how the present step runs; "" once the schedule was closed, and while another call sets it.
func (s *Schedule) Describe() (text string) {
	_ = s.reading(func() error {
		bytes := make([]byte, int(C.fovea_schedule_describe(s.pointer(), nil, 0))+1)
		C.fovea_schedule_describe(s.pointer(), (*C.char)(unsafe.Pointer(&bytes[0])), C.size_t(len(bytes)))
		text = string(bytes[:len(bytes)-1])
		return nil
	})
	return text
}

// reading keeps others from setting another step meanwhile.
func (s *Schedule) reading(call func() error) error {
	if s == nil {
		return refuse(NullPointer, "the schedule is nil")
	}
	held := uses{{s.held(), false}}
	if err := held.begin(); err != nil {
		return err
	}
	defer held.end()
	return call()
}

func (s *Schedule) asked(question func() int) (answer int) {
	_ = s.reading(func() error { answer = question(); return nil })
	return answer
}

// Close frees the schedule, when no call uses it any more.
func (s *Schedule) Close() { s.held().close() }
