// Package fovea computes attention on CPUs: exact, tiled, in any strides, through the C library fovea.
//
// Shapes, formulas and errors are those of the C interface, whose manual is fovea.h; an operation here has its name there
// without "fovea_", and its options have the same names.
//
//   - A Tensor is laid over a slice and checked against it. It keeps the slice's memory alive, but like a slice it does not
//     keep others from it: nothing else may write what a call reads or writes meanwhile.
//   - Tensors, options and contexts that are optional may be nil. A nil *Context is the default one.
//   - Handles (contexts, plans, pools and their sequences, schedules, packed weights) are freed by Close, or else by the
//     garbage collector. What was closed is refused; what a call, a plan or a tensor still uses lives on till that ends.
//   - Calls may come from any number of goroutines, as long as outputs differ, a pool's pages among them. What would change
//     a pool, a schedule or prepared keys while another call uses them is refused: BadValue, "in use".
//
// SPDX-License-Identifier: Apache-2.0
package fovea

/*
#cgo CFLAGS: -std=c99 -O2
#cgo pkg-config: ${SRCDIR}/use.sh-says-what-helps.pc
#include "generated_shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Error is a failed call: what kind of failure, and one line that names the argument, its value and what was expected.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the status, for errors.Is(err, fovea.BadShape).
func (e *Error) Unwrap() error { return e.Status }

// ErrPoolExhausted is what errors.Is finds where a pool has too few pages left, or sequences.
var ErrPoolExhausted error = PoolExhausted

// String is the status's name in C, "FOVEA_BAD_SHAPE".
func (s Status) String() string { return C.GoString(C.fovea_status_name(C.fovea_status(s))) }

// Error is the status's name, as String is.
func (s Status) Error() string { return s.String() }

// The message came with the status, in the C function that made the call: by now this goroutine may be elsewhere.
func finish(result C.go_result) error {
	if result.status == C.FOVEA_OK {
		return nil
	}
	message := ""
	if result.message != nil {
		message = C.GoString(result.message)
		C.free(unsafe.Pointer(result.message))
	}
	return &Error{Status(result.status), message}
}

// Given is for options that are pointers, since 0 is another number than none: AttentionOptions{Scale: Given[float32](0)}.
func Given[Number float32 | int64](value Number) *Number { return &value }

// Version of the library that is loaded.
func Version() string { return C.GoString(C.fovea_version()) }

// IsaAvailable lists the instruction sets that this machine can run, worst first.
func IsaAvailable() []string {
	var names []string
	for index := C.int32_t(0); ; index++ {
		name := C.fovea_isa_available(index)
		if name == nil {
			return names
		}
		names = append(names, C.GoString(name))
	}
}

// ContextOptions are what a Context is made with; the zero value is the default.
type ContextOptions struct {
	MaxThreads int       // at most this many at once; 0: as many as there are
	Precision  Precision // of calls that do not say their own
	MaxIsa     string    // "base", "avx2", "avx512" or "amx"; "": what the environment's FOVEA_ISA says, else the best but "amx"
}

// Context says where work runs: how many threads, which instruction set. nil is the default one.
type Context struct{ handle }

// NewContext makes a context; options may be nil.
func NewContext(options *ContextOptions) (*Context, error) {
	if options == nil {
		options = &ContextOptions{}
	}
	var name *C.char
	if options.MaxIsa != "" {
		name = C.CString(options.MaxIsa)
		defer C.free(unsafe.Pointer(name))
	}
	result := C.go_fovea_context_create(C.int32_t(options.MaxThreads), C.int32_t(options.Precision), name)
	if err := finish(result); err != nil {
		return nil, err
	}
	context := &Context{}
	context.open("context", result.made, func(raw unsafe.Pointer) { C.fovea_context_destroy((*C.fovea_context)(raw)) })
	runtime.SetFinalizer(context, (*Context).Close)
	return context, nil
}

func (c *Context) held() *handle {
	if c == nil {
		return nil
	}
	return &c.handle
}

func (c *Context) pointer() *C.fovea_context { return (*C.fovea_context)(c.held().pointer()) }

// Close frees the context, when no call uses it any more, and no plan that was made with it is left.
func (c *Context) Close() { c.held().close() }

// IsaName is the instruction set the context runs. It panics if the context was closed, which would be taken for the
// default one.
func (c *Context) IsaName() string {
	Must(true, c.held().hold())
	defer c.held().letGo()
	return C.GoString(C.fovea_isa_name(c.pointer()))
}

// Threads says how many threads a call may use at once. It panics if the context was closed.
func (c *Context) Threads() int {
	Must(true, c.held().hold())
	defer c.held().letGo()
	return int(C.fovea_context_threads(c.pointer()))
}
