package fovea

/*
#include "generated_shim.h"
*/
import "C"

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// FourBits are two features of 4 bits in a byte, as values may be kept. A plain byte is a mask's.
type FourBits uint8

// Element is what tensors are made of: float32, Float16 and BFloat16, int8 and FourBits for what is quantized, integers for
// lengths and positions, bool or bytes for masks. Which of them an argument takes is the operation's to say.
type Element interface {
	float32 | Float16 | BFloat16 | int8 | FourBits | int32 | int64 | bool | uint8
}

// Tensor is a view of a slice, or of a pool's pages: its data, shape and strides in elements.
type Tensor struct {
	desc C.go_view
	data unsafe.Pointer
	pool *handle // which it keeps, if it is of one's pages
}

func dtypeOf[T Element]() C.int32_t {
	switch any(*new(T)).(type) {
	case float32:
		return C.FOVEA_F32
	case Float16:
		return C.FOVEA_F16
	case BFloat16:
		return C.FOVEA_BF16
	case int8:
		return C.FOVEA_I8
	case FourBits:
		return C.FOVEA_U8
	case int32:
		return C.FOVEA_I32
	case int64:
		return C.FOVEA_I64
	default:
		return C.FOVEA_BOOL
	}
}

// Bytes of an element.
func sizeOf(dtype C.int32_t) int {
	switch dtype {
	case C.FOVEA_I64:
		return 8
	case C.FOVEA_F32, C.FOVEA_I32:
		return 4
	case C.FOVEA_F16, C.FOVEA_BF16:
		return 2
	default:
		return 1
	}
}

func refuse(status Status, format string, values ...any) error {
	return &Error{status, fmt.Sprintf(format, values...)}
}

func describe[T Element](shape []int, strides []int) (C.go_view, error) {
	var desc C.go_view
	if len(shape) > C.FOVEA_MAX_RANK {
		return desc, refuse(BadRank, "shape has %d axes, expected at most %d", len(shape), C.FOVEA_MAX_RANK)
	}
	if strides != nil && len(strides) != len(shape) {
		return desc, refuse(BadStride, "%d strides for %d axes", len(strides), len(shape))
	}
	desc.dtype, desc.rank = dtypeOf[T](), C.int32_t(len(shape))
	step := 1
	for axis := len(shape) - 1; axis >= 0; axis-- {
		if shape[axis] < 0 {
			return desc, refuse(BadShape, "shape is %v, expected no negative size", shape)
		}
		desc.shape[axis], desc.strides[axis] = C.int64_t(shape[axis]), C.int64_t(step)
		if strides != nil {
			desc.strides[axis] = C.int64_t(strides[axis])
		}
		if shape[axis] > 0 {
			var fits bool
			if step, fits = times(step, shape[axis]); !fits {
				return desc, refuse(SizeOverflow, "shape %v has too many elements", shape)
			}
		}
	}
	return desc, nil
}

// times multiplies a by b >= 0, if that fits.
func times(a, b int) (int, bool) {
	magnitude := uint64(a)
	if a < 0 {
		magnitude = -magnitude
	}
	high, low := bits.Mul64(magnitude, uint64(b))
	return a * b, high == 0 && low <= 1<<62
}

// reach gives the lowest and the highest element from the first, ok if there are any and both fit.
func reach(desc *C.go_view) (lowest, highest int, ok bool) {
	for axis := 0; axis < int(desc.rank); axis++ {
		if desc.shape[axis] == 0 {
			return 0, -1, false
		}
		far, fits := 0, true
		if desc.shape[axis] > 1 {
			far, fits = times(int(desc.strides[axis]), int(desc.shape[axis]-1))
		}
		if far < 0 {
			lowest += far
		} else {
			highest += far
		}
		if !fits || lowest < -(1<<62) || highest > 1<<62 {
			return 0, -1, false
		}
	}
	return lowest, highest, true
}

func isEmpty(desc *C.go_view) bool {
	for axis := 0; axis < int(desc.rank); axis++ {
		if desc.shape[axis] == 0 {
			return true
		}
	}
	return false
}

// New makes a row-major tensor that fills the slice. Without sizes it is of rank 1.
func New[T Element](data []T, shape ...int) (*Tensor, error) {
	if len(shape) == 0 {
		shape = []int{len(data)}
	}
	desc, err := describe[T](shape, nil)
	if err != nil {
		return nil, err
	}
	elements := 1
	for _, size := range shape {
		elements *= size
	}
	if elements != len(data) {
		return nil, refuse(BadShape, "shape %v has %d elements, the slice %d", shape, elements, len(data))
	}
	return &Tensor{desc: desc, data: pointer(data, 0)}, nil
}

