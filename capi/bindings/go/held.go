package fovea

import (
	"sync/atomic"
	"unsafe"
)

// handle is an object of the library's and who uses it. C leaves it to its callers that nothing is freed or changed while it
// is in use; here a call that would do that is refused, and what is closed under a call or a plan lives on till that ends.
type handle struct {
	name    string
	raw     unsafe.Pointer
	destroy func(raw unsafe.Pointer)
	measure func(raw unsafe.Pointer) int64 // of what changes: its length
	needed  []*handle                      // those it uses as long as it lives
	closed  atomic.Bool
	holds   atomic.Int32 // the owner's, and one for each call and each handle that needs it
	users   atomic.Int32 // calls that read it; -1: one that changes it
	length  atomic.Int64 // as the last change left it
}

// open gives the handle its object, for its owner to hold.
func (h *handle) open(name string, raw unsafe.Pointer, destroy func(unsafe.Pointer), needed ...*handle) {
	h.name, h.raw, h.destroy, h.needed = name, raw, destroy, needed
	if h.measure != nil {
		h.length.Store(h.measure(raw))
	}
	h.holds.Store(1)
}

// pointer is for those who hold it.
func (h *handle) pointer() unsafe.Pointer {
	if h == nil {
		return nil
	}
	return h.raw
}

// ask answers with 0 for none, and for what was closed.
func (h *handle) ask(question func() int) int {
	if h == nil || h.hold() != nil {
		return 0
	}
	defer h.letGo()
	return question()
}

func (h *handle) len() int {
	if h == nil || h.closed.Load() {
		return 0
	}
	return int(h.length.Load())
}

// letGo ends a hold, and the object with the last one.
func (h *handle) letGo() {
	if h == nil || h.holds.Add(-1) > 0 {
		return
	}
	h.destroy(h.raw)
	for _, one := range h.needed {
		one.letGo()
	}
}

// hold keeps the object until letGo.
func (h *handle) hold() error {
	for h != nil {
		holds := h.holds.Load()
		if h.destroy == nil {
			return refuse(NullPointer, "a handle that was made by no function of this package")
		}
		if holds == 0 || h.closed.Load() {
			return refuse(BadValue, "the %s was closed", h.name)
		}
		if h.holds.CompareAndSwap(holds, holds+1) {
			break
		}
	}
	return nil
}

// close gives up the owner's hold, once.
func (h *handle) close() {
	if h != nil && h.holds.Load() > 0 && h.closed.CompareAndSwap(false, true) {
		h.letGo()
	}
}

// begin notes a call that reads the object, or one that changes it and is then alone with it.
func (h *handle) begin(changes bool) error {
	for {
		users := h.users.Load()
		if users < 0 || (changes && users > 0) {
			return refuse(BadValue, "the %s is in use by another call", h.name)
		}
		next := users + 1
		if changes {
			next = -1
		}
		if h.users.CompareAndSwap(users, next) {
			return nil
		}
	}
}

func (h *handle) end(changes bool) {
	if !changes {
		h.users.Add(-1)
		return
	}
	if h.measure != nil {
		h.length.Store(h.measure(h.raw))
	}
	h.users.Store(0)
}

// use is what a call does with a handle; nil is none.
type use struct {
	handle  *handle
	changes bool
}

// uses are all of a call.
type uses [3]use

func (u *uses) begin() error {
	for i := range u {
		one := &u[i]
		if one.handle == nil {
			continue
		}
		err := one.handle.hold()
		if err == nil {
			if err = one.handle.begin(one.changes); err == nil {
				continue
			}
			one.handle.letGo()
		}
		for rest := i; rest < len(u); rest++ {
			u[rest].handle = nil
		}
		u.end()
		return err
	}
	return nil
}

func (u *uses) end() {
	for i := range u {
		if one := &u[i]; one.handle != nil {
			one.handle.end(one.changes)
			one.handle.letGo()
		}
	}
}

// keep holds what a plan is going to need.
func keep(needed ...*handle) error {
	for i, one := range needed {
		if err := one.hold(); err != nil {
			giveUp(needed[:i])
			return err
		}
	}
	return nil
}

func giveUp(needed []*handle) {
	for _, one := range needed {
		one.letGo()
	}
}