// Must is for shapes that are known to fit: it panics if there is an error.
func Must[V any](value V, err error) V {
	if err != nil {
		panic(err)
	}
	return value
}

// Strided makes a tensor whose element (i0, i1, ...) is data[offset + i0*strides[0] + i1*strides[1] + ...]. A stride of 0
// repeats.
func Strided[T Element](data []T, offset int, shape, strides []int) (*Tensor, error) {
	if strides == nil {
		strides = []int{}
	}
	desc, err := describe[T](shape, strides)
	if err != nil {
		return nil, err
	}
	if isEmpty(&desc) {
		return &Tensor{desc: desc, data: pointer(data, 0)}, nil
	}
	lowest, highest, ok := reach(&desc)
	if !ok || offset < 0 || offset >= len(data) || offset+lowest < 0 || highest >= len(data)-offset {
		return nil, refuse(BadShape, "shape %v with strides %v from element %d on does not lie within a slice of %d", shape,
			strides, offset, len(data))
	}
	return &Tensor{desc: desc, data: pointer(data, offset)}, nil
}

// ShapeOnly makes a row-major tensor without data, for plans.
func ShapeOnly[T Element](shape ...int) (*Tensor, error) {
	desc, err := describe[T](shape, nil)
	if err != nil {
		return nil, err
	}
	return &Tensor{desc: desc}, nil
}

// Something to point to where a slice has no memory: NULL would be an error.
var nothing [8]byte

func pointer[T Element](data []T, offset int) unsafe.Pointer {
	if len(data) == 0 {
		return unsafe.Pointer(&nothing)
	}
	return unsafe.Pointer(&data[offset])
}

func (t *Tensor) view() *C.go_view {
	if t == nil {
		return nil
	}
	return &t.desc
}

// Of a type without pointers, so that cgo has nothing to look for.
func (t *Tensor) bytes() *C.uchar {
	if t == nil {
		return nil
	}
	return (*C.uchar)(t.data)
}

// Where a planned tensor lies in a run's slice: how many elements that has at least, and which is the tensor's first.
type layout struct {
	dtype      C.int32_t
	len, first int
}

func (t *Tensor) layout() layout {
	if t == nil {
		return layout{}
	}
	lowest, highest, _ := reach(&t.desc)
	return layout{t.desc.dtype, highest - lowest + 1, -lowest}
}

// Data is a slice that a planned run reads or writes.
type Data struct {
	pointer unsafe.Pointer
	len     int
	dtype   C.int32_t
	size    int
	tensor  *Tensor // whose memory it is, where it was made of one
}

// Slice makes Data of a slice.
func Slice[T Element](data []T) Data {
	return Data{pointer(data, 0), len(data), dtypeOf[T](), int(unsafe.Sizeof(*new(T))), nil}
}

// DataOf makes Data of all that a tensor reaches: of a pool's pages, say.
func DataOf(tensor *Tensor) Data {
	if tensor == nil || tensor.data == nil {
		return Data{}
	}
	size, reached := sizeOf(tensor.desc.dtype), tensor.layout()
	return Data{unsafe.Add(tensor.data, -reached.first*size), reached.len, reached.dtype, size, tensor}
}

// Shape gives the sizes of the axes.
func (t *Tensor) Shape() []int {
	shape := make([]int, t.desc.rank)
	for axis := range shape {
		shape[axis] = int(t.desc.shape[axis])
	}
	return shape
}

// check refuses what does not fit; what is missing the library refuses.
func (d *Data) check(planned *layout, name string) error {
	if d.pointer == nil || (d.dtype == planned.dtype && d.len >= planned.len) {
		return nil
	}
	if planned.dtype == 0 {
		return refuse(BadValue, "buffers.%s was not planned", name)
	}
	if d.dtype != planned.dtype {
		return refuse(BadDtype, "buffers.%s has elements of type %d, %d were planned", name, d.dtype, planned.dtype)
	}
	return refuse(BadShape, "buffers.%s has %d elements, the plan needs %d", name, d.len, planned.len)
}

func (d *Data) at(planned *layout) *C.uchar {
	if d.pointer == nil {
		return nil
	}
	return (*C.uchar)(unsafe.Add(d.pointer, planned.first*d.size))
}
